"""CRDs: registration, pruning, defaults, nulls, validation, status, scale, generation."""

from typing import Any

import pytest

from localcluster.apiserver.model.errors import Object
from localcluster.apiserver.storage import StatusError, WriteOptions
from tests.localcluster.storage.worlds import GROUP, NAMESPACE, World, definition, widget

LIST_MAP = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string"}, "size": {"type": "integer", "default": 3}},
    },
}


def widget_world(properties: Object, **version: Any) -> World:
    world = World()
    world.create_definition(definition(properties, **version))
    return world


def create(world: World, options: WriteOptions | None = None, **spec: Any) -> Object:
    return world.storage.create(world.type("widgets"), NAMESPACE, widget("w", **spec), options)


def test_definition_goes_after_its_objects(world: World) -> None:
    world.create_definition(definition({}))
    create(world)
    crds = world.type("customresourcedefinitions")
    world.storage.delete(crds, None, f"widgets.{GROUP}")
    with pytest.raises(StatusError, match="is terminating") as caught:
        world.create("widgets", widget("late"))
    assert caught.value.code == 405
    world.storage.collect_garbage()
    assert world.storage.registry.find(GROUP, "v1", "widgets") is None
    assert world.storage.list(crds, None).items == []


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
    body = definition({})
    change(body)
    with pytest.raises(StatusError) as caught:
        world.create_definition(body)
    assert caught.value.code == 422
    assert any(cause.field.endswith(path) for cause in caught.value.causes), caught.value.message
    assert world.storage.registry.find(GROUP, "v1", "widgets") is None


@pytest.mark.parametrize(
    ("properties", "given", "stored"),
    [
        pytest.param({}, {"x": 1}, {}, id="unknown-dropped"),
        pytest.param(
            {"any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            {"any": {"x": {"y": 1}}},
            {"any": {"x": {"y": 1}}},
            id="unknown-preserved",
        ),
        pytest.param(
            {
                "any": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": True,
                    "properties": {"k": {"type": "object", "properties": {}}},
                }
            },
            {"any": {"x": 1, "k": {"y": 1}}},
            {"any": {"x": 1, "k": {}}},
            id="known-below-preserved-is-pruned",
        ),
        pytest.param({"d": {"type": "integer", "default": 7}}, {}, {"d": 7}, id="default"),
        pytest.param(
            {"d": {"type": "integer", "default": 7}}, {"d": None}, {"d": 7}, id="null-gets-default"
        ),
        pytest.param({"n": {"type": "integer"}}, {"n": None}, {}, id="null-pruned"),
        pytest.param(
            {"n": {"type": "integer", "nullable": True}}, {"n": None}, {"n": None}, id="nullable"
        ),
        pytest.param(
            {"n": {"type": "integer", "nullable": True, "default": 1}},
            {"n": None},
            {"n": None},
            id="nullable-default",
        ),
        pytest.param(
            {"l": LIST_MAP},
            {"l": [{"name": "a"}, {"name": "b", "size": None, "x": 1}]},
            {"l": [{"name": "a", "size": 3}, {"name": "b", "size": 3}]},
            id="items",
        ),
        pytest.param(
            {"m": {"type": "object", "additionalProperties": {"type": "integer"}}},
            {"m": {"a": 1, "b": None}},
            {"m": {"a": 1}},
            id="map",
        ),
        pytest.param(
            {
                "o": {
                    "type": "object",
                    "default": {},
                    "properties": {"q": {"type": "integer", "default": 5}},
                }
            },
            {},
            {"o": {"q": 5}},
            id="default-in-default",
        ),
    ],
)
def test_custom_object_is_pruned_and_defaulted(
    properties: Object, given: Object, stored: Object
) -> None:
    assert create(widget_world(properties), **given)["spec"] == stored


INVALID: list[Any] = [
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
    ({"type": "array", "items": {"type": "string"}, "minItems": 1}, [], "at least 1 items"),
    (
        {"type": "array", "items": {"type": "string"}, "maxItems": 1},
        ["a", "b"],
        "Too many: 2: must have at most 1 item",
    ),
    (
        {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        ["a", "a"],
        'Duplicate value: "a"',
    ),
    (LIST_MAP, [{"name": "a"}, {"name": "a"}], 'Duplicate value: {"name":"a"}'),
    (LIST_MAP, [{}], "Required value"),
    (
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"a": "b"},
        "must be of type integer",
    ),
]


@pytest.mark.parametrize(("schema", "value", "text"), INVALID)
def test_invalid_custom_object_is_unprocessable(schema: Object, value: Any, text: str) -> None:
    world = widget_world({"f": schema})
    with pytest.raises(StatusError) as caught:
        create(world, f=value)
    assert (caught.value.code, caught.value.reason) == (422, "Invalid")
    assert caught.value.message.startswith(f'Widget.{GROUP} "w" is invalid: ')
    assert text in caught.value.message
    assert world.names("widgets") == []


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "number"}, 1),
        ({"x-kubernetes-int-or-string": True}, "5%"),
        ({"x-kubernetes-int-or-string": True}, 5),
        ({"type": "string", "enum": ["A"], "nullable": True}, None),
        ({"type": "string", "format": "date-time"}, "2024-01-01T00:00:00Z"),
    ],
)
def test_valid_custom_object_is_stored(schema: Object, value: Any) -> None:
    assert create(widget_world({"f": schema}), f=value)["spec"] == {"f": value}
