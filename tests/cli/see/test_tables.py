from cli.see.tables import TablePrinter
from framework.kube.resources import Object

COLUMNS: Object = {
    "columnDefinitions": [
        {"name": "Name", "priority": 0},
        {"name": "Attempt"},
        {"name": "Phrase", "priority": 1},
    ]
}


def build_row(*cells: object, namespace: str = "default") -> Object:
    return {"cells": list(cells), "object": {"metadata": {"namespace": namespace, "name": "x"}}}


def render(*rows: Object, is_wide: bool = False, has_namespace: bool = False) -> list[str]:
    printer = TablePrinter(COLUMNS, is_wide=is_wide, has_namespace=has_namespace, has_header=True)
    return printer.render(rows)


def test_columns_of_low_priority_are_wide_only() -> None:
    row = build_row("gang", 0, "Gone")
    assert render(row) == ["NAME   ATTEMPT", "gang   0"]
    assert render(row, is_wide=True) == ["NAME   ATTEMPT   PHRASE", "gang   0         Gone"]


def test_namespace_is_the_first_column() -> None:
    assert render(build_row("gang", None, namespace="a-team"), has_namespace=True) == [
        "NAMESPACE   NAME   ATTEMPT",
        "a-team      gang   ",
    ]


def test_table_that_is_not_one_shows_what_it_has() -> None:
    assert render({"cells": "none", "object": None}, {}) == ["NAME   ATTEMPT", "       ", "       "]


def test_cells_of_a_hostile_server_control_no_terminal() -> None:
    assert render(build_row("\x1b[2J\nfake", {"a": "\u202e"}))[1] == "\\x1b[2J...   map[a:\\u202e]"
