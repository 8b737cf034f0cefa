"""The tree of a Framework: roles, Tasks, their Pods and their earlier attempts. Pure.

``build_tree`` builds the structure that ``-o json`` prints, and ``cli.see.drawing`` draws. The
status has the newest attempt only; the failures of earlier attempts come from the Events.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from cli.running.viewbuilder import build_view
from cli.running.views import GangView, TaskLine
from cli.see.eventlog import EventRecord
from cli.see.observation import ObservedFramework
from framework.api.durations import format_seconds
from framework.api.naming import build_pod_name
from framework.api.wire import format_time
from framework.kube.resources import Object

_TASK_FAILED = "TaskFailed"
_ATTEMPT_FAILED = "AttemptCompleted"


@dataclass(frozen=True, slots=True)
class PodNode:
    """A Pod."""

    name: str
    phase: str
    node: str
    ip: str
    restarts: int

    def to_wire(self) -> Object:
        """Build the form that ``-o json`` prints."""
        return {
            "name": self.name,
            "phase": self.phase,
            "node": self.node,
            "ip": self.ip,
            "restarts": self.restarts,
        }


@dataclass(frozen=True, slots=True)
class PastFailure:
    """A failure, and how many attempts ended with it."""

    text: str
    count: int
    last_at: datetime

    def describe(self, now: datetime) -> str:
        """Describe it with its age."""
        age = format_seconds(max(0.0, (now - self.last_at).total_seconds()))
        return f"{self.text} ({f'{self.count} times, last ' if self.count > 1 else ''}{age} ago)"

    def to_wire(self) -> Object:
        """Build the form that ``-o json`` prints."""
        last = format_time(self.last_at)
        return {"message": self.text, "count": self.count, "lastTimestamp": last}


@dataclass(frozen=True, slots=True)
class TaskNode:
    """A Task, its Pod and how its earlier attempts failed."""

    line: TaskLine
    pod: PodNode | None
    failures: tuple[PastFailure, ...] = ()

    def to_wire(self) -> Object:
        """Build the form that ``-o json`` prints."""
        return {
            "name": str(self.line.key),
            "index": self.line.key.index,
            "state": self.line.state,
            "attempt": self.line.attempt,
            "note": self.line.note,
            "failures": [failure.to_wire() for failure in self.failures],
            "pod": None if self.pod is None else self.pod.to_wire(),
        }


@dataclass(frozen=True, slots=True)
class RoleNode:
    """A role and its Tasks."""

    name: str
    tasks: tuple[TaskNode, ...]

    def to_wire(self) -> Object:
        """Build the form that ``-o json`` prints."""
        return {
            "name": self.name,
            "states": dict(Counter(task.line.state for task in self.tasks)),
            "tasks": [task.to_wire() for task in self.tasks],
        }


@dataclass(frozen=True, slots=True)
class FrameworkNode:
    """A Framework and its objects."""

    view: GangView
    """Its state, as progress shows it."""
    namespace: str
    """Its namespace."""
    objects: tuple[str, ...]
    """Objects besides the Pods, as kind/name."""
    roles: tuple[RoleNode, ...]
    """Its roles, in the order of the status."""
    failures: tuple[PastFailure, ...] = ()
    """How earlier attempts of the Framework failed."""
    hidden: tuple[str, ...] = ()
    """Rights that the user lacks to see more."""

    def to_wire(self) -> Object:
        """Build the form that ``-o json`` prints."""
        return {
            "kind": "FrameworkTree",
            "metadata": {"name": self.view.name, "namespace": self.namespace},
            "state": self.view.state,
            "attempt": self.view.attempt,
            "note": self.view.note,
            "failures": [failure.to_wire() for failure in self.failures],
            "objects": list(self.objects),
            "roles": [role.to_wire() for role in self.roles],
            "lackingRights": list(self.hidden),
        }


def build_tree(observed: ObservedFramework, objects: Sequence[str], now: datetime) -> FrameworkNode:
    """Build the tree.

    Args:
        observed: the objects of the Framework.
        objects: kind/name of its further objects that are visible.
        now: for the time to the next attempt.
    """
    view = build_view(observed.collect_objects(), now)
    failures = _collect_failures(observed.list_events())
    pods = observed.pods or {}
    roles: dict[str, list[TaskNode]] = {}
    for line in view.tasks:
        pod = pods.get(build_pod_name(view.name, line.key.role, line.key.index))
        node = None if pod is None else _read_pod(pod)
        known = tuple(failures.get(str(line.key), ()))
        roles.setdefault(line.key.role, []).append(TaskNode(line, node, known))
    return FrameworkNode(
        view=view,
        namespace=str(observed.framework["metadata"].get("namespace")),
        objects=tuple(objects),
        roles=tuple(RoleNode(name, tuple(tasks)) for name, tasks in roles.items()),
        failures=tuple(failures.get("", ())),
        hidden=observed.hidden,
    )


def _collect_failures(records: Iterable[EventRecord]) -> dict[str, list[PastFailure]]:
    """Collect the failures of each Task by its name, and of the Framework by ""."""
    found: dict[str, list[PastFailure]] = {}
    for record in records:
        if record.reason == _TASK_FAILED:
            task, _, text = record.message.partition(" ")
        elif record.reason == _ATTEMPT_FAILED:
            task, text = "", record.message
        else:
            continue
        failure = PastFailure(text, record.count, record.last_at)
        found.setdefault(task, []).append(failure)
    return found


def _read_pod(pod: Object) -> PodNode:
    metadata, spec, status = pod["metadata"], pod["spec"], pod["status"]
    restarts = 0
    for kind in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(kind) or ():
            restarts += int(container.get("restartCount") or 0)
    phase = str(status.get("phase") or "Pending")
    return PodNode(
        name=str(metadata["name"]),
        phase="Terminating" if metadata.get("deletionTimestamp") else phase,
        node=str(spec.get("nodeName") or ""),
        ip=str(status.get("podIP") or ""),
        restarts=restarts,
    )
