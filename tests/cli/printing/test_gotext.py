import json
from typing import Any

import pytest

from cli.printing.gotext import render_json, render_text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "<nil>"),
        (True, "true"),
        (7, "7"),
        (0.5, "0.5"),
        (-0.25, "-0.25"),
        (1.5e21, "1.5e+21"),
        (1e-7, "1e-07"),
        ("a b", "a b"),
        ({"b": [1, "x"], "a": None}, "map[a:<nil> b:[1 x]]"),
    ],
)
def test_value_is_written_as_go_writes_it(value: Any, expected: str) -> None:
    assert render_text(value) == expected


def test_json_is_sorted_and_escapes_what_html_reads() -> None:
    assert render_json({"b": "<&>", "a": []}) == '{"a":[],"b":"\\u003c\\u0026\\u003e"}'
    assert render_json({"a": [1]}, 4) == '{\n    "a": [\n        1\n    ]\n}'


@pytest.mark.parametrize("text", ["\x1b[2J", "\x7f", "\x9b", "\u202e", "\ud800", "\U000e0041"])
def test_json_has_no_character_that_a_terminal_obeys_and_keeps_the_value(text: str) -> None:
    shown = render_json({"a": text})
    assert text not in shown
    assert json.loads(shown) == {"a": text}
