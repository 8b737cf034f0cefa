"""The Tables of an API server, as ``kubectl get`` prints them. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cli.objects import read_key
from cli.printing.columns import Aligner
from cli.printing.gotext import render_text
from framework.kube.resources import Object

_NAMESPACE = "NAMESPACE"


@dataclass(frozen=True, slots=True)
class _Column:
    index: int
    header: str


class TablePrinter:
    """Renders the rows of one Table; of a watch, some rows after the other."""

    def __init__(
        self, table: Object, *, is_wide: bool, has_namespace: bool, has_header: bool
    ) -> None:
        """Begin with the columns of a Table.

        Args:
            table: an answer of the server.
            is_wide: show the columns of lower priority, too.
            has_namespace: show the namespace of each row.
            has_header: begin with the names of the columns.
        """
        definitions = table.get("columnDefinitions")
        self._columns = [
            _Column(index, str(column.get("name", "")).upper())
            for index, column in enumerate(definitions if isinstance(definitions, list) else ())
            if isinstance(column, dict) and (is_wide or not column.get("priority"))
        ]
        self._has_namespace = has_namespace
        self._has_header = has_header
        self._aligner = Aligner()

    def render(self, rows: Sequence[Object]) -> list[str]:
        """Render rows, with the header before the first ones."""
        lines = [self._build_row(row) for row in rows]
        if self._has_header and rows:
            header = [column.header for column in self._columns]
            lines.insert(0, [_NAMESPACE, *header] if self._has_namespace else header)
            self._has_header = False
        return list(self._aligner.align(lines))

    def _build_row(self, row: Object) -> list[str]:
        cells = row.get("cells")
        values = cells if isinstance(cells, list) else []
        shown = [_show(values[c.index]) if c.index < len(values) else "" for c in self._columns]
        return [read_key(row)[0], *shown] if self._has_namespace else shown


def _show(value: Any) -> str:
    return "" if value is None else render_text(value)
