"""``GET pods/NAME/log``: reads the options and asks a ``PodLogSource``, which the kubelet provides.

A server without a kubelet answers 501.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

from localcluster.apiserver.front.targets import read_flag, read_number, read_time
from localcluster.apiserver.model.errors import StatusError, bad_request
from localcluster.apiserver.model.options import ContainerLog, LogReadOptions


class PodLogSource(Protocol):
    """Reads the output of containers."""

    def stream(self, log: ContainerLog, options: LogReadOptions) -> AsyncIterator[bytes]:
        """Yield the log in pieces.

        Implemented as an async generator. It may raise StatusError before its first piece.
        """
        ...


def choose_container(pod: dict[str, Any], wanted: str | None) -> str:
    """Return the requested container; it needs no name if the Pod has only one."""
    spec, name = pod.get("spec") or {}, pod["metadata"]["name"]
    kinds = ("initContainers", "containers", "ephemeralContainers")
    known = [str(container["name"]) for kind in kinds for container in spec.get(kind) or ()]
    if wanted is not None and wanted in known:
        return wanted
    if wanted is not None:
        raise bad_request(f"container {wanted} is not valid for pod {name}")
    mains = [str(container["name"]) for container in spec.get("containers") or ()]
    if len(mains) == 1:
        return mains[0]
    choice = " ".join(mains)
    text = f"a container name must be specified for pod {name}, choose one of: [{choice}]"
    inits = " ".join(str(container["name"]) for container in spec.get("initContainers") or ())
    raise bad_request(f"{text} or one of the init containers: [{inits}]" if inits else text)


def open_log(
    source: PodLogSource | None, pod: dict[str, Any], query: Mapping[str, str]
) -> AsyncIterator[bytes]:
    """Start to read a container's log, by the options of the query."""
    since_seconds, since_time = read_number(query, "sinceSeconds"), read_time(query, "sinceTime")
    if since_seconds is not None and since_time is not None:
        text = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        raise StatusError(422, "Invalid", text)
    metadata = pod["metadata"]
    container = choose_container(pod, query.get("container") or None)
    if source is None:
        text = "this server has no kubelet, so there are no container logs"
        raise StatusError(501, "NotImplemented", text)
    options = LogReadOptions(
        follow=read_flag(query, "follow"),
        previous=read_flag(query, "previous"),
        timestamps=read_flag(query, "timestamps"),
        tail_lines=read_number(query, "tailLines"),
        since_seconds=since_seconds,
        since_time=since_time,
        limit_bytes=read_number(query, "limitBytes"),
    )
    return source.stream(ContainerLog(metadata["namespace"], metadata["name"], container), options)
