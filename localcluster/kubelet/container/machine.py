"""The values that all Pods of this node share."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from framework.api import constants
from framework.clock import Clock
from framework.kube.client import KubeClient
from localcluster.kubelet.container.forkserver_process import ForkServerProcess
from localcluster.kubelet.container.process import Namespaces
from localcluster.kubelet.container.restarts import BackoffBounds
from localcluster.kubelet.container.security import Host
from localcluster.kubelet.events import EventRecorder
from localcluster.kubelet.logs import LogStore
from localcluster.network.pod_network import PodNetwork
from localcluster.syscalls import has_mount_attributes

HOST_IP = "127.0.0.1"
# The folder that holds the packages of this installation: ``python -m barrier`` works from there.
_INSTALLATION = str(Path(__file__).parents[3])


@dataclass(frozen=True, slots=True)
class Machine:
    """The node, as its Pods' workers need it."""

    client: KubeClient
    """Client of the API server."""
    clock: Clock
    """Wall and monotonic time."""
    node_name: str
    """The name of the Node."""
    root: Path
    """The directory of the kubelet."""
    fork_server: ForkServerProcess
    """Starts containers."""
    namespaces: Namespaces
    """The namespaces that containers can have on this host."""
    api_address: str
    """Address of the API server for programs of this machine; Pods may use another one."""
    account: Mapping[str, bytes]
    """Files of the service account, except ``namespace``."""
    logs: LogStore
    """The logs of containers."""
    events: EventRecorder
    """Writes Events."""
    network: PodNetwork
    """The network of the Pods."""
    backoff: BackoffBounds
    """The pauses between restarts."""
    host_env: Mapping[str, str]
    """The kubelet's own environment."""
    allocatable: Mapping[str, str] = field(default_factory=dict)
    """``status.allocatable`` of the Node, for the downward API."""

    def build_base_environment(self, hostname: str) -> dict[str, str]:
        """Build the variables of every process; no others of the host are passed on."""
        path = self.host_env.get("PATH") or os.defpath
        return {
            # Last, so that a host without python3 still runs scripts written for images with it.
            "PATH": f"{path}{os.pathsep}{Path(sys.executable).parent}",
            "HOME": self.host_env.get("HOME") or "/",
            "LANG": self.host_env.get("LANG") or "C.UTF-8",
            "HOSTNAME": hostname,
        }

    @property
    def host(self) -> Host:
        """Return the properties of this host that limit containers."""
        return Host(
            uid=os.geteuid(),
            has_private_root=self.namespaces.private_root,
            has_user_namespace=self.namespaces.user,
            can_write_protect=has_mount_attributes(),
        )

    @property
    def passages(self) -> tuple[str, ...]:
        """Return the paths that a container of another user must reach: this package, Python."""
        return (_INSTALLATION, sys.prefix, sys.base_prefix)

    def find_api_address(self, *, on_host_network: bool) -> str:
        """Find the address of the API server for a Pod."""
        return self.api_address if on_host_network else self.network.api_address

    def build_cluster_environment(self, api_address: str) -> dict[str, str]:
        """Build the variables by which in-cluster clients find the API server."""
        address = urlsplit(api_address)
        return {
            "KUBERNETES_SERVICE_HOST": str(address.hostname),
            "KUBERNETES_SERVICE_PORT": str(address.port),
        }

    def build_agent_environment(self, api_address: str, termination_log: str) -> dict[str, str]:
        """Build further variables for our own images: the local API server has no TLS."""
        return {
            **self.build_access_environment(api_address),
            constants.WORKING_DIR_ENV: constants.WORKING_DIR,
            constants.TERMINATION_LOG_ENV: termination_log,
            "PYTHONPATH": _INSTALLATION,
        }

    def build_access_environment(self, api_address: str) -> dict[str, str]:
        """Build the variables by which an agent in any image finds the API server."""
        return {
            constants.KUBE_APISERVER_ADDRESS_ENV: api_address,
            constants.SERVICE_ACCOUNT_DIR_ENV: constants.SERVICE_ACCOUNT_DIR,
        }
