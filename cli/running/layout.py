"""Fits the state of all Frameworks into a terminal. Pure.

1. Each Framework has a title line with its name, state and attempt; its note is below, wrapped, and
the epoch of its processes if they have restarted in place.
2. Equal Tasks are one row; rows that need attention come first. A note that does not fit into the
   row is wrapped below it.
3. The lines of the terminal are shared: a Framework that needs fewer leaves them to the others.
   Tasks and Frameworks without a line are counted.

A state is never cut, and a note only if it has more lines than its Framework may use. The name of
a Task is shortened in its middle if the terminal is too narrow.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len, chop_cells, set_cell_size

from cli.running.folding import TaskRow, count_states, fold_tasks
from cli.running.views import GangView
from framework.api.text import make_printable

_GAP = "  "
_INDENT, _NARROW_INDENT, _NARROW_WIDTH = 6, 1, 40
_MARGIN = "  "
# The parts of the lines that an alert, or the note of a Framework, may use.
_ALERT_PART, _NOTE_PART = 4, 3


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the screen."""

    text: str
    """Printable, and not wider than the screen."""
    state: str = ""
    """The state in the text; "" for none."""
    state_start: int = 0
    """Position of the state in the text."""
    has_spinner: bool = False
    """Whether its first two columns are those of the spinner."""
    is_alert: bool = False


def lay_out(
    gangs: Sequence[GangView], elapsed_seconds: float, alert: str | None, size: tuple[int, int]
) -> list[Line]:
    """Build the lines of a screen.

    Args:
        gangs: every Framework.
        elapsed_seconds: since the start.
        alert: why the Frameworks cannot be watched now; None if they are watched.
        size: columns and lines of the terminal, of which all columns and all lines may be used.
    """
    width, height = max(1, size[0]), max(1, size[1])
    lines = [Line(text, is_alert=True) for text in wrap_cells(alert or "", width)]
    lines = _cut(lines, height // _ALERT_PART, width)
    height -= len(lines)
    shown = list(gangs)
    hidden: list[GangView] = []
    if len(shown) > height:
        shown = sorted(shown, key=lambda gang: gang.is_succeeded)
        shown, hidden = shown[: max(0, height - 1)], shown[max(0, height - 1) :]
        height -= 1
    for gang, share in zip(shown, _share(shown, width, height), strict=True):
        lines += _lay_out_gang(gang, elapsed_seconds, width, share)
    if hidden:
        lines.append(Line(_fit(f"{_MARGIN}{len(hidden)} more Frameworks", width)))
    return lines


def wrap_cells(text: str, width: int) -> list[str]:
    """Wrap a text at its spaces into lines of so many columns; a longer word is broken."""
    lines: list[str] = []
    current = ""
    for word in make_printable(text).split():
        for piece in chop_cells(word, max(2, width)) if cell_len(word) > width else (word,):
            joined = f"{current} {piece}" if current else piece
            if cell_len(joined) <= width:
                current = joined
            else:
                lines.append(current)
                current = piece
    return [*lines, current] if current else lines


def _share(gangs: Sequence[GangView], width: int, height: int) -> list[int]:
    """Share the lines: each Framework gets what it needs, at most an equal part of the rest."""
    needs = {i: len(_lay_out_gang(gang, 0, width, height)) for i, gang in enumerate(gangs)}
    shares = dict.fromkeys(needs, 1)
    left = height
    for number, index in enumerate(sorted(needs, key=needs.__getitem__)):
        shares[index] = max(1, min(needs[index], left // (len(needs) - number)))
        left -= shares[index]
    return [shares[index] for index in range(len(gangs))]


def _lay_out_gang(gang: GangView, elapsed_seconds: float, width: int, height: int) -> list[Line]:
    # The rising number of seconds must not change the number of lines.
    facts = [f"attempt {gang.attempt}", f"{elapsed_seconds:.0f} s"]
    title = _build_row(gang.name, gang.state, facts, width, _Columns())
    texts = gang.note, gang.epoch, gang.training
    notes = [line for text in texts for line in _build_notes(text, width)]
    if gang.tasks:
        notes = _cut(notes, max(1, height // _NOTE_PART), width)
    lines = _cut([replace(title, has_spinner=True), *notes], height, width)
    blocks = _build_blocks(gang, width, height - len(lines))
    left = height - len(lines)
    total = sum(len(row.indices) for row, _ in blocks)
    tasks = {line.key: line for line in gang.tasks}
    for position, (row, block) in enumerate(blocks):
        is_last = position == len(blocks) - 1 and total == len(gang.tasks)
        room = left if is_last else left - 1
        if len(block) > room and not (position == 0 and room > 0):
            break
        shown = _cut(block, room, width)
        lines += shown
        left -= len(shown)
        for index in row.indices:
            del tasks[row.line.key._replace(index=index)]
    if tasks and left > 0:
        text = f"{_MARGIN}{len(tasks)} more Task{'s' * (len(tasks) != 1)}"
        counted = f"{text}: {count_states(tasks.values())}"
        lines.append(Line(counted if cell_len(counted) <= width else _fit(text, width)))
    return lines


@dataclass(slots=True)
class _Columns:
    """Widths of the columns of a table."""

    name: int = 0
    state: int = 0


def _build_blocks(gang: GangView, width: int, height: int) -> list[tuple[TaskRow, list[Line]]]:
    """Build the lines of the rows of Tasks, for at most ``height`` rows."""
    rows = fold_tasks(gang.tasks)[: max(0, height)]
    columns = _Columns(
        max((cell_len(row.name) for row in rows), default=0),
        max((cell_len(row.line.state) for row in rows), default=0),
    )
    return [(row, list(_build_block(row, width, columns))) for row in rows]


def _build_block(row: TaskRow, width: int, columns: _Columns) -> Iterator[Line]:
    line = row.line
    facts = [f"attempt {line.attempt}"]
    note = make_printable(line.note)
    whole = _build_row(row.name, line.state, [*facts, note] if note else facts, width, columns)
    if not note or whole.text.endswith(note):
        yield whole
        return
    yield _build_row(row.name, line.state, facts, width, columns)
    yield from _build_notes(note, width)


def _build_notes(note: str, width: int) -> list[Line]:
    indent = " " * (_INDENT if width >= _NARROW_WIDTH else min(_NARROW_INDENT, width - 1))
    # A character may be wider than a terminal of one column.
    return [Line(_fit(indent + text, width)) for text in wrap_cells(note, width - len(indent))]


def _build_row(name: str, state: str, facts: Iterable[str], width: int, columns: _Columns) -> Line:
    """Build a row; leave out the last facts, then shorten the name, so that the state fits."""
    name, state = make_printable(name), make_printable(state)
    state_width = max(columns.state, cell_len(state))
    # A terminal of a few columns has room for the state only.
    margin = _MARGIN if width >= len(_MARGIN) + state_width else ""
    room = width - len(margin) - len(_GAP) - state_width
    before = margin
    if room > 0:
        name = _shorten_middle(name, room)
        before += set_cell_size(name, min(max(columns.name, cell_len(name)), room)) + _GAP
    text = _fit(before + set_cell_size(state, state_width), width)
    for fact in facts:
        longer = f"{text}{_GAP}{fact}"
        if cell_len(longer) > width:
            break
        text = longer
    return Line(text.rstrip(), state, len(before))


def _cut(lines: list[Line], count: int, width: int) -> list[Line]:
    """Keep the first lines; a mark at the end of the last line shows that there are more."""
    if len(lines) <= count or count <= 0:
        return lines[: max(0, count)]
    last = lines[count - 1]
    mark = "…" if cell_len(last.text) < width else ""
    return [*lines[: count - 1], replace(last, text=last.text + mark)]


def _shorten_middle(name: str, width: int) -> str:
    """Shorten a name in its middle, because the index at its end identifies the Task."""
    if cell_len(name) <= width:
        return name
    if width <= 2:  # noqa: PLR2004 one character and the mark
        return name[: max(0, width)]
    tail = min(len(name) - 1, (width - 1) * 2 // 3)
    return f"{name[: width - 1 - tail]}…{name[-tail:]}"


def _fit(text: str, width: int) -> str:
    return text if cell_len(text) <= width else chop_cells(text, width)[0]
