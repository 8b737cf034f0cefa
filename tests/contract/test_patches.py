"""Patches: JSON, merge and strategic, their preconditions and their errors."""

import pytest

from tests.contract.apiclient import (
    GROUP,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Api,
    Object,
    config_map,
    pod,
)


async def test_merge_patch_sets_and_removes(api: Api) -> None:
    body = config_map("one", {"keep": "1", "drop": "2"}, labels={"a": "b"})
    (await api.create("configmaps", body)).ok()

    patch = {"data": {"drop": None, "new": "3"}, "metadata": {"labels": None}}
    patched = (await api.patch("configmaps", "one", patch)).ok()

    assert patched["data"] == {"keep": "1", "new": "3"}
    assert "labels" not in patched["metadata"]


async def test_merge_patch_with_the_current_version_is_stored(api: Api) -> None:
    created = (await api.create("configmaps", config_map("one"))).ok()
    identity = {key: created["metadata"][key] for key in ("uid", "resourceVersion")}

    patched = (
        await api.patch("configmaps", "one", {"metadata": identity, "data": {"a": "1"}})
    ).ok()

    assert patched["data"] == {"a": "1"}


@pytest.mark.parametrize(
    ("field", "value", "status", "reason"),
    [("resourceVersion", "1", 409, "Conflict"), ("uid", "another", 422, "Invalid")],
    ids=["version", "uid"],
)
async def test_merge_patch_with_a_stale_identity_is_refused(
    api: Api, field: str, value: str, status: int, reason: str
) -> None:
    (await api.create("configmaps", config_map("one"))).ok()

    answer = await api.patch("configmaps", "one", {"metadata": {field: value}, "data": {"a": "1"}})

    answer.refused(status, reason)
    assert not (await api.get("configmaps", "one")).ok().get("data")


@pytest.mark.parametrize(
    ("content", "patch"),
    [(MERGE, {"data": {}}), (STRATEGIC, {"data": {}}), (JSON_PATCH, [])],
    ids=["merge", "strategic", "json"],
)
async def test_patch_of_a_missing_object_is_not_found(
    api: Api, content: str, patch: object
) -> None:
    (await api.patch("configmaps", "none", patch, content)).refused(404, "NotFound")


async def test_json_patch_with_all_operations_applies(api: Api) -> None:
    (await api.create("configmaps", config_map("one", {"a": "1", "b": "2", "c": "3"}))).ok()

    patch = [
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "replace", "path": "/data/a", "value": "9"},
        {"op": "add", "path": "/data/new", "value": "4"},
        {"op": "remove", "path": "/data/b"},
        {"op": "move", "from": "/data/c", "path": "/data/moved"},
        {"op": "copy", "from": "/data/new", "path": "/data/copied"},
        {"op": "add", "path": "/metadata/labels", "value": {}},
        {"op": "add", "path": "/metadata/labels/example.com~1a", "value": "b"},
    ]
    patched = (await api.patch("configmaps", "one", patch, JSON_PATCH)).ok()

    assert patched["data"] == {"a": "9", "new": "4", "moved": "3", "copied": "4"}
    assert patched["metadata"]["labels"] == {"example.com/a": "b"}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/data/a", "value": "2"},
        {"op": "replace", "path": "/none/deep", "value": "2"},
        {"op": "remove", "path": "/data/none"},
        {"op": "add", "path": "/none/deep", "value": "2"},
    ],
    ids=["test", "replace", "remove", "add"],
)
async def test_json_patch_that_does_not_apply_is_invalid(api: Api, operation: Object) -> None:
    created = (await api.create("configmaps", config_map("one", {"a": "1"}))).ok()

    patch = [{"op": "add", "path": "/data/b", "value": "x"}, operation]
    answer = await api.patch("configmaps", "one", patch, JSON_PATCH)

    answer.refused(422, "Invalid")
    assert (await api.get("configmaps", "one")).ok() == created


@pytest.mark.parametrize(
    ("operation", "status"),
    [
        ({"op": "replace", "value": 1}, 422),
        ({"path": "/data", "value": {}}, 422),
        ({"op": "copy", "path": "/data"}, 422),
        ({"op": "add", "path": 1, "value": 1}, 400),
        ("add", 400),
    ],
    ids=["no path", "no op", "no from", "path is a number", "no operation"],
)
async def test_json_patch_that_lacks_a_part_is_refused(
    api: Api, operation: object, status: int
) -> None:
    (await api.create("configmaps", config_map("one"))).ok()

    answer = await api.patch("configmaps", "one", [operation], JSON_PATCH)

    assert answer.status == status, answer.body


async def test_json_patch_without_a_value_sets_null(api: Api) -> None:
    (await api.create("configmaps", config_map("one", {"a": "1"}))).ok()

    patch = [{"op": "replace", "path": "/data"}]
    patched = (await api.patch("configmaps", "one", patch, JSON_PATCH)).ok()

    assert not patched.get("data")


@pytest.mark.parametrize("plural", ["configmaps", "widgets"])
@pytest.mark.parametrize(
    ("patch", "content"),
    [
        ({"kind": "Gadget"}, MERGE),
        ({"apiVersion": "v9"}, MERGE),
        ([{"op": "replace", "path": "/kind", "value": "Gadget"}], JSON_PATCH),
        ([{"op": "replace", "path": "/apiVersion", "value": "v9"}], JSON_PATCH),
    ],
    ids=["merge kind", "merge version", "json kind", "json version"],
)
async def test_patch_to_another_kind_is_invalid(
    api: Api, plural: str, patch: object, content: str
) -> None:
    widget = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "spec": {"size": 1}}
    body = config_map("one") if plural == "configmaps" else {**widget, "metadata": {"name": "one"}}
    (await api.create(plural, body)).ok()

    answer = await api.patch(plural, "one", patch, content)

    answer.refused(422, "Invalid")


async def test_strategic_patch_does_not_look_at_the_kind(api: Api) -> None:
    (await api.create("configmaps", config_map("one"))).ok()

    patched = (await api.patch("configmaps", "one", {"kind": "Pod"}, STRATEGIC)).ok()

    assert patched["kind"] == "ConfigMap"


async def test_json_patch_replace_of_an_absent_key_adds_it(api: Api) -> None:
    """Against RFC 6902, but so does the real server."""
    (await api.create("configmaps", config_map("one", {"a": "1"}))).ok()

    patch = [{"op": "replace", "path": "/data/b", "value": "2"}]
    patched = (await api.patch("configmaps", "one", patch, JSON_PATCH)).ok()

    assert patched["data"] == {"a": "1", "b": "2"}


async def test_json_patch_that_is_no_list_is_bad_request(api: Api) -> None:
    (await api.create("configmaps", config_map("one"))).ok()

    (await api.patch("configmaps", "one", {"a": 1}, JSON_PATCH)).refused(400, "BadRequest")


async def test_patch_with_malformed_json_is_bad_request(api: Api) -> None:
    (await api.create("configmaps", config_map("one"))).ok()

    (await api.patch("configmaps", "one", b'{"data', MERGE)).refused(400, "BadRequest")


async def test_patch_of_an_unknown_type_is_unsupported(api: Api) -> None:
    (await api.create("configmaps", config_map("one"))).ok()

    answer = await api.patch("configmaps", "one", {}, "application/json")

    answer.refused(415, "UnsupportedMediaType")


async def test_patch_that_breaks_the_object_is_refused(api: Api) -> None:
    (await api.create("configmaps", config_map("one", {"a": "1"}))).ok()

    answer = await api.patch("configmaps", "one", {"metadata": {"labels": {"a": "no good"}}})

    answer.refused(422, "Invalid")


async def test_strategic_patch_merges_lists_by_their_key(api: Api) -> None:
    body = pod("one")
    body["spec"]["containers"].append({"name": "side", "image": "example.com/side:1"})
    body["spec"]["tolerations"] = [{"key": "a", "operator": "Exists"}]
    (await api.create("pods", body)).ok()

    patch = {"spec": {"containers": [{"name": "side", "image": "example.com/side:2"}]}}
    patched = (await api.patch("pods", "one", patch, STRATEGIC)).ok()

    images = {item["name"]: item["image"] for item in patched["spec"]["containers"]}
    assert images == {"main": "example.com/main:1", "side": "example.com/side:2"}


async def test_strategic_patch_directives_delete_and_replace(api: Api) -> None:
    created = (await api.create("pods", pod("one"))).ok()
    conditions = [
        {"type": "Ready", "status": "True"},
        {"type": "Initialized", "status": "True"},
    ]
    set_both = {"status": {"conditions": conditions}}
    (await api.patch("pods", "one", set_both, STRATEGIC, subresource="status")).ok()

    patch = {"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}}
    deleted = (await api.patch("pods", "one", patch, STRATEGIC, subresource="status")).ok()
    patch = {"status": {"conditions": [{"$patch": "replace"}, {"type": "New", "status": "False"}]}}
    replaced = (await api.patch("pods", "one", patch, STRATEGIC, subresource="status")).ok()

    assert created["status"]["phase"] == "Pending"
    assert [item["type"] for item in deleted["status"]["conditions"]] == ["Initialized"]
    assert [item["type"] for item in replaced["status"]["conditions"]] == ["New"]


async def test_strategic_patch_of_finalizers_and_owners_merges(api: Api) -> None:
    (await api.create("configmaps", config_map("one", finalizers=["example.com/a"]))).ok()

    added = (
        await api.patch(
            "configmaps", "one", {"metadata": {"finalizers": ["example.com/b"]}}, STRATEGIC
        )
    ).ok()
    removed = (
        await api.patch(
            "configmaps",
            "one",
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}},
            STRATEGIC,
        )
    ).ok()
    (await api.patch("configmaps", "one", {"metadata": {"finalizers": None}})).ok()

    assert sorted(added["metadata"]["finalizers"]) == ["example.com/a", "example.com/b"]
    assert removed["metadata"]["finalizers"] == ["example.com/b"]


async def test_strategic_patch_of_a_custom_resource_is_unsupported(api: Api) -> None:
    body = {
        "apiVersion": "contract.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "one"},
        "spec": {"size": 1},
    }
    (await api.create("widgets", body)).ok()

    answer = await api.patch("widgets", "one", {"spec": {"size": 2}}, STRATEGIC)

    answer.refused(415, "UnsupportedMediaType")


async def test_force_without_apply_is_invalid(api: Api) -> None:
    (await api.create("configmaps", config_map("one"))).ok()

    answer = await api.patch("configmaps", "one", {"data": {"a": "1"}}, force="true")

    assert answer.refused(422, "Invalid").fields == ["force"]


async def test_strict_patch_with_an_unknown_field_is_refused(api: Api) -> None:
    (await api.create("configmaps", config_map("one"))).ok()

    answer = await api.patch("configmaps", "one", {"bogus": 1}, fieldValidation="Strict")

    assert answer.status in {400, 422}
    assert 'unknown field "bogus"' in answer.body["message"]
