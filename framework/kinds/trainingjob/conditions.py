"""The conditions of a TrainingJob, in the form and the order of the original. Pure.

Each type is in the list once, the newest last.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from framework.api.wire import format_time
from framework.kinds.compiled import Object
from framework.kinds.observing import MAX_MESSAGE, AddedCondition

CREATED, RUNNING, SUCCEEDED, FAILED = "Created", "Running", "Succeeded", "Failed"
SCALING, SUSPENDED = "Scaling", "Suspended"
SCALE_SUCCEEDED, SCALE_FAILED = "ScaleSucceeded", "ScaleFailed"
WORKERS_CREATED, WORKERS_READY = "WorkersCreated", "WorkersReady"
LAUNCHER_CREATED = "LauncherCreated"
TIMES = frozenset({"lastUpdateTime", "lastTransitionTime"})
"""Fields that change only together with another one."""
_OF_SCALERS = frozenset({SCALING, SCALE_SUCCEEDED, SCALE_FAILED})


@dataclass(frozen=True, slots=True)
class News:
    """A condition that is true."""

    type: str
    reason: str
    message: str


def set_condition(conditions: list[Object], news: News, now: datetime) -> list[Object]:
    """Add a condition at the end, unless it is there already; nothing follows Failed."""
    true = {c["type"]: c for c in conditions if c.get("status") == "True"}
    if FAILED in true or SUCCEEDED in true:
        return conditions
    old = true.get(news.type) or {}
    # The text of the others may change without news, for example with the number of workers.
    is_same_text = news.type not in _OF_SCALERS or old.get("message") == news.message
    if old and (old.get("reason") or "") == news.reason and is_same_text:
        return conditions
    kept = [c for c in conditions if c["type"] != news.type]
    if news.type in {FAILED, SUCCEEDED}:
        kept = [_set_false(c, now) if c["type"] == RUNNING else c for c in kept]
    return [*kept, _build_condition(news.type, news.reason, news.message, now)]


def end_condition(conditions: Sequence[Object], type_: str, now: datetime) -> list[Object]:
    """Set a condition that is true to False, in its place."""
    return [
        _set_false(c, now) if c["type"] == type_ and c.get("status") == "True" else c
        for c in conditions
    ]


def build_added_condition(added: AddedCondition, now: datetime) -> Object:
    """Build the JSON of a condition that the original does not have."""
    return _build_condition(added.type, added.reason, added.message, now)


def _build_condition(type_: str, reason: str, message: str, now: datetime) -> Object:
    time = format_time(now)
    condition = {
        "type": type_,
        "status": "True",
        "reason": reason,
        "message": message[:MAX_MESSAGE],
        "lastUpdateTime": time,
        "lastTransitionTime": time,
    }
    return {key: value for key, value in condition.items() if value}


def _set_false(condition: Object, now: datetime) -> Object:
    time = format_time(now)
    return {**condition, "status": "False", "lastUpdateTime": time, "lastTransitionTime": time}
