"""Explains stopped Frameworks: why they had not started, or did not make progress. Pure.

Stopping a Framework removes the reasons why its Tasks waited, so they are taken from the view
before the stop.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from itertools import islice

from cli.running.views import NEW, PENDING, GangPhase, GangView, TaskLine, TaskPhase

_HELD = frozenset({TaskPhase.WAITING, TaskPhase.RESTARTING})


def keep_waits(before: GangView, after: GangView, cause: str) -> GangView:
    """Copy the reasons from the view before the stop into the view after it.

    Args:
        before: the Framework just before the stop.
        after: the same at the end.
        cause: the cause of the stop in the words of a user: ``--timeout``.
    """
    if before.is_completed or after.is_succeeded:
        return after
    noted = {line.key: line for line in before.tasks if line.phase in _HELD}
    tasks = tuple(_keep_note(line, noted.get(line.key)) for line in after.tasks)
    headline = "; ".join([f"stopped by {cause}", *_explain_stop(before, after)])
    return replace(after, tasks=tasks, note=headline)


def _keep_note(line: TaskLine, before: TaskLine | None) -> TaskLine:
    if before is None or line.is_own_failure or not before.note:
        return line
    if before.phase is TaskPhase.RESTARTING:
        return replace(line, note=before.note)
    attempt = f"attempt {before.attempt} " if before.attempt else ""
    return replace(line, note=f"{attempt}never started: {before.note}")


def _explain_stop(before: GangView, after: GangView) -> Iterator[str]:
    """Explain which state the Framework had reached, and why it made no progress."""
    gang = f"attempt {before.attempt}" if before.attempt else "the gang"
    if not before.tasks:
        yield f"{gang} never started: {before.note or _explain_no_tasks(before, after)}"
        return
    if before.phase is GangPhase.SUSPENDED:
        yield "it was suspended"
        return
    if before.phase is GangPhase.RETRYING:
        yield "the Framework was to be retried"
        yield from _name_first(line for line in after.tasks if line.is_own_failure)
        return
    waiting = _list_in(before, TaskPhase.WAITING)
    restarting = _list_in(before, TaskPhase.RESTARTING)
    retrying = {line.key for line in _list_in(before, TaskPhase.RETRYING)}
    if waiting:
        never = "" if any(map(_has_run, before.tasks)) else f"{gang} never started: "
        yield never + _count(waiting, before, "waits", "wait")
    elif restarting:
        yield _count(restarting, before, "restarts", "restart")
    elif retrying:
        yield _count(retrying, before, "was to be retried", "were to be retried")
    if before.is_blocked:
        yield before.note
    elif waiting or restarting:
        # A Task in its barrier waits for other Tasks, which have the reason.
        yield from _name_first(sorted(waiting or restarting, key=lambda line: line.is_in_init))
    else:
        # How the last attempt ended: the note before the stop names a time for the next one.
        yield from _name_first(line for line in after.tasks if line.key in retrying)


def _explain_no_tasks(before: GangView, after: GangView) -> str:
    if before.state == PENDING:
        return "it waits for its ConfigMap to be created"
    if before.state == NEW:
        return "the controller had not seen it yet"
    return "its Tasks were not created yet" if after.tasks else "it has no Tasks"


def _list_in(gang: GangView, phase: TaskPhase) -> list[TaskLine]:
    return [line for line in gang.tasks if line.phase is phase]


def _has_run(line: TaskLine) -> bool:
    is_running = line.phase in {TaskPhase.RUNNING, TaskPhase.RESTARTING}
    return is_running or line.code is not None or line.attempt > 0


def _name_first(lines: Iterable[TaskLine]) -> Iterator[str]:
    """Return the note of the first Task that has one."""
    notes = (f"{line.key}: {line.note}" for line in lines if line.note)
    yield from islice(notes, 1)


def _count(lines: Collection[object], gang: GangView, singular: str, plural: str) -> str:
    verb = singular if len(lines) == 1 else plural
    return f"{len(lines)} of {len(gang.tasks)} Tasks {verb}"
