import pytest

from cli.printing.columns import Aligner, parse_columns
from cli.printing.jsonpath_parser import TemplateError


def test_rows_of_a_watch_stand_below_those_before() -> None:
    aligner = Aligner()
    assert list(aligner.align([["NAME", "STATE"], ["a-long-name", "Running"]])) == [
        "NAME          STATE",
        "a-long-name   Running",
    ]
    assert list(aligner.align([["b", "Completed"]])) == ["b             Completed"]


def test_cell_of_many_lines_shows_its_first() -> None:
    assert list(Aligner().align([["a\nb\x1b", "\x1b[2J"]])) == ["a...   \\x1b[2J"]


def test_columns_of_the_user_show_values_and_none() -> None:
    columns = parse_columns("NAME:.metadata.name,ALL:{.list[*]},MISSING:.x.y")
    assert columns.headers == ("NAME", "ALL", "MISSING")
    row = columns.build_row({"metadata": {"name": "gang"}, "list": [1, {"a": "b"}]})
    assert row == ["gang", "1,map[a:b]", "<none>"]


@pytest.mark.parametrize("text", ["NAME", "NAME:", ":.a", "A:.a,,B:.b", ",".join(["A:.a"] * 101)])
def test_columns_that_are_not_complete_are_refused(text: str) -> None:
    with pytest.raises(TemplateError):
        parse_columns(text)
