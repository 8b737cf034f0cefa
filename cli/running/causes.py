"""Explains at the end of a run why Tasks failed. Pure."""

from collections.abc import Callable, Iterator, Sequence

from cli.loglines.containeroutput import render_output
from cli.running.failures import SHOWN_LINES
from cli.running.views import GangView, TaskLine
from framework.api.naming import TaskKey

_SHOWN_FAILURES = 3
_FindLog = Callable[[str, TaskKey], tuple[str, Sequence[str]] | None]


def describe_failures(view: GangView, find_log: _FindLog) -> Iterator[str]:
    """Describe the failed Tasks of a Framework, except failures that its policy tolerates.

    Args:
        view: the Framework at its end.
        find_log: returns the failed container and the last lines of its log for a Framework and a
            Task; None if they could not be read.
    """
    failures = _list_unguarded_failures(view) if view.is_succeeded else view.list_own_failures()
    for line in failures[:_SHOWN_FAILURES]:
        yield ""
        yield from _describe(view.name, line, find_log)
    if len(failures) > _SHOWN_FAILURES:
        yield ""
        yield f"{len(failures) - _SHOWN_FAILURES} more Tasks failed"


def warn_of_tolerated_failures(view: GangView) -> str:
    """Warn of a Framework that succeeded because no policy counts its failures; else ""."""
    failures = _list_unguarded_failures(view) if view.is_succeeded else ()
    if not failures:
        return ""
    return (
        f"warning: {view.name} Succeeded although {len(failures)} of {len(view.tasks)} "
        "Tasks failed: no minFailedTaskCount is set; set 1, so that the Framework fails "
        "with its first Task, or -1 if this is intended"
    )


def _list_unguarded_failures(view: GangView) -> list[TaskLine]:
    """List the failed Tasks of roles that do not count failures."""
    return [line for line in view.list_own_failures() if line.key.role in view.unguarded_roles]


def _describe(framework: str, line: TaskLine, find_log: _FindLog) -> Iterator[str]:
    is_cut = line.note.endswith("…") and line.diagnostics.startswith(line.note[:-1])
    note = line.diagnostics if is_cut else line.note or line.state
    yield f"{framework} {line.key}: {note}"
    if line.diagnostics not in note:
        yield f"  {line.diagnostics}"
    # If the log was deleted with the Pod, the termination message may have its end.
    kept = find_log(framework, line.key)
    container, lines = kept if kept is not None and kept[1] else (line.message or ("", ()))
    if lines:
        yield f"  last lines of container {container}:"
    for text in lines[-SHOWN_LINES:]:
        yield f"    {render_output(text)}"
