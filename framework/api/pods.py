"""Views of Pods and attempt ConfigMaps: the fields that decisions read.

The store of the controller keeps views instead of whole objects. Parsing never fails: a field with
a wrong type counts as absent.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from itertools import islice
from typing import Any

from framework.api import constants
from framework.api.types import (
    ContainerCompletionStatus,
    PodCompletionStatus,
)
from framework.api.wire import parse_time

# The annotations that the controller writes and decisions read, with a bound for each value. Users
# may write 256 kB of others on each Pod. A longer value was not written by the controller, so it is
# cut.
_KEPT_ANNOTATIONS = frozenset(
    {
        *constants.IDENTITY_ANNOTATIONS,
        constants.ROSTER_VERSION_ANNOTATION,
        constants.GENERATION_ANNOTATION,
        constants.READINESS_ANNOTATION,
        constants.ACKNOWLEDGED_GENERATION_ANNOTATION,
        constants.PROCESS_ENDED_ANNOTATION,
        constants.EPOCH_STARTED_ANNOTATION,
        constants.TRAINING_PROGRESS_ANNOTATION,
        constants.CREATION_PROOF_ANNOTATION,
        constants.WRAPPER_ANNOTATION,
    }
)
# The fields of views, and of the search for the Framework of an object, without labels,
# annotations, owners and finalizers.
_KEPT_METADATA = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_KEPT_SPEC = ("nodeName", "terminationGracePeriodSeconds")
_KEPT_STATUS = (
    "phase",
    "reason",
    "message",
    "podIP",
    "podIPs",
    "hostIP",
    "initContainerStatuses",
    "containerStatuses",
    "conditions",
)
# Scheduling gates that a message about a Pod names.
_KEPT_GATES = 10
# The API server does not bound the name of a scheduler, the fields of an owner, and the number of
# finalizers. Valid names and UIDs are shorter than this.
_KEPT_NAME_CHARS = 253
# Twice the length of a creation proof; names and UIDs are shorter.
_KEPT_VALUE_CHARS = 512
_KEPT_FINALIZERS = frozenset({constants.FOREGROUND_DELETION_FINALIZER})
# The largest roster that is kept of a ConfigMap with an unknown creator, in characters of base64:
# about 300 Tasks.
UNPROVEN_ROSTER_CHARS = 4096
# The zero time of Go; an absent finishedAt is compared as this.
ZERO_TIME = datetime(1, 1, 1, tzinfo=UTC)


class PodPhase(StrEnum):
    """Phase of a Pod. With an unknown phase, the Task keeps its state."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Terminated:
    """How a container ended, from state.terminated."""

    code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    finished_at: datetime = ZERO_TIME


@dataclass(frozen=True, slots=True)
class ContainerView:
    """A container; ``waiting`` is (reason, message) before it starts."""

    name: str
    terminated: Terminated | None = None
    waiting: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class OwnerView:
    """The controlling owner of an object."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class ObjectView:
    """The common part of Pods and ConfigMaps."""

    name: str
    """Name of the object."""
    uid: str
    """UID of the object."""
    resource_version: str
    """Version of the object."""
    owner: OwnerView | None
    """Controlling owner; None without one."""
    annotations: Mapping[str, str]
    """The annotations that decisions read, with bounded values."""
    creation_time: datetime | None
    """When the object was created."""
    deletion_time: datetime | None
    """When deletion was requested; None for an object that is not terminating."""

    @property
    def is_terminating(self) -> bool:
        """Return whether the object is being deleted."""
        return self.deletion_time is not None


@dataclass(frozen=True, slots=True)
class ConfigMapView(ObjectView):
    """An attempt ConfigMap.

    ``finalizers`` has those that decisions read. ``roster`` is the stored roster in base64, "" if
    there is none, None if it was not kept: it is long, and the creator of the ConfigMap is unknown.
    """

    finalizers: tuple[str, ...] = ()
    roster: str | None = ""

    @property
    def attempt_id(self) -> str:
        """The attempt in its annotations, as text."""
        return self.annotations.get(constants.FRAMEWORK_ATTEMPT_ID, "")


@dataclass(frozen=True, slots=True)
class PodView(ObjectView):
    """A Pod."""

    phase: PodPhase = PodPhase.PENDING
    """Phase of the Pod."""
    reason: str = ""
    """Reason of the phase."""
    message: str = ""
    """Message of the phase."""
    node_name: str = ""
    """Node of the Pod."""
    pod_ip: str = ""
    """First address; "" before it has one."""
    more_ips: tuple[str, ...] = ()
    """Further addresses."""
    host_ip: str = ""
    """Address of the node."""
    deletion_grace_seconds: int = 0
    """Grace period of the requested deletion."""
    termination_grace_seconds: int = 30
    """terminationGracePeriodSeconds of the spec."""
    containers: tuple[ContainerView, ...] = ()
    """Containers, init containers first."""
    unscheduled: tuple[str, str] | None = None
    """Reason and message of PodScheduled=False; None if it is scheduled."""
    scheduling_gates: tuple[str, ...] = ()
    """Names of its scheduling gates."""
    scheduler_name: str = ""
    """Scheduler; "" for the default scheduler."""
    disruption: str = ""
    """Reason of the condition DisruptionTarget; "" if it is not True."""

    @property
    def task_uid(self) -> str:
        """The Task instance in its annotations."""
        return self.annotations.get(constants.TASK_UID, "")

    @property
    def task_attempt_id(self) -> str:
        """The Task attempt in its annotations, as text."""
        return self.annotations.get(constants.TASK_ATTEMPT_ID, "")

    @property
    def is_ended(self) -> bool:
        """Return whether all containers have ended and none is restarted."""
        return self.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)


def parse_owner(meta: Mapping[str, Any]) -> OwnerView | None:
    """Parse the controlling owner; None without one."""
    for reference in _objects(meta.get("ownerReferences")):
        if reference.get("controller") is True:
            kind, name, uid = (_name(reference, key) for key in ("kind", "name", "uid"))
            return OwnerView(kind, name, uid)
    return None


def parse_pod(wire: Mapping[str, Any]) -> PodView:
    """Build the view of a Pod."""
    meta, spec, status = (_object(wire, key) for key in ("metadata", "spec", "status"))
    init = _parse_containers(status.get("initContainerStatuses"))
    app = _parse_containers(status.get("containerStatuses"))
    pod_ip = _text(status, "podIP")
    ips = [_text(ip, "ip") for ip in _objects(status.get("podIPs"))]
    gates = islice(_objects(spec.get("schedulingGates")), _KEPT_GATES)
    scheduler_name = _name(spec, "schedulerName")
    return PodView(
        **_parse_meta(meta),
        phase=_parse_phase(_text(status, "phase")),
        reason=_text(status, "reason"),
        message=_text(status, "message"),
        node_name=_text(spec, "nodeName"),
        pod_ip=pod_ip,
        more_ips=tuple(ip for ip in ips if ip and ip != pod_ip),
        host_ip=_text(status, "hostIP"),
        deletion_grace_seconds=_int(meta, "deletionGracePeriodSeconds", 0),
        termination_grace_seconds=_int(spec, "terminationGracePeriodSeconds", 30),
        containers=tuple(init + app),
        unscheduled=_parse_unscheduled(status),
        scheduling_gates=tuple(_text(gate, "name") for gate in gates),
        scheduler_name="" if scheduler_name == _DEFAULT_SCHEDULER else scheduler_name,
        disruption=_parse_disruption(status),
    )


def parse_configmap(wire: Mapping[str, Any]) -> ConfigMapView:
    """Build the view of an attempt ConfigMap."""
    meta, data = _object(wire, "metadata"), _object(wire, "binaryData")
    is_left_out = data.get(constants.ROSTER_KEY) is _LEFT_OUT
    return ConfigMapView(
        **_parse_meta(meta),
        finalizers=tuple(_trim_finalizers(meta)),
        roster=None if is_left_out else _text(data, constants.ROSTER_KEY),
    )


def trim_pod(wire: Mapping[str, Any]) -> dict[str, Any]:
    """Keep only the fields that a view reads; a list of Pods is stored until it is complete."""
    spec, status = _object(wire, "spec"), _object(wire, "status")
    return {
        "metadata": _trim_meta(_object(wire, "metadata")),
        "spec": {
            **{key: spec[key] for key in _KEPT_SPEC if key in spec},
            "schedulingGates": [*islice(_objects(spec.get("schedulingGates")), _KEPT_GATES)],
            "schedulerName": _name(spec, "schedulerName"),
        },
        "status": {key: status[key] for key in _KEPT_STATUS if key in status},
    }


def trim_configmap(wire: Mapping[str, Any]) -> dict[str, Any]:
    """Keep only the fields of an attempt ConfigMap that a view reads, without a long roster."""
    meta = _object(wire, "metadata")
    roster = _text(_object(wire, "binaryData"), constants.ROSTER_KEY)
    kept = roster if len(roster) <= UNPROVEN_ROSTER_CHARS else _LEFT_OUT
    return {
        "metadata": {**_trim_meta(meta), "finalizers": _trim_finalizers(meta)},
        "binaryData": {constants.ROSTER_KEY: kept},
    }


def drop_long_roster(configmap: ConfigMapView) -> ConfigMapView:
    """Return the view without a long roster."""
    if configmap.roster is None or len(configmap.roster) <= UNPROVEN_ROSTER_CHARS:
        return configmap
    return replace(configmap, roster=None)


def extract_completion(pod: PodView) -> PodCompletionStatus:
    """Build the completion of each container of a Pod, init containers first."""
    return PodCompletionStatus(
        reason=pod.reason,
        message=pod.message,
        containers=tuple(_extract_container(c) for c in pod.containers),
    )


def explain_waiting(pod: PodView) -> str:
    """Describe why a Pod has no address yet, or why it is not running."""
    if pod.scheduling_gates:
        gates = ", ".join(pod.scheduling_gates)
        return f"Pod is held by the scheduling gate{'s' * (len(pod.scheduling_gates) > 1)} {gates}"
    if pod.unscheduled is not None:
        reason, message = pod.unscheduled
        return f"{reason}: {message}" if message else reason
    for container in pod.containers:
        if container.waiting is not None and container.waiting[0] not in ORDINARY_WAITS:
            reason, message = container.waiting
            return f"{reason}: {message}" if message else f"{reason} (container {container.name})"
    if not pod.node_name:
        return f"Pod waits for the scheduler {pod.scheduler_name}".rstrip()
    return f"Pod is {pod.phase} on {pod.node_name}, without an address yet"


_DEFAULT_SCHEDULER = "default-scheduler"
# Marks a roster that was left out; it differs from every value of JSON.
_LEFT_OUT = object()
# Reasons that every Pod has during its start; they are no fault.
ORDINARY_WAITS = frozenset({"", "PodInitializing", "ContainerCreating"})


def _extract_container(container: ContainerView) -> ContainerCompletionStatus:
    ended = container.terminated
    if ended is None:
        return ContainerCompletionStatus(name=container.name)
    return ContainerCompletionStatus(
        name=container.name,
        reason=ended.reason,
        message=ended.message,
        signal=ended.signal,
        code=ended.code,
    )


def _trim_meta(meta: Mapping[str, Any]) -> dict[str, Any]:
    labels, name = _object(meta, "labels"), constants.FRAMEWORK_NAME
    owner = parse_owner(meta)
    return {
        **{key: meta[key] for key in _KEPT_METADATA if key in meta},
        "labels": {name: labels[name]} if name in labels else {},
        "annotations": _trim_annotations(_object(meta, "annotations")),
        "ownerReferences": [] if owner is None else [{**asdict(owner), "controller": True}],
    }


def _trim_finalizers(meta: Mapping[str, Any]) -> list[str]:
    return sorted(_KEPT_FINALIZERS.intersection(_texts(meta.get("finalizers"))))


def _trim_annotations(annotations: Mapping[str, Any]) -> dict[str, str]:
    return {
        key: value[
            : constants.READINESS_MAX_BYTES
            if key == constants.READINESS_ANNOTATION
            else _KEPT_VALUE_CHARS
        ]
        for key, value in annotations.items()
        if isinstance(value, str) and key in _KEPT_ANNOTATIONS
    }


def _parse_meta(meta: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": _text(meta, "name"),
        "uid": _text(meta, "uid"),
        "resource_version": _text(meta, "resourceVersion"),
        "owner": parse_owner(meta),
        "annotations": _trim_annotations(_object(meta, "annotations")),
        "creation_time": _time(meta, "creationTimestamp"),
        "deletion_time": _time(meta, "deletionTimestamp"),
    }


def _parse_phase(text: str) -> PodPhase:
    try:
        return PodPhase(text or "Pending")
    except ValueError:
        return PodPhase.UNKNOWN


def _parse_containers(statuses: Any) -> list[ContainerView]:
    return [_parse_container(status) for status in _objects(statuses)]


def _parse_container(status: Mapping[str, Any]) -> ContainerView:
    state = _object(status, "state")
    ended = state.get("terminated")
    waiting = state.get("waiting")
    return ContainerView(
        name=_text(status, "name"),
        terminated=_parse_terminated(ended) if isinstance(ended, Mapping) else None,
        waiting=(_text(waiting, "reason"), _text(waiting, "message"))
        if isinstance(waiting, Mapping)
        else None,
    )


def _parse_terminated(ended: Mapping[str, Any]) -> Terminated:
    return Terminated(
        code=_int(ended, "exitCode", 0),
        signal=_int(ended, "signal", 0),
        reason=_text(ended, "reason"),
        message=_text(ended, "message"),
        finished_at=_time(ended, "finishedAt") or ZERO_TIME,
    )


def _parse_unscheduled(status: Mapping[str, Any]) -> tuple[str, str] | None:
    for condition in _objects(status.get("conditions")):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return _text(condition, "reason") or "Unschedulable", _text(condition, "message")
    return None


def _parse_disruption(status: Mapping[str, Any]) -> str:
    for condition in _objects(status.get("conditions")):
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            return _name(condition, "reason") or "DisruptionTarget"
    return ""


def _object(wire: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = wire.get(key)
    return value if isinstance(value, Mapping) else {}


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        yield from (item for item in value if isinstance(item, Mapping))


def _text(wire: Mapping[str, Any], key: str) -> str:
    value = wire.get(key)
    return value if isinstance(value, str) else ""


def _name(wire: Mapping[str, Any], key: str) -> str:
    return _text(wire, key)[:_KEPT_NAME_CHARS]


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _int(wire: Mapping[str, Any], key: str, default: int) -> int:
    value = wire.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _time(wire: Mapping[str, Any], key: str) -> datetime | None:
    try:
        return parse_time(_text(wire, key))
    except ValueError:
        return None
