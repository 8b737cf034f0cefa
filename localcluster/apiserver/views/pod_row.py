"""The row of a Pod in a table: READY, STATUS, RESTARTS. Pure.

STATUS is the most important of the Pod's phase, the progress of its init containers and the reasons
of its containers.
"""

from datetime import datetime
from typing import Any

from framework.api.durations import format_seconds, parse_time

_PENDING_REASONS = ("", "PodInitializing")


def pod_cells(pod: dict[str, Any], now: datetime) -> list[Any]:
    """Return the cells READY, STATUS and RESTARTS."""
    ready, total = _readiness(pod)
    return [f"{ready}/{total}", pod_status(pod), _restarts(pod, now)]


def pod_status(pod: dict[str, Any]) -> str:
    """Return the STATUS word."""
    status = pod.get("status") or {}
    if (pod.get("metadata") or {}).get("deletionTimestamp"):
        return "Terminating"
    init = _init_reason(pod)
    if init is not None:
        return init
    word = _containers_reason(status) or _phase_reason(status)
    if word == "Completed" and _any_running(status):
        return "Running" if _has_condition(status, "Ready") else "NotReady"
    return word


def _phase_reason(status: dict[str, Any]) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            return "SchedulingGated"
    return str(status.get("reason") or status.get("phase") or "Unknown")


def _init_reason(pod: dict[str, Any]) -> str | None:
    """Return the word while the Pod waits for init containers, else None."""
    status = pod.get("status") or {}
    if _has_condition(status, "Initialized"):
        return None
    specs = {c.get("name"): c for c in (pod.get("spec") or {}).get("initContainers") or ()}
    for index, container in enumerate(status.get("initContainerStatuses") or ()):
        state = container.get("state") or {}
        if "terminated" in state and not state["terminated"].get("exitCode"):
            continue
        if _is_sidecar(specs.get(container.get("name"))) and container.get("started"):
            continue
        if "terminated" in state:
            return "Init:" + _terminated_reason(state["terminated"])
        reason = (state.get("waiting") or {}).get("reason") or ""
        return f"Init:{index}/{len(specs)}" if reason in _PENDING_REASONS else f"Init:{reason}"
    return None


def _containers_reason(status: dict[str, Any]) -> str:
    """Return the reason of the first container that has one."""
    for container in status.get("containerStatuses") or ():
        state = container.get("state") or {}
        if (state.get("waiting") or {}).get("reason"):
            return str(state["waiting"]["reason"])
        if "terminated" in state:
            return _terminated_reason(state["terminated"])
    return ""


def _terminated_reason(terminated: dict[str, Any]) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _any_running(status: dict[str, Any]) -> bool:
    return any(
        container.get("ready") and "running" in (container.get("state") or {})
        for container in status.get("containerStatuses") or ()
    )


def _has_condition(status: dict[str, Any], kind: str) -> bool:
    return any(
        condition.get("type") == kind and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )


def _is_sidecar(container: dict[str, Any] | None) -> bool:
    return bool(container) and (container or {}).get("restartPolicy") == "Always"


def _readiness(pod: dict[str, Any]) -> tuple[int, int]:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    sidecars = {c.get("name") for c in spec.get("initContainers") or () if _is_sidecar(c)}
    total = len(spec.get("containers") or ()) + len(sidecars)
    ready = sum(
        bool(container.get("ready")) and "running" in (container.get("state") or {})
        for container in status.get("containerStatuses") or ()
    ) + sum(
        bool(container.get("ready")) and bool(container.get("started"))
        for container in status.get("initContainerStatuses") or ()
        if container.get("name") in sidecars
    )
    return ready, total


def _restarts(pod: dict[str, Any], now: datetime) -> str:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    counted = list(status.get("containerStatuses") or ())
    init = status.get("initContainerStatuses") or ()
    if _init_reason(pod) is not None:
        counted = list(init)
    else:
        sidecars = {c.get("name") for c in spec.get("initContainers") or () if _is_sidecar(c)}
        counted += [container for container in init if container.get("name") in sidecars]
    total = sum(int(container.get("restartCount") or 0) for container in counted)
    ends = [
        moment
        for container in counted
        if (
            moment := parse_time(
                ((container.get("lastState") or {}).get("terminated") or {}).get("finishedAt")
            )
        )
    ]
    if not total or not ends:
        return str(total)
    return f"{total} ({format_seconds((now - max(ends)).total_seconds())} ago)"
