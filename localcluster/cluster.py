"""A Kubernetes on one machine: API server, garbage collector, kubelet and controller.

Everything but the controller runs in the caller's event loop. The controller is a child process, as
it would be a Pod of its own, and is started again when it ends. For development and tests.

    LocalClusterError   the cluster cannot start; the message has the remedy
    PartFailedError     a part of the running cluster failed for good
"""

import asyncio
import contextlib
import logging
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from framework.api.constants import GPU_RESOURCE
from framework.api.crd import build_crd
from framework.clock import Clock, Random, UidSource
from framework.kinds.catalog import KINDS
from framework.kinds.crd import build_crds
from framework.kube.client import KubeClient
from framework.kube.config import KubeConfig
from framework.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from framework.kube.tokenurl import url_with_token
from localcluster.apiserver.server import ApiServer
from localcluster.apiserver.storage import Storage
from localcluster.descriptors import raised_limit
from localcluster.kubelet.container.sandbox import Isolation
from localcluster.kubelet.kubelet import Kubelet
from localcluster.kubelet.logs import LogStore
from localcluster.kubelet.pod.admission import Capacity
from localcluster.network.choice import NetworkChoice
from localcluster.private_files import (
    ExposedError,
    claim,
    make_private_directory,
    read_regular_file,
    write_private_file,
)
from localcluster.supervisor import Supervisor

logger = logging.getLogger(__name__)

NAME = "frameworkbarrier-local"
"""Name of the cluster, its user and its context in the kubeconfig."""
NODE_NAME = "local"
HOST = "127.0.0.1"
# A free port, because several local clusters may run on one machine.
CONTROLLER_ARGUMENTS = ("--health-port", "0", "--watch-nodes")
KINDS_ARGUMENTS = ("--kinds", ",".join(kind.lower() for _, kind in KINDS))
# A kubeconfig of a local cluster has less than 1 KiB.
_MAX_KUBECONFIG_BYTES = 65536
# Longer than the grace period that the kubelet gives its Pods.
_KUBELET_STOP_SECONDS = 15.0


class LocalClusterError(Exception):
    """The local cluster cannot start here."""


class PartFailedError(Exception):
    """A part of the running cluster failed for good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """The parts of the cluster, and their settings."""

    directory: Path
    """Folder of all files of the cluster; created if missing."""
    port: int = 0
    """Port of the API server; 0 takes a free one."""
    with_kubelet: bool = True
    """Whether the kubelet runs. Without it, Pods stay Pending, for tests with a fake kubelet."""
    with_controller: bool = True
    """Whether the controller runs. Without it, a developer can start one in a debugger."""
    with_kinds: bool = False
    """Whether the other kinds of jobs are served; the controller then runs them, too."""
    kubeconfig_path: Path | None = None
    """Path of the kubeconfig; None for one in the directory."""
    isolation: Isolation = Isolation.AUTO
    """How volumes appear at their mountPath."""
    network: NetworkChoice = NetworkChoice.AUTO
    """The network of the Pods."""
    gpus: int = 0
    """Number of GPUs of the node. Requests of Pods are counted; no device is assigned."""


class LocalCluster:
    """A running local cluster. Use it in ``async with``.

    If a part of it fails for good, the ``async with`` block is cancelled and ends with a
    PartFailedError.

    Attributes:
        kubeconfig_path: the kubeconfig for kubectl; contains the token.
        kube_config: the same configuration for ``KubeClient``.
        logs_path: directory of the containers' logs.
        logs: reads these logs, also of deleted Pods.
        kubelet: None without one.
        controller: None without one.
    """

    def __init__(
        self, options: ClusterOptions, *, clock: Clock, uids: UidSource, random: Random
    ) -> None:
        """Prepare; nothing is started or written yet."""
        self.options = options
        self.directory = options.directory.absolute()
        self.kubeconfig_path = (options.kubeconfig_path or self.directory / "kubeconfig").absolute()
        self.logs_path = self.directory / "logs"
        self._kubelet_path = self.directory / "kubelet"
        self.kube_config = KubeConfig(server="", token=secrets.token_hex(32))
        self.logs = LogStore(self.logs_path, clock)
        self.kubelet: Kubelet | None = None
        self.controller: Supervisor | None = None
        self._clock = clock
        self._uids = uids
        self._random = random
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Start everything; on return the API server answers."""
        async with contextlib.AsyncExitStack() as stack:
            self._open_directory()
            stack.enter_context(self._locked_directory())
            stack.enter_context(raised_limit())
            stack.callback(self._close_directory)
            await self._start_parts(stack)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        """Stop everything in order: controller, Pods, API server."""
        try:
            return await self._stack.__aexit__(exc_type, exc, traceback)
        except BaseExceptionGroup as group:
            # The parts run in task groups, which wrap each exception of the block.
            failures = [error for error in _flatten(group) if error is not exc]
            if failures:
                raise PartFailedError("; ".join(map(str, failures))) from group
            return None

    async def ready(self) -> str:
        """Wait until Pods can run; return the limits of the network on this host, "" for none."""
        if self.kubelet is None:
            return ""
        await self.kubelet.synced.wait()
        return self.kubelet.network_limits

    async def _start_parts(self, stack: contextlib.AsyncExitStack) -> None:
        # Plain HTTP has no certificate, but manifests made for a cluster mount it.
        storage = Storage(self._clock, self._uids, root_certificate="")
        definitions = build_crds() if self.options.with_kinds else {}
        for definition in (build_crd(), *definitions.values()):
            _create(storage, CUSTOM_RESOURCE_DEFINITIONS, definition)
        server = ApiServer(
            storage, clock=self._clock, tokens=[self.kube_config.token or ""], pod_logs=self.logs
        )
        await stack.enter_async_context(server)
        address = await self._start_server(server)
        self.kube_config = KubeConfig(server=address, token=self.kube_config.token)
        self._write_kubeconfig()
        # The kubeconfig is useless without the server.
        stack.callback(self._remove_kubeconfig)
        logger.info("API server started", extra={"server": address})
        if self.options.with_kubelet:
            await self._start_kubelet(stack, server)
        if self.options.with_controller:
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            self.controller = self._build_controller()
            task = tasks.create_task(self.controller.run(), name="controller-supervisor")
            stack.callback(task.cancel)

    async def _start_server(self, server: ApiServer) -> str:
        try:
            return await server.start(HOST, self.options.port)
        except OSError as e:
            raise LocalClusterError(f"--port: {e}") from e

    async def _start_kubelet(self, stack: contextlib.AsyncExitStack, server: ApiServer) -> None:
        client = KubeClient(self.kube_config, user_agent="local-kubelet", clock=self._clock)
        self.kubelet = kubelet = Kubelet(
            await stack.enter_async_context(client),
            clock=self._clock,
            root=self._kubelet_path,
            api_address=self.kube_config.server,
            service_account_token=self.kube_config.token or "",
            node_name=NODE_NAME,
            isolation=self.options.isolation,
            network=self.options.network,
            capacity=Capacity({GPU_RESOURCE: self.options.gpus} if self.options.gpus else {}),
            serve_api=server.serve,
            logs=self.logs,
            random=self._random,
        )
        server.attach_pods(kubelet)
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        task = tasks.create_task(kubelet.run(), name="kubelet")
        stack.push_async_callback(_stop_kubelet, kubelet, task)

    def _build_controller(self) -> Supervisor:
        command = [sys.executable, "-P", "-m", "controller"]
        command += ["--kubeconfig", str(self.kubeconfig_path)]
        # Without the token: the controller sends it in a header, so that no log contains it.
        command += ["--address", self.kube_config.server, *CONTROLLER_ARGUMENTS]
        command += KINDS_ARGUMENTS if self.options.with_kinds else ()
        # Variables of this user's shell for another cluster must not override the kubeconfig.
        env = {k: v for k, v in os.environ.items() if not k.startswith(("KUBE", "FRAMEWORKC"))}
        return Supervisor(
            "controller",
            command,
            log_path=self.directory / "controller.log",
            env=env,
            clock=self._clock,
        )

    def _open_directory(self) -> None:
        try:
            make_private_directory(self.directory)
            make_private_directory(self.logs_path)
            probe = self.directory / ".writable"
            probe.touch()
            probe.unlink()
        except ExposedError as e:
            raise LocalClusterError(f"--directory: {e}") from e
        except OSError as e:
            raise LocalClusterError(
                f"--directory: cannot write to {self.directory}: {e.strerror}; "
                "give a directory you may write to"
            ) from e

    @contextlib.contextmanager
    def _locked_directory(self) -> Iterator[None]:
        """Lock the directory against other clusters; the lock ends with this process."""
        # The lock is on the directory itself, so that no file of it is left behind.
        descriptor = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if not claim(descriptor):
                raise LocalClusterError(
                    f"--directory: a local cluster runs already in {self.directory}; end it (with "
                    "`framework local down --directory DIR`, or Ctrl-C where it was started), or "
                    "give another directory"
                )
            yield
        finally:
            os.close(descriptor)

    def _close_directory(self) -> None:
        """Remove the files that only a running cluster needs, and no other file."""
        shutil.rmtree(self._kubelet_path, ignore_errors=True)

    def _remove_kubeconfig(self) -> None:
        """Remove the kubeconfig, unless another program has replaced it."""
        if _is_own_kubeconfig(self.kubeconfig_path):
            self.kubeconfig_path.unlink(missing_ok=True)

    def _write_kubeconfig(self) -> None:
        """Write the kubeconfig in one step; only its owner can read it."""
        path = self.kubeconfig_path
        text = yaml.safe_dump(_build_kubeconfig(self.kube_config), sort_keys=False)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if os.path.lexists(path) and not _is_own_kubeconfig(path):
                raise LocalClusterError(
                    f"--kubeconfig: {path} exists and is not of a local cluster; "
                    "name another file, so that yours is not overwritten"
                )
            write_private_file(path, text)
        except ExposedError as e:
            raise LocalClusterError(f"--kubeconfig: {e}") from e
        except OSError as e:
            raise LocalClusterError(
                f"--kubeconfig: cannot write {path}: {e.strerror}; name another file"
            ) from e


def _is_own_kubeconfig(path: Path) -> bool:
    """Return whether a kubeconfig is of a local cluster and holds nothing else."""
    try:
        config = yaml.safe_load(read_regular_file(path, _MAX_KUBECONFIG_BYTES))
        names = {e["name"] for part in ("clusters", "users", "contexts") for e in config[part]}
    except (OSError, yaml.YAMLError, UnicodeDecodeError, KeyError, TypeError, RecursionError):
        return False
    return names == {NAME}


def _flatten(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _flatten(error)
        else:
            yield error


async def _stop_kubelet(kubelet: Kubelet, task: "asyncio.Task[None]") -> None:
    """Let the kubelet end its Pods, if it has any and still runs."""
    if kubelet.synced.is_set():
        stopping = asyncio.create_task(kubelet.stop(), name="kubelet-stop")
        await asyncio.wait(
            {task, stopping},
            timeout=_KUBELET_STOP_SECONDS,
            return_when=asyncio.FIRST_COMPLETED,
        )
        stopping.cancel()
    # A kubelet that is not synced ignores ``stop``, and may wait for the API server for ever.
    task.cancel()


def _create(storage: Storage, resource: Resource, body: dict[str, object]) -> None:
    found = storage.registry.find(resource.group, resource.version, resource.plural)
    if found is None:
        raise AssertionError(f"the API server does not serve {resource.plural}")
    storage.create(found, None, body)


def _build_kubeconfig(config: KubeConfig) -> dict[str, object]:
    # kubectl sends no token of a user over plain HTTP, so the URL has it, too.
    server = url_with_token(config.server, config.token or "")
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": {"server": server}}],
        "users": [{"name": NAME, "user": {"token": config.token}}],
        "contexts": [
            {"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": "default"}}
        ],
        "current-context": NAME,
    }
