"""Custom resources: pruning, defaults, nulls, validation, status, generation."""

import copy
from typing import Any

import pytest

from tests.contract.apiclient import GROUP, JSON_PATCH, TABLE, Api, Object, widget
from tests.contract.definitions import define, defined


@pytest.mark.parametrize(
    ("spec", "stored"),
    [
        ({}, {}),
        ({"nested": {}}, {"nested": {"flag": True}}),
        ({"parts": [{"name": "a"}]}, {"parts": [{"name": "a", "weight": 1}]}),
        ({"maybe": None, "never": None, "withDefault": None}, {"maybe": None}),
        ({"port": 80}, {"port": 80}),
        ({"port": "http"}, {"port": "http"}),
    ],
    ids=["defaults", "nested default", "default of an item", "nulls", "int", "or string"],
)
async def test_stored_spec_has_the_defaults(
    api: Api, spec: dict[str, Any], stored: dict[str, Any]
) -> None:
    created = (await api.create("widgets", widget(**spec))).ok()
    assert created["spec"] == {"size": 1, "mode": "Fast", "withDefault": 7, **stored}
    assert created["metadata"]["generation"] == 1


async def test_unknown_fields_are_pruned(api: Api) -> None:
    body = widget(bogus=1, nested={"other": 2}, free={"anything": {"goes": [1]}})
    body["top"] = "x"

    answer = await api.create("widgets", body)

    created = answer.ok()
    assert "bogus" not in created["spec"]
    assert "top" not in created
    assert created["spec"]["nested"] == {"flag": True}
    assert created["spec"]["free"] == {"anything": {"goes": [1]}}
    warnings = " ".join(answer.headers.getall("Warning", []))
    for path in ("spec.bogus", "spec.nested.other", "top"):
        assert f'unknown field \\"{path}\\"' in warnings


async def test_null_where_unknown_fields_are_kept_stays(api: Api) -> None:
    (await api.create("widgets", widget(free={"a": None}))).ok()
    body = (await api.get("widgets", "one")).ok()
    body["status"] = {"state": "x", "extra": None}
    replaced = (await api.replace("widgets", body, subresource="status")).ok()
    assert body["spec"]["free"] == {"a": None}
    assert replaced["status"] == {"state": "x", "extra": None}


@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        ({"size": 11}, ("FieldValueInvalid", "spec.size")),
        ({"size": -1}, ("FieldValueInvalid", "spec.size")),
        ({"mode": "Odd"}, ("FieldValueNotSupported", "spec.mode")),
        ({"code": "123"}, ("FieldValueInvalid", "spec.code")),
        ({"size": "1"}, ("FieldValueTypeInvalid", "spec.size")),
        ({"size": 1.5}, ("FieldValueTypeInvalid", "spec.size")),
        ({"nested": []}, ("FieldValueTypeInvalid", "spec.nested")),
        ({"labels": {"a": 1}}, ("FieldValueTypeInvalid", "spec.labels.a")),
        ({"port": []}, ("FieldValueTypeInvalid", "spec.port")),
        ({"parts": [{}]}, ("FieldValueRequired", "spec.parts[0].name")),
        ({"parts": [{"name": "a"}, {"name": "a"}]}, ("FieldValueDuplicate", "spec.parts[1]")),
        ({"parts": [{"name": name} for name in "abcd"]}, ("FieldValueTooMany", "spec.parts")),
        ({"tags": ["a", "a"]}, ("FieldValueDuplicate", "spec.tags[1]")),
    ],
    ids=lambda value: value[0] + " " + value[1] if isinstance(value, tuple) else "",
)
async def test_invalid_resource_names_the_field(
    api: Api, spec: dict[str, Any], cause: tuple[str, str]
) -> None:
    answer = await api.create("widgets", widget(**spec))
    assert cause in answer.refused(422, "Invalid").causes


async def test_all_errors_are_listed_at_once(api: Api) -> None:
    answer = await api.create("widgets", widget(size=11, mode="Odd", code="1"))
    assert answer.refused(422, "Invalid").fields == ["spec.code", "spec.mode", "spec.size"]
    assert answer.body["details"]["group"] == GROUP
    assert answer.body["details"]["kind"] == "Widget"


async def test_status_at_creation_is_dropped(api: Api) -> None:
    created = (await api.create("widgets", {**widget(), "status": {"state": "x"}})).ok()
    assert "status" not in created


async def test_main_resource_leaves_the_status_alone(api: Api) -> None:
    created = (await api.create("widgets", widget())).ok()
    patch = {"status": {"state": "Running", "deep": {"kept": [1]}}}
    (await api.patch("widgets", "one", patch, subresource="status")).ok()

    body = {**copy.deepcopy(created), "status": {"state": "mine"}}
    body["metadata"] = (await api.get("widgets", "one")).ok()["metadata"]
    body["spec"]["size"] = 2
    replaced = (await api.replace("widgets", body)).ok()
    patched = (await api.patch("widgets", "one", {"status": {"state": "mine"}})).ok()

    assert replaced["spec"]["size"] == 2
    assert replaced["status"] == {"state": "Running", "deep": {"kept": [1]}}
    assert patched["metadata"]["resourceVersion"] == replaced["metadata"]["resourceVersion"]


async def test_status_resource_leaves_spec_and_metadata_alone(api: Api) -> None:
    created = (await api.create("widgets", widget())).ok()
    body = copy.deepcopy(created)
    body["spec"]["size"] = 9
    body["metadata"]["labels"] = {"a": "b"}
    body["status"] = {"state": "Running"}
    replaced = (await api.replace("widgets", body, subresource="status")).ok()
    assert replaced["status"] == {"state": "Running"}
    assert replaced["spec"] == created["spec"]
    assert "labels" not in replaced["metadata"]
    assert replaced["metadata"]["generation"] == 1


async def test_generation_counts_changes_of_the_spec(api: Api) -> None:
    (await api.create("widgets", widget())).ok()

    seen = []
    for patch, subresource in (
        ({"metadata": {"labels": {"a": "b"}}}, None),
        ({"status": {"state": "x"}}, "status"),
        ({"spec": {"size": 2}}, None),
        ({"spec": {"size": 2}}, None),
        ({"metadata": {"generation": 40}}, None),
    ):
        answer = await api.patch("widgets", "one", patch, subresource=subresource)
        seen.append(answer.ok()["metadata"]["generation"])

    assert seen == [1, 1, 2, 2, 2]


async def test_deletion_of_a_held_resource_counts_a_generation(api: Api) -> None:
    body = widget()
    body["metadata"]["finalizers"] = ["example.com/hold"]
    (await api.create("widgets", body)).ok()
    deleting = (await api.delete("widgets", "one")).ok()
    (await api.patch("widgets", "one", {"metadata": {"finalizers": None}})).ok()
    assert deleting["metadata"]["generation"] == 2


async def test_json_patch_with_a_test_guards_the_size(api: Api) -> None:
    (await api.create("widgets", widget())).ok()
    patch = [
        {"op": "test", "path": "/spec/size", "value": 1},
        {"op": "replace", "path": "/spec/size", "value": 3},
    ]
    first = await api.patch("widgets", "one", patch, JSON_PATCH)
    second = await api.patch("widgets", "one", patch, JSON_PATCH)
    assert first.ok()["spec"]["size"] == 3
    second.refused(422, "Invalid")


async def test_table_has_the_columns_of_the_definition(api: Api) -> None:
    (await api.create("widgets", widget(parts=[{"name": "a"}]))).ok()
    status = {"state": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    (await api.patch("widgets", "one", {"status": status}, subresource="status")).ok()

    table = (await api.send("GET", api.path("widgets"), accept=TABLE)).ok()

    columns = [
        (item["name"], item["type"], item["priority"]) for item in table["columnDefinitions"]
    ]
    assert columns == [
        ("Name", "string", 0),
        ("Size", "integer", 0),
        ("State", "string", 0),
        ("Ready", "string", 0),
        ("Parts", "string", 1),
        ("Age", "date", 0),
    ]
    cells = table["rows"][0]["cells"]
    assert cells[:-1] == ["one", 1, "Running", "True", '[{"name":"a","weight":1}]']
    assert cells[-1].endswith("s")


async def test_table_of_a_bare_resource_has_empty_cells(api: Api) -> None:
    (await api.create("widgets", widget())).ok()
    table = (await api.send("GET", api.path("widgets", "one"), accept=TABLE)).ok()
    assert table["rows"][0]["cells"][:-1] == ["one", 1, None, None, None]


async def test_definition_is_established(api: Api) -> None:
    definition = (await api.get("customresourcedefinitions", f"widgets.{GROUP}")).ok()
    true = {item["type"] for item in definition["status"]["conditions"] if item["status"] == "True"}
    assert {"NamesAccepted", "Established"} <= true
    assert definition["status"]["acceptedNames"]["kind"] == "Widget"
    assert definition["status"]["storedVersions"] == ["v1"]


async def test_resource_of_an_unknown_kind_is_not_found(api: Api) -> None:
    assert (await api.send("GET", f"/apis/{GROUP}/v1/gadgets")).status == 404


async def test_stored_object_is_read_by_the_newer_schema(api: Api) -> None:
    old = {"type": "integer"}
    plain = {"type": "object", "properties": {"code": {"type": "string"}, "old": old}}
    newer = {
        "type": "object",
        "properties": {
            "code": {"type": "string", "enum": ["a"]},
            "level": {"type": "integer", "default": 3},
            "rest": {
                "type": "object",
                "default": {},
                "properties": {"flag": {"type": "boolean", "default": True}},
            },
        },
    }
    wanted = {"code": "a", "level": 3, "rest": {"flag": True}}
    async with defined(api, define(plain)) as gauge:
        created = (await gauge.create(gauge.build(spec={"code": "a", "old": 1}))).ok()
        await gauge.tighten(newer, refused={"code": "b"})

        got = await gauge.get()
        (listed,) = await gauge.list()
        patched = (await gauge.patch({"metadata": {"labels": {"x": "y"}}})).ok()
        plain_again = {"type": "object", "properties": {"code": {"type": "string", "enum": ["c"]}}}
        await gauge.tighten(plain_again, refused={"code": "a"})
        kept = await gauge.get()

    assert got["spec"] == listed["spec"] == patched["spec"] == wanted
    # To be read otherwise is no change.
    assert got["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]
    assert patched["metadata"]["generation"] == 1
    assert kept["spec"] == {"code": "a"}


async def test_changed_default_is_read_where_nothing_was_written(api: Api) -> None:
    def levelled(default: int, *codes: str) -> Object:
        code = {"type": "string", "enum": list(codes)}
        level = {"type": "integer", "default": default}
        return {"type": "object", "properties": {"code": code, "level": level}}

    code = {"type": "object", "properties": {"code": {"type": "string"}}}
    async with defined(api, define(code)) as gauge:
        (await gauge.create(gauge.build(spec={"code": "a"}))).ok()
        await gauge.tighten(levelled(3, "a"), refused={"code": "b"})
        first = await gauge.get()
        await gauge.tighten(levelled(4, "b"), refused={"code": "a"})
        second = await gauge.get()

    assert (first["spec"]["level"], second["spec"]["level"]) == (3, 4)
