"""Keeps, of Frameworks that were stopped, why they had not started.

Called by ``cli.run`` at the end: the stop has wiped out why Tasks waited. Pure.
"""

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
    waiting = {line.key: line for line in before.tasks if line.is_waiting}
    tasks = tuple(_keep_wait(line, waiting.get(line.key)) for line in after.tasks)
    return replace(after, tasks=tasks, note=_build_headline(before, cause))


def _keep_wait(line: TaskLine, before: TaskLine | None) -> TaskLine:
    if before is None or line.is_culprit or not before.note:
        return line
    return replace(line, note=f"never started: {before.note}")


def _build_headline(before: GangView, cause: str) -> str:
    waiting = [line for line in before.tasks if line.is_waiting]
    text = f"stopped by {cause}"
    if not before.tasks:
        return f"{text}; the gang never started: {before.note or 'it has no Tasks'}"
    if not waiting:
        return text
    has_started = any(line.is_running for line in before.tasks)
    text += "; " if has_started else "; the gang never started: "
    verb = "waits" if len(waiting) == 1 else "wait"
    text += f"{len(waiting)} of {len(before.tasks)} Tasks {verb}"
    # A Task in its barrier waits for others: the reason is with those.
    told = [line for line in waiting if line.note]
    first = next((line for line in told if not line.is_in_init), next(iter(told), None))
    return text if first is None else f"{text}; {first.key}: {first.note}"
