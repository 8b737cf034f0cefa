"""The interface of the kubelet for ``pods/exec`` and ``pods/portforward``."""

from typing import Protocol

from localcluster.apiserver.front.pod_exec import PodCommands
from localcluster.apiserver.front.pod_ports import PodPorts


class RunningPods(PodCommands, PodPorts, Protocol):
    """Reaches the containers of running Pods."""
