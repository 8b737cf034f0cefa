"""CEL in the storage: what only the local server promises; the rest is the contract suite's."""

import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pytest

from localcluster.apiserver.model.errors import Object, StatusError
from localcluster.apiserver.schemas.cel import CelError, Expression, escape_name, to_cel
from localcluster.apiserver.schemas.correlation import Correlation
from tests.localcluster.storage.worlds import World, definition

RULES = "x-kubernetes-validations"
MAP: Object = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
    },
}


def evaluate(source: str, value: Any, schema: Object, old: Any = None) -> Any:
    expression = Expression(source, schema, "bool", is_optional=False)
    before = None if old is None else to_cel(old, schema)
    return expression.evaluate(to_cel(value, schema), before)


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("plain", "plain"),
        ("with-dash", "with__dash__dash"),
        ("a.b/c", "a__dot__b__slash__c"),
        ("in", "__in__"),
        ("inside", "inside"),
        ("two__parts", "two__underscores__parts"),
    ],
)
def test_field_name_is_escaped_as_the_api_server_does(name: str, escaped: str) -> None:
    assert escape_name(name) == escaped


def test_rule_reads_escaped_fields_and_not_those_without_a_schema() -> None:
    schema = {"type": "object", "properties": {"a-b": {"type": "integer"}}}

    assert evaluate("self.a__dash__b == 1 && !has(self.c)", {"a-b": 1, "c": 2}, schema) is True


def test_rule_compares_times() -> None:
    schema = {"type": "string", "format": "date-time"}

    assert to_cel("2026-01-01T00:00:00Z", schema) == datetime(2026, 1, 1, tzinfo=UTC)
    source = "self > timestamp('2025-01-01T00:00:00Z')"
    assert evaluate(source, "2026-01-01T00:00:00Z", schema) is True
    assert evaluate(source, "2024-01-01T00:00:00Z", schema) is False


@pytest.mark.parametrize(
    ("schema", "value", "source"),
    [
        ({"type": "number"}, 2, "self == 2.0"),
        ({"type": "integer"}, 2.0, "self == 2"),
        ({"x-kubernetes-int-or-string": True}, 2, "self == 2"),
        ({"type": "array", "items": {"type": "number"}}, [1, 2], "self == [1.0, 2.0]"),
    ],
)
def test_rule_sees_numbers_as_the_schema_has_them(schema: Object, value: Any, source: str) -> None:
    assert evaluate(source, value, schema) is True


def test_rule_that_divides_by_zero_says_so() -> None:
    with pytest.raises(CelError, match="divide by zero"):
        evaluate("1 / self == 1", 0, {"type": "integer"})


def test_rule_may_end_in_a_comment_also_with_an_optional_old_value() -> None:
    source = "oldSelf.hasValue() // as after an update"
    expression = Expression(source, {"type": "string"}, "bool", is_optional=True)

    assert (expression.evaluate("a", None), expression.evaluate("a", "b")) == (False, True)


def test_old_value_in_a_text_is_no_use_of_it() -> None:
    assert not Expression(
        "self != 'oldSelf'", {"type": "string"}, "bool", is_optional=False
    ).uses_old


@pytest.mark.parametrize(
    ("new", "old", "is_equal"),
    [
        ([{"name": "a"}], [{"name": "a"}], True),
        ([{"name": "a"}, {"name": "b"}], [{"name": "b"}, {"name": "a"}], True),
        ([{"name": "a", "size": 1}], [{"name": "a", "size": True}], False),
        ([{"name": "a"}], [{"name": "a"}, {"name": "b"}], False),
        ([{"size": 1}], [{"size": 1}], False),
        ([{"name": "a", "unknown": 1}], [{"name": "a", "unknown": 1}], False),
    ],
    ids=["same", "order", "type", "length", "no key", "not described"],
)
def test_list_by_keys_is_unchanged_only_if_every_item_is(
    new: Any, old: Any, *, is_equal: bool
) -> None:
    assert Correlation(new, old, MAP).is_equal() is is_equal


def test_definition_kept_from_before_has_its_rules_after_a_restart(world: World) -> None:
    code = {"type": "string", RULES: [{"rule": "self == 'a'"}]}
    world.create_definition(definition({"code": code}))
    dumped = world.storage.dump()
    world.storage = world.storage.restore(dumped, world.clock, world.uids)
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}

    with pytest.raises(StatusError, match="failed rule: self == 'a'"):
        world.create("widgets", {**body, "spec": {"code": "b"}})


def test_library_of_rules_is_loaded_with_the_first_rule_only() -> None:
    source = """
import sys
from framework.clock import SystemClock, SystemUids
from localcluster.apiserver.storage import Storage
storage = Storage(SystemClock(), SystemUids())
[rt] = [t for t in storage.registry.all() if t.plural == "configmaps"]
assert "cel_expr_python.cel" not in sys.modules
from localcluster.apiserver.schemas.cel import Expression
Expression("self == 1", {"type": "integer"}, "bool", is_optional=False)
assert "cel_expr_python.cel" in sys.modules
"""
    subprocess.run([sys.executable, "-c", source], check=True, timeout=30)
