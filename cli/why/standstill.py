"""Training that has reported no step for longer than its limit. Pure.

This is no cause: a declared pause, or the start of a long training, looks the same from here.
"""

from datetime import datetime, timedelta

from cli.why.observation import Observation, TaskFacts, get_mapping, list_mappings
from framework.api.durations import format_seconds
from framework.api.states import FrameworkState
from framework.api.types import FrameworkAttemptStatus
from rendezvous.settings.options import OPTIONS

_LIMIT = "FB_PROGRESS_TIMEOUT_SEC"
_FIRST_LIMIT = "FB_FIRST_PROGRESS_TIMEOUT_SEC"
_OPTIONS = {option.env_name: option for option in OPTIONS}
# A step is in the status after at most 35 s.
_REPORT_SECONDS = 60
# For this long after a restart, the status may get a step of the time before it.
_LATE_SECONDS = 35


def describe_standstill(observation: Observation) -> str:
    """Explain since when no step is reported, and which limit counts; "" if none is overdue."""
    status = observation.status
    if status is None or status.state is not FrameworkState.ATTEMPT_RUNNING:
        return ""
    task = next((task for task in observation.tasks if _read_seconds(task, _LIMIT)), None)
    attempt = status.attempt_status
    if task is None or attempt.run_time is None:
        return ""
    start, since = _find_start(attempt, attempt.run_time), _find_last_step(attempt)
    elapsed = (observation.now - (since or start)).total_seconds()
    limit = _read_seconds(task, _LIMIT)
    if limit is None or elapsed < limit + _REPORT_SECONDS:
        return ""
    name = _FIRST_LIMIT if since is None else _LIMIT
    words = _describe_limit(attempt, task, name)
    return f"no step is reported for {format_seconds(elapsed)}{words}"


def _find_start(attempt: FrameworkAttemptStatus, run_time: datetime) -> datetime:
    """Find when the processes started last."""
    decided = attempt.recovery.decided_time if attempt.recovery is not None else None
    return max(run_time, decided or run_time)


def _find_last_step(attempt: FrameworkAttemptStatus) -> datetime | None:
    """Find when the last step was reported; None if there is none since the last start."""
    last = attempt.training.update_time if attempt.training is not None else None
    decided = attempt.recovery.decided_time if attempt.recovery is not None else None
    is_before = last and decided and last <= decided + timedelta(seconds=_LATE_SECONDS)
    return None if is_before else last


def _describe_limit(attempt: FrameworkAttemptStatus, task: TaskFacts, name: str) -> str:
    seconds = _read_seconds(task, name)
    value = "its value is not known here" if seconds is None else f"{seconds:g} s"
    if name == _FIRST_LIMIT:
        is_restarted = attempt.recovery is not None and attempt.recovery.decided_time is not None
        event = "the restart in place" if is_restarted else "the start"
        if seconds == 0:
            return f" since {event}, and no hang is found until the first step ({name} is 0)"
        return f" since {event}; until the first step after it, the limit is {name} ({value})"
    training = attempt.training
    total = f" of {training.total_steps}" if training and training.total_steps is not None else ""
    step = f" after step {training.step}{total}" if training else ""
    return (
        f"{step}; the limit is {name} ({value}), or {_FIRST_LIMIT} after the last step; no hang is "
        "found in a declared pause, nor while a Task is missing or rank 0 cannot be reached"
    )


def _read_seconds(task: TaskFacts, name: str) -> float | None:
    """Read a limit of a Pod from its variables, its annotations or the default; None if unknown."""
    option = _OPTIONS[name]
    annotations = get_mapping(get_mapping(task.pod or {}, "metadata"), "annotations")
    texts = [
        variable.get("value")
        for container in list_mappings(task.pod_spec.get("containers"))
        for variable in list_mappings(container.get("env"))
        if variable.get("name") == name
    ]
    text = (texts or [annotations.get(option.annotation, option.default)])[0]
    try:
        return float(option.parse(text)) if isinstance(text, str) else None
    except ValueError:
        return None
