"""Keeps, of Frameworks that were stopped, why they had not started or did not go on.

Called by ``cli.run`` at the end: the stop has wiped out why Tasks waited. Pure.
"""

from collections.abc import Sequence
from dataclasses import replace

from cli.progress import GangView, TaskLine


def keep_waits(before: GangView, after: GangView, cause: str) -> GangView:
    """Put what was known before the stop into the view after it.

    Args:
        before: the Framework just before it was stopped.
        after: the same at the end.
        cause: what stopped it, as a user calls it: ``--timeout``.
    """
    if before.is_completed or after.is_succeeded:
        return after
    told = {line.key: line for line in before.tasks if line.is_waiting or line.is_restarting}
    tasks = tuple(_keep_note(line, told.get(line.key)) for line in after.tasks)
    return replace(after, tasks=tasks, note=_build_headline(before, cause))


def _keep_note(line: TaskLine, before: TaskLine | None) -> TaskLine:
    if before is None or line.is_culprit or not before.note:
        return line
    note = before.note if before.is_restarting else f"never started: {before.note}"
    return replace(line, note=note)


def _build_headline(before: GangView, cause: str) -> str:
    text = f"stopped by {cause}"
    if not before.tasks:
        return f"{text}; the gang never started: {before.note or 'it has no Tasks'}"
    waiting = [line for line in before.tasks if line.is_waiting]
    restarting = [line for line in before.tasks if line.is_restarting]
    if waiting:
        has_started = any(line.is_running or line.code is not None for line in before.tasks)
        text += "; " if has_started else "; the gang never started: "
        text += _count(waiting, before, "waits", "wait")
    elif restarting:
        text += f"; {_count(restarting, before, 'restarts', 'restart')}"
    if before.is_blocked:
        return f"{text}; {before.note}"
    # A Task in its barrier waits for others: the reason is with those.
    told = [line for line in waiting or restarting if line.note]
    first = next((line for line in told if not line.is_in_init), next(iter(told), None))
    return text if first is None else f"{text}; {first.key}: {first.note}"


def _count(lines: Sequence[TaskLine], gang: GangView, singular: str, plural: str) -> str:
    verb = singular if len(lines) == 1 else plural
    return f"{len(lines)} of {len(gang.tasks)} Tasks {verb}"
