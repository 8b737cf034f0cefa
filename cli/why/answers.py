"""Writes the answer: as text for users, and as a structure for programs. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from cli.why.cause import Cause
from cli.why.causes.epochs import describe_start
from cli.why.causes.schedulers import describe_unscheduled
from cli.why.observation import STARTING_STATES, Observation
from cli.why.ranking import count_waiting
from cli.why.remedies import build_grants
from cli.why.scalers import FailedScaler
from cli.why.standstill import describe_standstill
from framework.api.endings import describe_framework_end, describe_restarts
from framework.api.naming import TaskKey
from framework.api.states import FrameworkState, TaskState
from framework.api.text import cut_text
from framework.api.wire import format_time

VERSION = "why/v1"
"""Version of the structure: its fields keep their names and meaning."""

_SHOWN_TASKS = 3
_MAX_QUOTE_BYTES = 600
_MAX_TEXT_BYTES = 400
_MAX_LINE_BYTES = 300
_LABEL_WIDTH = 10


def render_text(
    observation: Observation, causes: Sequence[Cause], *, shows_all: bool
) -> Iterator[str]:
    """Write the lines of the answer."""
    if not causes:
        yield f"{observation.name}: {describe_healthy(observation)}"
    for position, cause in enumerate(causes if shows_all else causes[:1]):
        if position:
            yield ""
        yield from _render_cause(observation, cause)
    if causes and not shows_all and len(causes) > 1:
        more = len(causes) - 1
        command = observation.commands.build_framework("why", observation.name, "--all")
        yield f"{more} more cause{'s' * (more > 1)}: {command}"
    if observation.failed_scaler is not None:
        yield _describe_scaler(observation.now, observation.failed_scaler)
    if observation.unseen:
        yield f"not seen, for lack of a right or of an answer: {', '.join(observation.unseen)}"
    if observation.missing_rights:
        yield from _render_rights(observation)


def build_structure(observation: Observation, causes: Sequence[Cause]) -> dict[str, Any]:
    """Build the answer for programs; all causes, the root cause first."""
    return {
        "version": VERSION,
        "framework": observation.name,
        "namespace": observation.namespace,
        "state": _get_state(observation),
        "healthy": not causes,
        "summary": _summarize(observation, causes[0]) if causes else describe_healthy(observation),
        "causes": [_build_cause(observation, cause) for cause in causes],
        "failedScaler": _build_scaler(observation.failed_scaler),
        "notSeen": list(observation.unseen),
        "missingRights": list(observation.missing_rights),
    }


def describe_healthy(observation: Observation) -> str:
    """Describe a Framework for which no cause was found."""
    status = observation.status
    if status is None:
        return "nothing is wrong: it is new, and the controller has not seen it yet"
    wrong = "nothing is wrong"
    if observation.unseen and status.state is not FrameworkState.COMPLETED:
        wrong = "nothing is wrong in what could be read"
    if observation.metadata.get("deletionTimestamp"):
        return f"{wrong}: it is being deleted"
    restarts = describe_restarts(status.attempt_status.recovery)
    restarts = f"; {restarts}" if restarts else ""
    if status.state is FrameworkState.COMPLETED:
        since = f" at {format_time(status.completion_time)}" if status.completion_time else ""
        return f"{wrong}: {describe_framework_end(status)}{since}{restarts}"
    waits = (describe_unscheduled, describe_standstill, describe_start)
    if wait := next(filter(None, (describe(observation) for describe in waits)), ""):
        return f"{_describe_tasks(observation)}, but {wait}{restarts}"
    return f"{wrong}: {_describe_tasks(observation)}{restarts}"


def _describe_scaler(now: datetime, scaler: FailedScaler) -> str:
    time = f"{format_time(scaler.since)}{_describe_span(now, scaler.since)}"
    text = f"{scaler.kind} {scaler.name} ({time}): {scaler.reason}: {scaler.message}"
    return f"last failed scaler: {_fold(text, _MAX_QUOTE_BYTES)}"


def _build_scaler(scaler: FailedScaler | None) -> dict[str, Any] | None:
    if scaler is None:
        return None
    return {
        "kind": str(scaler.kind),
        "name": scaler.name,
        "reason": scaler.reason,
        "message": cut_text(scaler.message, _MAX_QUOTE_BYTES * 4),
        "since": format_time(scaler.since),
    }


def _describe_tasks(observation: Observation) -> str:
    status = observation.status
    counts = Counter(_name_state(task.status.state) for task in observation.tasks)
    total = sum(counts.values())
    parts = [f"{count} {word}" for word, count in counts.most_common()]
    attempt = status.attempt_status.id if status else 0
    number = f"attempt {attempt}: " if attempt else ""
    if not total:
        return f"{number}its Tasks are being created"
    if total > 1 and len(counts) == 1:
        return f"{number}all {total} Tasks {next(iter(counts))}"
    return f"{number}of {total} Task{'s' * (total != 1)}, {', '.join(parts)}"


def _name_state(state: TaskState) -> str:
    if state in STARTING_STATES:
        return "wait to start"
    if state is TaskState.ATTEMPT_RUNNING:
        return "run"
    return "have ended" if state is TaskState.COMPLETED else "are ending or retried"


def _get_state(observation: Observation) -> str:
    return str(observation.status.state) if observation.status is not None else ""


def _summarize(observation: Observation, cause: Cause) -> str:
    text = f"{_name_subject(observation, cause)} {_fold(cause.text, _MAX_TEXT_BYTES)}"
    waiting = count_waiting(observation, cause)
    if cause.tasks and waiting:
        others = "1 other Task waits" if waiting == 1 else f"{waiting} other Tasks wait"
        text += f"; {others}"
    return text


def _name_subject(observation: Observation, cause: Cause) -> str:
    """Name the Tasks of a cause, or the Framework."""
    if not cause.tasks:
        return f"{observation.name}:"
    shown = _join_tasks(cause.tasks)
    return f"{observation.name}: {shown}"


def _join_tasks(tasks: Sequence[TaskKey]) -> str:
    names = [str(key) for key in tasks[:_SHOWN_TASKS]]
    if len(tasks) > _SHOWN_TASKS:
        return f"{', '.join(names)} and {len(tasks) - _SHOWN_TASKS} more, each"
    if len(names) > 1:
        return f"{', '.join(names[:-1])} and {names[-1]}, each"
    return names[0]


def _render_cause(observation: Observation, cause: Cause) -> Iterator[str]:
    yield _summarize(observation, cause)
    if cause.since is not None:
        ago = _describe_span(observation.now, cause.since)
        yield _render_field("since", f"{format_time(cause.since)}{ago}")
    for fact in cause.facts:
        yield _render_field("fact", _fold(fact, _MAX_TEXT_BYTES))
    if cause.quote:
        yield _render_field("message", _fold(cause.quote, _MAX_QUOTE_BYTES))
    for line in cause.log:
        yield _render_field("log", cut_text(line, _MAX_LINE_BYTES))
    for remedy in cause.remedies:
        yield _render_field("remedy", remedy.text)
        for command in remedy.commands:
            yield f"{' ' * (_LABEL_WIDTH + 4)}{command}"


def _render_rights(observation: Observation) -> Iterator[str]:
    """Write the rights that the user lacks, and the commands that grant them."""
    yield f"missing rights: {', '.join(observation.missing_rights)}"
    text = "to see more, ask an administrator to grant them, with your user name for USER"
    yield _render_field("remedy", text)
    for command in build_grants(observation):
        yield f"{' ' * (_LABEL_WIDTH + 4)}{command}"


def _render_field(label: str, text: str) -> str:
    return f"  {label:{_LABEL_WIDTH}}{text}"


def _describe_span(now: datetime, since: datetime) -> str:
    seconds = int((now - since).total_seconds())
    if seconds < 0:
        return ""
    for unit, name in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * unit:
            return f", {seconds // unit}{name} ago"
    return f", {seconds}s ago"


def _build_cause(observation: Observation, cause: Cause) -> dict[str, Any]:
    return {
        "kind": str(cause.kind),
        "text": cause.text,
        "tasks": [str(key) for key in cause.tasks],
        "waitingTasks": count_waiting(observation, cause),
        "since": format_time(cause.since) if cause.since else None,
        "message": cut_text(cause.quote, _MAX_QUOTE_BYTES * 4),
        "facts": list(cause.facts),
        "log": [cut_text(line, _MAX_LINE_BYTES * 4) for line in cause.log],
        "remedies": [
            {"text": remedy.text, "commands": list(remedy.commands)} for remedy in cause.remedies
        ],
    }


def _fold(text: str, limit_bytes: int) -> str:
    """Write a text of a cluster in one line of bounded length."""
    return cut_text(" ".join(text.split()), limit_bytes)
