"""A Pod's status, computed from the state of its containers. Pure.

The fields are those that a kubelet with containerd writes, because completion policies match them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias, assert_never

from framework.api.wire import format_time
from framework.kube.resources import Object

# In the order in which the kubelet writes them.
_CONDITION_TYPES = (
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
)
TERMINAL_PHASES = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Waiting:
    """Not started, or between two starts."""

    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Running:
    """Started and not ended."""

    started_at: datetime


@dataclass(frozen=True, slots=True)
class Terminated:
    """Ended, by itself or by the kubelet."""

    exit_code: int
    """128 plus the signal if a signal ended it."""
    reason: str
    """``Completed``, ``Error`` or ``StartError``."""
    message: str
    """The termination message."""
    started_at: datetime | None
    """None if it never ran."""
    finished_at: datetime
    """The end of its last process."""
    container_id: str
    """Id of this run."""


ContainerState: TypeAlias = Waiting | Running | Terminated


@dataclass(frozen=True, slots=True)
class ContainerView:
    """One container at one moment."""

    name: str
    """Name of the container."""
    image: str
    """Image of the spec."""
    state: ContainerState
    """The present state."""
    last: Terminated | None = None
    """The end of the previous run."""
    restart_count: int = 0
    """Runs after the first."""
    is_ready: bool = False
    """Result of the readiness probe; only counts while running."""
    is_started: bool = False
    """Result of the startup probe; only counts while running."""
    container_id: str = ""
    """Id of the last run; empty before the first."""
    is_init: bool = False
    """Whether it is an init container."""
    is_sidecar: bool = False
    """Whether it is an init container that keeps running."""

    @property
    def has_succeeded(self) -> bool:
        """Return whether it ended with exit code 0."""
        return isinstance(self.state, Terminated) and self.state.exit_code == 0

    @property
    def has_failed(self) -> bool:
        """Return whether it ended with another exit code."""
        return isinstance(self.state, Terminated) and self.state.exit_code != 0

    @property
    def is_passed(self) -> bool:
        """Return whether the next init container may start."""
        if self.is_sidecar:
            return isinstance(self.state, Running) and self.is_started
        return self.has_succeeded

    @property
    def counts_as_ready(self) -> bool:
        """Return the ``ready`` of its status."""
        if self.is_init and not self.is_sidecar:
            return self.has_succeeded
        return isinstance(self.state, Running) and self.is_ready


@dataclass(frozen=True, slots=True)
class PodView:
    """A Pod at one moment."""

    containers: tuple[ContainerView, ...]
    """Init containers first, in their order."""
    host_ip: str
    """The address of the node."""
    pod_ips: tuple[str, ...]
    """Empty before the Pod has an address."""
    started_at: datetime
    """When the kubelet took the Pod."""
    has_stopped: bool = False
    """Whether all processes have ended, and none will start."""
    is_failed: bool = False
    """Whether the stopped Pod is Failed for any end of its containers (deadline, node gone)."""
    reason: str = ""
    """Reason of the Pod, if it failed as a whole."""
    message: str = ""
    """Message of the Pod, if it failed as a whole."""
    init_over: bool = False
    """Whether main containers have been started; init containers no longer count."""
    former_conditions: Sequence[Object] = field(default_factory=tuple)
    """The conditions that were written last, for their transition times."""

    @property
    def inits(self) -> list[ContainerView]:
        """Return init containers and sidecars."""
        return [c for c in self.containers if c.is_init]

    @property
    def mains(self) -> list[ContainerView]:
        """Return the main containers."""
        return [c for c in self.containers if not c.is_init]


def build_status(view: PodView, now: datetime) -> Object:
    """Build the status for a merge patch: an empty value is null."""
    phase = compute_phase(view)
    return {
        "phase": phase,
        "reason": view.reason or None,
        "message": view.message or None,
        "hostIP": view.host_ip,
        "hostIPs": [{"ip": view.host_ip}],
        "podIP": view.pod_ips[0] if view.pod_ips else None,
        "podIPs": [{"ip": ip} for ip in view.pod_ips] or None,
        "startTime": format_time(view.started_at),
        "conditions": _build_conditions(view, phase, now),
        "initContainerStatuses": [build_container_status(c) for c in view.inits] or None,
        "containerStatuses": [build_container_status(c) for c in view.mains],
    }


def compute_phase(view: PodView) -> str:
    """Compute the Pod's phase from the states of its containers.

    A phase is terminal only after all containers have ended, sidecars included: clients rely on
    that.
    """
    if view.has_stopped:
        succeeded = view.init_over and all(c.has_succeeded for c in view.mains)
        return "Succeeded" if succeeded and not view.is_failed else "Failed"
    has_unstarted = any(isinstance(c.state, Waiting) and c.last is None for c in view.mains)
    return "Pending" if has_unstarted or not view.init_over else "Running"


def build_container_status(view: ContainerView) -> Object:
    """Build one entry of ``containerStatuses``."""
    running = isinstance(view.state, Running)
    started = running and view.is_started
    status: Object = {
        "name": view.name,
        "image": view.image,
        "imageID": "",
        "ready": view.counts_as_ready,
        "restartCount": view.restart_count,
        "state": _build_state(view.state),
        "lastState": {} if view.last is None else _build_state(view.last),
        "started": started,
    }
    if view.container_id:
        status["containerID"] = view.container_id
    return status


def _build_state(state: ContainerState) -> Object:
    match state:
        case Waiting():
            waiting = {"reason": state.reason}
            return {"waiting": waiting | ({"message": state.message} if state.message else {})}
        case Running():
            return {"running": {"startedAt": format_time(state.started_at)}}
        case Terminated():
            # containerd writes the Unix epoch for a container that never ran.
            started = "1970-01-01T00:00:00Z"
            if state.started_at is not None:
                started = format_time(state.started_at)
            terminated: Object = {
                "exitCode": state.exit_code,
                "reason": state.reason,
                "startedAt": started,
                "finishedAt": format_time(state.finished_at),
                "containerID": state.container_id,
            }
            if state.message:
                terminated["message"] = state.message
            return {"terminated": terminated}
        case _:
            assert_never(state)


def _build_conditions(view: PodView, phase: str, now: datetime) -> list[Object]:
    fresh = {
        "PodReadyToStartContainers": _condition(
            "PodReadyToStartContainers", ok=bool(view.pod_ips) and phase not in TERMINAL_PHASES
        ),
        "Initialized": _build_initialized(view, phase),
        "ContainersReady": _build_containers_ready(view, phase),
        "PodScheduled": _condition("PodScheduled", ok=True),
    }
    fresh["Ready"] = {**fresh["ContainersReady"], "type": "Ready"}
    former = {c.get("type"): c for c in view.former_conditions}
    merged = [_date(fresh[name], former.get(name), now) for name in _CONDITION_TYPES]
    return merged + [c for name, c in former.items() if name not in fresh]


def _condition(name: str, *, ok: bool, reason: str = "", message: str = "") -> Object:
    condition = {"type": name, "status": "True" if ok else "False"}
    texts = {"reason": reason, "message": message}
    return condition | {key: text for key, text in texts.items() if text}


def _date(condition: Object, former: Object | None, now: datetime) -> Object:
    since = format_time(now)
    if former is not None and former.get("status") == condition["status"]:
        since = former.get("lastTransitionTime") or since
    return {**condition, "lastTransitionTime": since}


def _build_initialized(view: PodView, phase: str) -> Object:
    if phase == "Succeeded":
        return _condition("Initialized", ok=True, reason="PodCompleted")
    missing = [] if view.init_over else _names(c for c in view.inits if not c.is_passed)
    if not missing:
        return _condition("Initialized", ok=True)
    message = f"containers with incomplete status: [{' '.join(missing)}]"
    return _condition("Initialized", ok=False, reason="ContainersNotInitialized", message=message)


def _build_containers_ready(view: PodView, phase: str) -> Object:
    if phase in TERMINAL_PHASES:
        reason = "PodCompleted" if phase == "Succeeded" else "PodFailed"
        return _condition("ContainersReady", ok=False, reason=reason)
    counted = [c for c in view.containers if c.is_sidecar or not c.is_init]
    unready = _names(c for c in counted if not c.counts_as_ready)
    if not unready:
        return _condition("ContainersReady", ok=True)
    message = f"containers with unready status: [{' '.join(unready)}]"
    return _condition("ContainersReady", ok=False, reason="ContainersNotReady", message=message)


def _names(views: Iterable[ContainerView]) -> list[str]:
    return [view.name for view in views]
