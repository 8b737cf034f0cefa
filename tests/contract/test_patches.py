"""Patches: JSON, merge and strategic, their preconditions and their errors."""

import pytest

from tests.contract.apiclient import (
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Api,
    config_map,
    pod,
)

DATA = {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    ("patch", "content", "data"),
    [
        ({"data": {"b": None, "c": "3"}}, MERGE, {"a": "1", "c": "3"}),
        ({"data": None}, MERGE, None),
        ([{"op": "replace", "path": "/data"}], JSON_PATCH, None),
        # Against RFC 6902, but so does the real server.
        ([{"op": "replace", "path": "/data/c", "value": "3"}], JSON_PATCH, {**DATA, "c": "3"}),
        ({"kind": "Pod"}, STRATEGIC, DATA),
    ],
    ids=["set and remove", "remove all", "no value sets null", "absent key", "kind is ignored"],
)
async def test_patch_of_a_config_map_is_stored(
    api: Api, patch: object, content: str, data: object
) -> None:
    (await api.create("configmaps", config_map("one", DATA))).ok()
    patched = (await api.patch("configmaps", "one", patch, content)).ok()
    assert (patched.get("data") or None) == data
    assert patched["kind"] == "ConfigMap"


async def test_merge_patch_with_the_current_version_is_stored(api: Api) -> None:
    created = (await api.create("configmaps", config_map("one"))).ok()
    identity = {key: created["metadata"][key] for key in ("uid", "resourceVersion")}
    patched = (
        await api.patch("configmaps", "one", {"metadata": identity, "data": {"a": "1"}})
    ).ok()
    assert patched["data"] == {"a": "1"}


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


async def test_strict_patch_with_an_unknown_field_is_refused(api: Api) -> None:
    (await api.create("configmaps", config_map("one"))).ok()
    answer = await api.patch("configmaps", "one", {"bogus": 1}, fieldValidation="Strict")
    assert answer.status in {400, 422}
    assert 'unknown field "bogus"' in answer.body["message"]
