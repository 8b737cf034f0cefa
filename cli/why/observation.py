"""The facts about a Framework that the rules use. Pure.

Objects are those of the API server. Everything is optional: an object may be absent, and the user
may have no right to read it.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from cli.objects import read_version
from cli.why.commands import Commands
from cli.why.scalers import FailedScaler
from framework.api import constants
from framework.api.codec import decode_status
from framework.api.fielderrors import FieldErrors
from framework.api.naming import TaskKey, build_pod_name
from framework.api.states import FrameworkState, TaskState
from framework.api.types import FrameworkStatus, TaskStatus
from framework.api.wire import parse_time
from framework.kube.resources import Object

T = TypeVar("T", bound=Hashable)

STARTING_STATES = frozenset(
    {
        TaskState.ATTEMPT_CREATION_PENDING,
        TaskState.ATTEMPT_CREATION_REQUESTED,
        TaskState.ATTEMPT_PREPARING,
    }
)
"""States of a Task whose containers have not all started."""
_STATUS_KINDS = ("initContainerStatuses", "containerStatuses")


@dataclass(frozen=True, slots=True)
class EventFacts:
    """An Event."""

    reason: str
    message: str
    is_warning: bool
    since: datetime | None
    """When it was first seen."""
    last: datetime | None
    """When it was last seen."""


@dataclass(frozen=True, slots=True)
class ContainerFacts:
    """A container of a Pod, from its status and its spec."""

    name: str
    """Its name."""
    path: str
    """Its place in the spec of the Pod, as in a JSON patch: ``containers/0``."""
    spec: Mapping[str, Any]
    """Its part of the spec of the Pod."""
    state: Mapping[str, Any]
    """The state: waiting, running or terminated."""
    last: Mapping[str, Any]
    """How its previous run ended; empty without one."""
    restarts: int
    """How often it was restarted."""
    is_init: bool
    """Whether it is an init container."""
    is_ready: bool
    """Whether it is ready."""

    def get_state(self, name: str) -> Mapping[str, Any]:
        """Return the details of a state; empty if it is in another one."""
        return get_mapping(self.state, name)

    @property
    def image(self) -> str:
        """Its image."""
        return str(self.spec.get("image") or "")


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """A Task with its Pod."""

    key: TaskKey
    """Its role and index."""
    role_index: int | None
    """Index of its role in the spec; None if the spec has no such role."""
    status: TaskStatus
    """Its status."""
    pod: Object | None
    """The Pod of its attempt; None if it is absent or may not be read."""
    events: tuple[EventFacts, ...] = ()
    """Events of the Pod, the newest first; only those that were asked for."""

    @property
    def pod_name(self) -> str:
        """Name of its Pod."""
        return self.status.attempt_status.pod_name

    @property
    def pod_spec(self) -> Mapping[str, Any]:
        """The spec of its Pod; empty without a Pod."""
        return get_mapping(self.pod or {}, "spec")

    @property
    def pod_status(self) -> Mapping[str, Any]:
        """The status of its Pod; empty without a Pod."""
        return get_mapping(self.pod or {}, "status")

    @property
    def phase(self) -> str:
        """Phase of its Pod; "" without a Pod."""
        return str(self.pod_status.get("phase") or "Pending") if self.pod else ""

    @property
    def node(self) -> str:
        """Name of the node of its Pod; "" before it has one."""
        return str(self.pod_spec.get("nodeName") or "")

    @property
    def is_terminating(self) -> bool:
        """Return whether its Pod is being deleted."""
        return bool(get_mapping(self.pod or {}, "metadata").get("deletionTimestamp"))

    @property
    def created_at(self) -> datetime | None:
        """When its Pod was created."""
        return read_time(get_mapping(self.pod or {}, "metadata").get("creationTimestamp"))

    def find_condition(self, kind: str) -> Mapping[str, Any]:
        """Find a condition of its Pod; empty without it."""
        return find_condition(self.pod_status, kind)

    def list_containers(self) -> list[ContainerFacts]:
        """List the containers of its Pod that have a status, init containers first."""
        return list(_walk_containers(self.pod or {}))

    def find_event(self, *reasons: str) -> EventFacts | None:
        """Find the newest Event with one of these reasons."""
        return next((event for event in self.events if event.reason in reasons), None)


@dataclass(frozen=True, slots=True)
class Observation:
    """The facts about one Framework."""

    name: str
    """Name of the Framework."""
    namespace: str
    """Its namespace."""
    now: datetime
    """The time of the answer."""
    framework: Object
    """The Framework as stored."""
    commands: Commands
    """Writes commands for this cluster."""
    status: FrameworkStatus | None = None
    """Its status; None before a controller has written one, or if it cannot be read."""
    fault: str = ""
    """Why the status cannot be read; "" if it can."""
    tasks: tuple[TaskFacts, ...] = ()
    """Its Tasks, in the order of the status."""
    events: tuple[EventFacts, ...] = ()
    """Events of the Framework, the newest first."""
    configmap: Object | None = None
    """The ConfigMap of the attempt."""
    nodes: Mapping[str, Object] | None = None
    """Nodes by name; None if they were not asked for, or may not be read."""
    claims: Mapping[str, Object | None] = field(default_factory=dict)
    """The claims that Pods name; None for one that does not exist."""
    holder: Object | None = None
    """The object whose name is taken."""
    lease: Object | None = None
    """The Lease of the controller."""
    logs: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    """The last lines of containers, by name of the Pod and of the container."""
    failed_scaler: FailedScaler | None = None
    """The scaler of its TrainingJob that failed last."""
    unseen: tuple[str, ...] = ()
    """Parts that could not be read, and so are not in the answer."""
    missing_rights: tuple[str, ...] = ()
    """The rights that the user lacks for that, as verb and resource: ``list pods``."""
    is_local: bool = False
    """Whether it is on a local cluster, which starts its controller."""

    @property
    def spec(self) -> Mapping[str, Any]:
        """The spec as stored."""
        return get_mapping(self.framework, "spec")

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The metadata as stored."""
        return get_mapping(self.framework, "metadata")

    @property
    def roles(self) -> list[Mapping[str, Any]]:
        """The roles of the spec."""
        return list_mappings(self.spec.get("taskRoles"))

    @property
    def is_completed(self) -> bool:
        """Return whether the Framework has ended."""
        return self.status is not None and self.status.state is FrameworkState.COMPLETED

    @property
    def is_attempt_over(self) -> bool:
        """Return whether the attempt has ended or is ending."""
        return self.status is not None and self.status.attempt_status.completion_status is not None

    def find_condition(self, kind: str) -> Mapping[str, Any]:
        """Find a condition of the Framework; empty without it."""
        return find_condition(get_mapping(self.framework, "status"), kind)

    def find_blocked(self) -> Mapping[str, Any]:
        """Find the condition Blocked if it is true; empty otherwise."""
        found = self.find_condition(constants.BLOCKED_CONDITION)
        return found if found.get("status") == "True" else {}

    def get_log(self, task: TaskFacts, container: str) -> tuple[str, ...]:
        """Return the last lines of a container; none if they were not read."""
        return self.logs.get((task.pod_name, container), ())

    def get_template(self, task: TaskFacts) -> Mapping[str, Any]:
        """Return the Pod spec that the Framework has for a Task."""
        if task.role_index is None:
            return {}
        spec: Any = self.roles[task.role_index]
        for key in ("task", "pod", "spec"):
            spec = get_mapping(spec, key)
        return dict(spec)


def build_tasks(
    framework: Object, status: FrameworkStatus, pods: Mapping[str, Object]
) -> tuple[TaskFacts, ...]:
    """Join the Tasks of a status with their Pods.

    A Pod of another attempt or of another owner is not the Pod of a Task.
    """
    name = str(framework["metadata"]["name"])
    roles = list_mappings(get_mapping(framework, "spec").get("taskRoles"))
    indexes = {str(role.get("name")): index for index, role in enumerate(roles)}
    built = []
    for role, task in status.attempt_status.walk_tasks():
        if task.deletion_pending and task.state is TaskState.COMPLETED:
            continue
        pod = pods.get(build_pod_name(name, role.name, task.index))
        if pod is not None and pod["metadata"].get("uid") != task.attempt_status.pod_uid:
            pod = None
        key = TaskKey(role.name, task.index)
        built.append(TaskFacts(key, indexes.get(role.name), task, pod))
    return tuple(built)


def read_status(framework: Object) -> tuple[FrameworkStatus | None, str]:
    """Decode the status of a Framework; return None and the fault if it cannot be decoded."""
    try:
        return decode_status(framework.get("status")), ""
    except FieldErrors as e:
        return None, str(e)


def parse_events(events: Iterable[Object]) -> tuple[EventFacts, ...]:
    """Build the facts of Events, the newest first."""
    facts = [(_parse_event(event), read_version(event)) for event in events]

    def get_age(entry: tuple[EventFacts, int]) -> tuple[float, int]:
        event, version = entry
        return event.last.timestamp() if event.last else 0.0, version

    return tuple(event for event, _ in sorted(facts, key=get_age, reverse=True))


def group_tasks(
    tasks: Iterable[TaskFacts], findings: Iterable[tuple[TaskFacts, T]]
) -> Iterator[tuple[T, tuple[TaskFacts, ...]]]:
    """Group Tasks of one role with the same finding, so that they are one cause.

    Args:
        tasks: gives the order.
        findings: at most one for each Task.
    """
    order = {task.key: position for position, task in enumerate(tasks)}
    groups: dict[tuple[str, T], list[TaskFacts]] = {}
    for task, finding in findings:
        groups.setdefault((task.key.role, finding), []).append(task)
    for (_, finding), members in groups.items():
        yield finding, tuple(sorted(members, key=lambda task: order[task.key]))


def find_condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Find a condition in a status; empty without it."""
    conditions = list_mappings(status.get("conditions"))
    return next((c for c in conditions if c.get("type") == kind), {})


def get_mapping(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return an object of JSON; empty if there is none."""
    found = value.get(key)
    return found if isinstance(found, Mapping) else {}


def list_mappings(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects of a list of JSON."""
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    return [item for item in value if isinstance(item, Mapping)] if is_list else []


def read_time(value: Any) -> datetime | None:
    """Read a time of the API; None without a valid one."""
    try:
        return parse_time(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _parse_event(event: Object) -> EventFacts:
    series = get_mapping(event, "series")
    created = get_mapping(event, "metadata").get("creationTimestamp")
    first = event.get("firstTimestamp") or event.get("eventTime") or created
    last = series.get("lastObservedTime") or event.get("lastTimestamp") or first
    return EventFacts(
        reason=str(event.get("reason") or ""),
        message=str(event.get("message") or event.get("note") or ""),
        is_warning=event.get("type") == "Warning",
        since=read_time(first),
        last=read_time(last),
    )


def _walk_containers(pod: Object) -> Iterator[ContainerFacts]:
    spec, status = get_mapping(pod, "spec"), get_mapping(pod, "status")
    places: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(list_mappings(spec.get(kind))):
            places[str(container.get("name"))] = (f"{kind}/{index}", container)
    for kind in _STATUS_KINDS:
        for container in list_mappings(status.get(kind)):
            name = str(container.get("name"))
            path, body = places.get(name, ("", {}))
            restarts = container.get("restartCount")
            yield ContainerFacts(
                name=name,
                path=path,
                spec=body,
                state=get_mapping(container, "state"),
                last=get_mapping(get_mapping(container, "lastState"), "terminated"),
                restarts=restarts if isinstance(restarts, int) else 0,
                is_init=kind == _STATUS_KINDS[0],
                is_ready=container.get("ready") is True,
            )
