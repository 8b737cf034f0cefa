"""Definitions and their objects, where tests/contract has no case: texts, and rarer schemas."""

from typing import Any

import pytest

from localcluster.apiserver.model.errors import Object
from localcluster.apiserver.storage import StatusError
from tests.contract.definitions import define
from tests.localcluster.storage.worlds import World

DEFINITIONS = "customresourcedefinitions"
GROUP = "contract.example.com"
NAME = f"gauges.{GROUP}"


def list_by_name(**size: Any) -> Object:
    properties = {"name": {"type": "string"}, "size": {"type": "integer", **size}}
    return {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "required": ["name"], "properties": properties},
    }


def build_world(**properties: Object) -> World:
    world = World()
    world.create(DEFINITIONS, define({"type": "object", "properties": properties}))
    return world


def create(world: World, **spec: Any) -> Object:
    head = {"apiVersion": f"{GROUP}/v1", "kind": "Gauge", "metadata": {"name": "g"}}
    return world.create("gauges", {**head, "spec": spec})


def test_definition_is_removed_after_its_objects() -> None:
    world = build_world()
    create(world)
    definitions = world.type(DEFINITIONS)
    world.storage.delete(definitions, None, NAME)
    with pytest.raises(StatusError, match="is terminating") as caught:
        create(world)
    assert caught.value.code == 405
    world.storage.collect_garbage()
    assert world.storage.registry.find(GROUP, "v1", "gauges") is None
    assert world.storage.list(definitions, None).items == []


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda body: body["metadata"].update(name="other"), "metadata.name"),
        (lambda body: body["spec"].pop("scope"), "spec.scope"),
        (lambda body: body["spec"].update(scope="World"), "spec.scope"),
        (lambda body: body["spec"]["versions"][0].pop("schema"), "openAPIV3Schema"),
        (lambda body: body["spec"]["versions"][0].update(storage=False), "spec.versions"),
        (lambda body: body["spec"]["versions"][0].update(served=False), "spec.versions"),
        (lambda body: body["spec"].update(versions=body["spec"]["versions"] * 2), "spec.versions"),
        (lambda body: body["spec"]["names"].pop("plural"), "spec.names.plural"),
    ],
)
def test_bad_definition_is_invalid_and_registers_nothing(
    world: World, change: Any, path: str
) -> None:
    body = define({"type": "object"})
    change(body)
    with pytest.raises(StatusError) as caught:
        world.create(DEFINITIONS, body)
    assert caught.value.code == 422
    assert any(cause.field.endswith(path) for cause in caught.value.causes), caught.value.message
    assert world.storage.registry.find(GROUP, "v1", "gauges") is None


OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
CLOSED = {"type": "object"}
INTEGERS = {"type": "object", "additionalProperties": {"type": "integer"}}


@pytest.mark.parametrize(
    ("schema", "given", "stored"),
    [
        ({**OPEN, "properties": {"k": CLOSED}}, {"x": 1, "k": {"y": 1}}, {"x": 1, "k": {}}),
        ({"type": "integer", "nullable": True, "default": 1}, None, None),
        (
            list_by_name(default=3),
            [{"name": "a"}, {"name": "b", "size": None, "x": 1}],
            [{"name": "a", "size": 3}, {"name": "b", "size": 3}],
        ),
        (INTEGERS, {"a": 1, "b": None}, {"a": 1}),
        ({"type": "number"}, 1, 1),
        ({"type": "string", "enum": ["A"], "nullable": True}, None, None),
        ({"type": "string", "format": "date-time"}, "2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
    ],
    ids=["known below open", "null", "items", "map", "number", "null in enum", "date-time"],
)
def test_custom_object_is_pruned_and_defaulted(schema: Object, given: Any, stored: Any) -> None:
    assert create(build_world(f=schema), f=given)["spec"] == {"f": stored}


STRINGS = {"type": "array", "items": {"type": "string"}}


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        ({"type": "integer"}, "a", 'must be of type integer: "string"'),
        ({"type": "integer"}, 1.5, 'must be of type integer: "number"'),
        ({"type": "boolean"}, "true", 'must be of type boolean: "string"'),
        ({"type": "object"}, [], 'must be of type object: "array"'),
        ({"x-kubernetes-int-or-string": True}, True, 'must be of type integer,string: "boolean"'),
        ({"type": "integer", "minimum": 1}, 0, "should be greater than or equal to 1"),
        ({"type": "integer", "maximum": 1}, 2, "should be less than or equal to 1"),
        ({"type": "integer", "format": "int32"}, 1 << 31, "int32"),
        ({"type": "string", "enum": ["A", "B"]}, "C", 'supported values: "A", "B"'),
        ({"type": "string", "pattern": "^[a-z]+$"}, "A", "should match '^[a-z]+$'"),
        ({"type": "string", "pattern": "^[a-z]+$"}, "a\n", "should match '^[a-z]+$'"),
        ({"type": "string", "minLength": 2}, "a", "should be at least 2 chars long"),
        ({"type": "string", "maxLength": 2}, "abc", "Too long: may not be more than 2 bytes"),
        ({"type": "string", "format": "date-time"}, "soon", "must be of type date-time"),
        ({**STRINGS, "minItems": 1}, [], "at least 1 items"),
        ({**STRINGS, "maxItems": 1}, ["a", "b"], "Too many: 2: must have at most 1 item"),
        ({**STRINGS, "x-kubernetes-list-type": "set"}, ["a", "a"], 'Duplicate value: "a"'),
        (list_by_name(), [{"name": "a"}, {"name": "a"}], 'Duplicate value: {"name":"a"}'),
        (list_by_name(), [{}], "Required value"),
        (INTEGERS, {"a": "b"}, "must be of type integer"),
    ],
)
def test_invalid_custom_object_is_refused_with_a_text(
    schema: Object, value: Any, text: str
) -> None:
    world = build_world(f=schema)
    with pytest.raises(StatusError) as caught:
        create(world, f=value)
    assert (caught.value.code, caught.value.reason) == (422, "Invalid")
    assert caught.value.message.startswith(f'Gauge.{GROUP} "g" is invalid: ')
    assert text in caught.value.message
    assert world.names("gauges") == []
