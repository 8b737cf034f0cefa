"""The status of a scaler, in the form of the original. Pure.

Conditions are added in the order Created, Scaling, ScriptExecuted, then ScaleSucceeded or
ScaleFailed; the last one is the PHASE column. Four fields are not in the original: ``jobUID``,
``order``, ``launcherUID`` and ``failure``.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from framework.api.text import cut_text
from framework.api.wire import format_time, parse_time
from framework.kinds.compiled import Object
from framework.kinds.observing import MAX_MESSAGE, read_conditions
from framework.kinds.scaling.types import Condition, Failure, ScalerKind, ScalerStatus

CREATED, SCALING, SCRIPT_EXECUTED = "Created", "Scaling", "ScriptExecuted"
SUCCEEDED, FAILED = "ScaleSucceeded", "ScaleFailed"
_PODS = {ScalerKind.SCALE_IN: "toDeletePods", ScalerKind.SCALE_OUT: "addPods"}


def encode_status(kind: ScalerKind, status: ScalerStatus) -> Object:
    """Encode a status."""
    wire: Object = {
        "phase": find_phase(status),
        "conditions": [_encode_condition(condition) for condition in status.conditions],
        # Fields that the original always writes.
        "replicaStatuses": {},
        "restartCount": 0,
    }
    if status.pods:
        wire[_PODS[kind]] = list(status.pods)
    if status.job_uid:
        wire["jobUID"] = status.job_uid
    if status.order:
        wire["order"] = status.order
    if status.launcher_uid:
        wire["launcherUID"] = status.launcher_uid
    if status.failure is not None:
        message = cut_text(status.failure.message, MAX_MESSAGE)
        wire["failure"] = {"reason": status.failure.reason, "message": message}
    started, ended = find_condition(status, SCALING), find_end(status)
    if started is not None:
        wire["startTime"] = format_time(started.since)
    if ended is not None:
        wire["completionTime"] = format_time(ended.since)
    return wire


def decode_status(kind: ScalerKind, wire: object) -> ScalerStatus:
    """Decode a status that this project or the original wrote; other forms count as absent."""
    if not isinstance(wire, Mapping):
        return ScalerStatus()
    conditions = (_decode_condition(condition) for condition in read_conditions(wire))
    pods, failure = wire.get(_PODS[kind]), wire.get("failure")
    return ScalerStatus(
        conditions=tuple(condition for condition in conditions if condition is not None),
        pods=tuple(name for name in pods if isinstance(name, str))
        if isinstance(pods, list)
        else (),
        job_uid=_read_text(wire.get("jobUID")),
        order=_read_number(wire.get("order")),
        launcher_uid=_read_text(wire.get("launcherUID")),
        failure=_decode_failure(failure) if isinstance(failure, Mapping) else None,
    )


def add_condition(
    status: ScalerStatus, type_: str, reason: str, message: str, now: datetime
) -> ScalerStatus:
    """Add a condition at the end."""
    condition = Condition(type_, reason, cut_text(message, MAX_MESSAGE), now)
    return replace(status, conditions=(*status.conditions, condition))


def set_job(status: ScalerStatus, uid: str, order: int) -> ScalerStatus:
    """Store the UID of the job for which the scaler was created, and its place in the order."""
    return replace(status, job_uid=uid, order=order)


def find_condition(status: ScalerStatus, type_: str) -> Condition | None:
    """Find a condition; None if it is not true."""
    return next((c for c in status.conditions if c.type == type_), None)


def is_started(status: ScalerStatus) -> bool:
    """Return whether the scaler has a plan, so that it may have changed the job."""
    return find_condition(status, SCALING) is not None


def find_end(status: ScalerStatus) -> Condition | None:
    """Find the condition that ended the scaler; None while it has not ended."""
    return find_condition(status, SUCCEEDED) or find_condition(status, FAILED)


def find_phase(status: ScalerStatus) -> str:
    """Return the phase, as in the original: the last condition; for ScriptExecuted, Scaling."""
    last = status.conditions[-1].type if status.conditions else ""
    return SCALING if last == SCRIPT_EXECUTED else last


def _encode_condition(condition: Condition) -> Object:
    time = format_time(condition.since)
    wire = {
        "type": condition.type,
        "status": "True",
        "reason": condition.reason,
        "message": condition.message,
        "lastUpdateTime": time,
        "lastTransitionTime": time,
    }
    return {key: value for key, value in wire.items() if value}


def _decode_condition(wire: Object) -> Condition | None:
    if wire.get("status") != "True":
        return None
    try:
        since = parse_time(str(wire.get("lastTransitionTime")))
    except ValueError:
        return None
    return Condition(
        wire["type"], str(wire.get("reason") or ""), str(wire.get("message") or ""), since
    )


def _read_text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _read_number(value: object) -> int:
    return value if type(value) is int and value > 0 else 0


def _decode_failure(wire: Mapping[str, Any]) -> Failure:
    return Failure(str(wire.get("reason") or ""), str(wire.get("message") or ""))
