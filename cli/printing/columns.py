"""Aligns rows as kubectl does, and computes the columns of ``-o custom-columns=``. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cli.printing.gotext import render_text
from cli.printing.jsonpath import Path
from cli.printing.jsonpath_parser import TemplateError
from framework.api.text import make_printable

NONE = "<none>"
MAX_COLUMNS = 100
"""The most columns of ``-o custom-columns=``."""
_MIN_WIDTH = 6
_PADDING = 3
_BREAKS = "\n\r\f"


class Aligner:
    """Aligns rows of the same number of cells.

    It remembers the widths, so that the rows of a watch stand below those before them.
    """

    def __init__(self) -> None:
        """Start with the least width of each column."""
        self._widths: list[int] = []

    def align(self, rows: Sequence[Sequence[str]]) -> Iterator[str]:
        """Yield a line for each row."""
        shown = [[shorten_cell(cell) for cell in row] for row in rows]
        for row in shown:
            missing = len(row) - 1 - len(self._widths)
            self._widths += [_MIN_WIDTH] * missing
            for column, cell in enumerate(row[:-1]):
                self._widths[column] = max(self._widths[column], len(cell) + _PADDING)
        for row in shown:
            widths = self._widths[: len(row) - 1]
            yield "".join(map(str.ljust, row[:-1], widths)) + row[-1]


def shorten_cell(text: str) -> str:
    """Show the first line of a cell, with three dots for the others."""
    end = min((i for i in map(text.find, _BREAKS) if i >= 0), default=-1)
    return make_printable(text if end < 0 else f"{text[:end]}...")


@dataclass(frozen=True, slots=True)
class CustomColumns:
    """The columns that a user asked for."""

    headers: tuple[str, ...]
    paths: tuple[Path, ...]

    def build_row(self, body: Any) -> list[str]:
        """Build the cells of an object.

        Raises:
            TemplateError: a path does not fit the object.
        """
        return [",".join(map(render_text, path.find(body))) or NONE for path in self.paths]


def parse_columns(text: str) -> CustomColumns:
    """Parse ``HEADER:PATH,HEADER:PATH``.

    Raises:
        TemplateError: there are no columns, too many, or a path cannot be read.
    """
    parts = text.split(",")
    if len(parts) > MAX_COLUMNS:
        raise TemplateError(f"it has {len(parts)} columns; write at most {MAX_COLUMNS}")
    headers, paths = [], []
    for part in parts:
        header, colon, path = part.partition(":")
        if not header or not colon or not path:
            raise TemplateError(f"{part[:80]!r} is not a column; write HEADER:PATH")
        headers.append(header)
        paths.append(Path(path))
    return CustomColumns(tuple(headers), tuple(paths))
