import json

import pytest
from hypothesis import given

from framework.api import gojson
from tests.support.builders.strategies import json_values


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [True, None, -2.5]}, '{"b":1,"a":[true,null,-2.5]}'),
        ("plain", '"plain"'),
        ('say "no" \\', r'"say \"no\" \\"'),
        ("a<b>&c", r'"a\u003cb\u003e\u0026c"'),
        ("\n\r\t", r'"\n\r\t"'),
        ("\x00\x08\x0c\x1f", r'"\u0000\u0008\u000c\u001f"'),
        ("\u2028\u2029", r'"\u2028\u2029"'),
        ("naïve 日本 😀", '"naïve 日本 😀"'),
        ("\x7f/'", '"\x7f/\'"'),
        ({"<": {}}, r'{"\u003c":{}}'),
        (("x", []), '["x",[]]'),
    ],
)
def test_dumps_table(value: object, text: str) -> None:
    assert gojson.dumps(value) == text


@given(json_values)
def test_dumps_of_any_value_is_the_same_json(value: object) -> None:
    assert json.loads(gojson.dumps(value)) == value
