"""The choice of containers and of the lines of their logs. Pure."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from typing import NamedTuple, Protocol
from urllib.parse import urlencode

from framework.kube.resources import PODS, Object


class LogSource(NamedTuple):
    """A container of a Pod, whose log is read."""

    namespace: str
    pod: str
    container: str
    uid: str | None = None
    """UID of the Pod; None for the newest Pod of this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """The logs to read of each Pod, and the lines of each log."""

    container: str | None = None
    """None for the first container of the Pod."""
    all_containers: bool = False
    """Read all containers and init containers."""
    previous: bool = False
    """The run before the last restart of the container."""
    tail_lines: int | None = None
    """Only so many lines of the end of each log."""
    since_seconds: int | None = None
    """Only lines that are not older, by the clock of the node."""
    since_time: datetime | None = None
    """Only lines that were written since then."""
    timestamps: bool = False
    """Print the time of each line."""

    @property
    def wants_all_times(self) -> bool:
        """Return whether lines of any age are read."""
        return self.since_seconds is None and self.since_time is None

    def choose_containers(self, pod: Object) -> list[str]:
        """Choose the containers of a Pod whose logs are read; they may not exist."""
        if self.all_containers:
            return list_containers(pod)
        return [self.container or str(pod["spec"]["containers"][0]["name"])]

    def build_path(
        self, pod: Object, container: str, *, follow: bool = False, stamped: bool = False
    ) -> str:
        """Build path and query of a log.

        Args:
            pod: whose log.
            container: one of its containers.
            follow: go on until the container ends.
            stamped: the server writes the time in front of each line, also if the user does not
                want to see it.
        """
        query = {
            "container": container,
            "follow": "true" if follow else None,
            "previous": "true" if self.previous else None,
            "tailLines": self.tail_lines,
            "sinceSeconds": self.since_seconds,
            "sinceTime": None if self.since_time is None else _format_time(self.since_time),
            "timestamps": "true" if self.timestamps or stamped else None,
        }
        stated = {key: value for key, value in query.items() if value is not None}
        metadata = pod["metadata"]
        path = PODS.path(metadata["namespace"], metadata["name"], "log")
        return f"{path}?{urlencode(stated)}"


class KeptLogs(Protocol):
    """The logs that a local cluster keeps longer than its Pods (``cli.local.keptlogs``)."""

    def stream(
        self, source: LogSource, query: LogQuery = ..., *, follow: bool = ...
    ) -> AsyncGenerator[bytes]:
        """Yield a log in pieces; with ``follow`` until the container has ended."""
        ...


def list_containers(pod: Object) -> list[str]:
    """List the names of the containers of a Pod, init containers last."""
    kinds = ("containers", "initContainers")
    return [str(each["name"]) for kind in kinds for each in pod["spec"].get(kind) or ()]


def round_since(since: float | None) -> int | None:
    """Round the age of the oldest line up to whole seconds; None for all lines."""
    return None if since is None else max(1, ceil(since))


def _format_time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def find_status(pod: Object, container: str) -> Mapping[str, object]:
    """Find the status of a container; empty before it is known."""
    status = pod.get("status") or {}
    for kind in ("containerStatuses", "initContainerStatuses"):
        for each in status.get(kind) or ():
            if each.get("name") == container:
                return dict(each)
    return {}
