"""The table at the end of a run. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from cli.running.folding import TaskRow, fold_tasks
from cli.running.layout import wrap_cells
from cli.running.views import GangView, TaskLine
from framework.api.text import make_printable

_HEADER = ("TASK", "STATE", "ATTEMPT", "CODE", "NOTE")
_NO_TASKS = "There are no Tasks."
# A table of so many Tasks has a row for each.
_FEW = 16
_MIN_NOTE_WIDTH = 30
_INDENT = 4


def build_table(
    tasks: Sequence[TaskLine], *, width: int | None = None, folds: bool = True
) -> list[str]:
    """Build the rows of a table, Tasks that failed by themselves first.

    Args:
        tasks: of one Framework.
        width: columns of the terminal, in which notes are wrapped; None: they are not.
        folds: whether equal Tasks of a large Framework share a row; failed ones never do.

    Returns:
        The lines; without Tasks, a sentence.
    """
    if not tasks:
        return [_NO_TASKS]
    rows = list(_list_rows(tasks, folds=folds and len(tasks) > _FEW))
    texts = format_rows([_HEADER, *map(_build_cells, rows)])
    if width is None:
        return texts
    start = texts[0].index(_HEADER[-1])
    return [line for text in texts for line in wrap_row(text, start, width)]


def add_restart_note(view: GangView) -> tuple[TaskLine, ...]:
    """Return the Tasks, with a note at the Task whose process failed before a restart in place.

    An existing note of this Task stays: the end of the Task is more important.
    """
    if view.restart is None:
        return view.tasks
    key, note = view.restart
    return tuple(
        replace(line, note=note) if line.key == key and not line.note else line
        for line in view.tasks
    )


def format_rows(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align the columns of a table with two spaces between them."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _list_rows(tasks: Sequence[TaskLine], *, folds: bool) -> Iterator[TaskRow]:
    failed = [line for line in tasks if line.is_own_failure]
    others = [line for line in tasks if not line.is_own_failure]
    for line in failed:
        yield TaskRow(line, (line.key.index,))
    if folds:
        yield from fold_tasks(others)
        return
    for line in others:
        yield TaskRow(line, (line.key.index,))


def _build_cells(row: TaskRow) -> tuple[str, ...]:
    line = row.line
    code = "" if line.code is None else str(line.code)
    cells = (row.name, line.state, str(line.attempt), code, line.note)
    return tuple(make_printable(cell) for cell in cells)


def wrap_row(text: str, start: int, width: int) -> Iterator[str]:
    """Wrap the note at the end of a row, below itself or, if that is too narrow, below the row.

    Args:
        text: the row.
        start: where its note begins.
        width: columns of the terminal.
    """
    if len(text) <= width or not text[start:]:
        yield text
        return
    if width - start >= _MIN_NOTE_WIDTH:
        first, *rest = wrap_cells(text[start:], width - start)
        yield text[:start] + first
        yield from (" " * start + line for line in rest)
        return
    yield text[:start].rstrip()
    yield from (" " * _INDENT + line for line in wrap_cells(text[start:], width - _INDENT))
