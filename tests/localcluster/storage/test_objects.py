"""Create, read, update: identity, versions, and what a write refuses."""

from typing import Any

import pytest

from localcluster.apiserver.model.errors import Object
from localcluster.apiserver.storage import StatusError, WriteOptions
from tests.localcluster.storage.worlds import NAMESPACE, World, config_map, pod


def test_create_gives_identity_and_version(world: World) -> None:
    before = world.storage.resource_version
    created = world.create("configmaps", config_map("a", data={"k": "v"}))
    metadata = created["metadata"]
    assert metadata["uid"]
    assert metadata["creationTimestamp"] == "2024-01-01T00:00:00Z"
    assert int(metadata["resourceVersion"]) == before + 1 == world.storage.resource_version
    assert world.get("configmaps", "a") == created


def test_create_drops_what_only_the_server_sets(world: World) -> None:
    forged = {
        "uid": "u",
        "deletionTimestamp": "2020-01-01T00:00:00Z",
        "managedFields": [{}],
        "selfLink": "/x",
        "labels": {},
    }
    created = world.create("configmaps", config_map("a", metadata=forged))
    assert set(created["metadata"]) == {
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "resourceVersion",
    }
    assert created["metadata"]["uid"] != "u"


def test_create_of_taken_name_is_already_exists(world: World) -> None:
    world.create("configmaps", config_map("a"))
    with pytest.raises(StatusError) as caught:
        world.create("configmaps", config_map("a"))
    assert (caught.value.code, caught.value.reason) == (409, "AlreadyExists")
    assert caught.value.message == 'configmaps "a" already exists'


def test_create_with_generate_name_never_repeats(world: World) -> None:
    body = {"metadata": {"generateName": "job-"}}
    names = {world.create("configmaps", body)["metadata"]["name"] for _ in range(50)}
    assert len(names) == 50
    assert all(name.startswith("job-") and len(name) == 9 for name in names)


def test_equal_seeds_give_equal_worlds() -> None:
    dumps = []
    for _ in range(2):
        world = World()
        world.create("pods", pod("a"))
        world.create("configmaps", {"metadata": {"generateName": "x-"}})
        dumps.append([world.get("pods", "a"), world.names("configmaps")])
    assert dumps[0] == dumps[1]


@pytest.mark.parametrize(
    ("metadata", "code", "text"),
    [
        pytest.param({"name": "A"}, 422, "lowercase RFC 1123 subdomain", id="name"),
        pytest.param({"name": ""}, 422, "name or generateName is required", id="no-name"),
        pytest.param({"name": "a" * 254}, 422, "no more than 253", id="long-name"),
        pytest.param({"name": "a", "labels": {"a b": "c"}}, 422, "name part", id="label-key"),
        pytest.param({"name": "a", "labels": {"a": "c d"}}, 422, "valid label", id="label-value"),
        pytest.param(
            {"name": "a", "labels": {"a": 1}}, 400, "ObjectMeta.metadata.labels", id="int"
        ),
        pytest.param({"name": "a", "annotations": {"a": "x" * 262145}}, 422, "Too long", id="note"),
        pytest.param({"name": "a", "finalizers": ["x"]}, 422, "fully qualified", id="finalizer"),
        pytest.param({"name": "a", "namespace": "other"}, 400, "does not match", id="namespace"),
        pytest.param({"name": "a", "resourceVersion": "1"}, 500, "should not be set", id="version"),
        pytest.param(
            {"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]},
            422,
            "must not be empty",
            id="owner",
        ),
    ],
)
def test_create_refuses_bad_metadata(world: World, metadata: Object, code: int, text: str) -> None:
    before = world.storage.resource_version
    with pytest.raises(StatusError, match=text) as caught:
        world.create("configmaps", {"metadata": metadata})
    assert caught.value.code == code
    assert world.storage.resource_version == before


def test_create_in_unknown_namespace_is_not_found(world: World) -> None:
    with pytest.raises(StatusError) as caught:
        world.storage.create(world.type("pods"), "nowhere", pod("a"))
    assert (caught.value.code, caught.value.message) == (404, 'namespaces "nowhere" not found')


def test_status_names_causes_and_kind(world: World) -> None:
    with pytest.raises(StatusError) as caught:
        world.create("configmaps", config_map("a", data={"a b": ""}))
    status = caught.value.to_status()
    assert status["kind"] == "Status"
    assert status["code"] == 422
    assert status["details"]["kind"] == "ConfigMap"
    assert status["details"]["causes"][0]["field"] == "data[a b]"


def test_read_objects_may_be_changed_by_the_caller(world: World) -> None:
    created = world.create("configmaps", config_map("a", data={"k": "v"}))
    watch = world.watch("configmaps", 0)
    for copy in (
        created,
        world.get("configmaps", "a"),
        world.storage.list(world.type("configmaps"), NAMESPACE).items[0],
        watch.pop()[0].object,
    ):
        copy["data"]["k"] = "changed"
        copy["metadata"]["labels"] = {"changed": "yes"}
    assert world.get("configmaps", "a")["data"] == {"k": "v"}
    assert "labels" not in world.get("configmaps", "a")["metadata"]


def test_bodies_are_not_changed_and_not_shared(world: World) -> None:
    body = config_map("a", data={"k": "v"})
    world.create("configmaps", body)
    assert body == config_map("a", data={"k": "v"})
    body["data"]["k"] = "changed"
    assert world.get("configmaps", "a")["data"] == {"k": "v"}


def test_update_with_stale_version_conflicts(world: World) -> None:
    stale = world.create("configmaps", config_map("a"))
    world.merge("configmaps", "a", {"data": {"k": "1"}})
    stale["data"] = {"k": "2"}
    with pytest.raises(StatusError) as caught:
        world.storage.update(world.type("configmaps"), NAMESPACE, "a", stale)
    assert (caught.value.code, caught.value.reason) == (409, "Conflict")
    assert "the object has been modified" in caught.value.message


def test_update_for_another_uid_conflicts(world: World) -> None:
    body = world.create("configmaps", config_map("a"))
    body["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000"
    with pytest.raises(StatusError, match="UID in precondition") as caught:
        world.storage.update(world.type("configmaps"), NAMESPACE, "a", body)
    assert caught.value.code == 409


def test_update_of_builtin_without_version_is_unconditional(world: World) -> None:
    world.create("configmaps", config_map("a", data={"k": "1"}))
    body = config_map("a", data={"k": "2"})
    updated = world.storage.update(world.type("configmaps"), NAMESPACE, "a", body)
    assert updated["data"] == {"k": "2"}


def test_update_keeps_identity(world: World) -> None:
    created = world.create("configmaps", config_map("a"))
    world.clock.advance(60)
    body = config_map("a", data={"k": "2"}, metadata={"creationTimestamp": "2030-01-01T00:00:00Z"})
    updated = world.storage.update(world.type("configmaps"), NAMESPACE, "a", body)
    for name in ("uid", "creationTimestamp", "name", "namespace"):
        assert updated["metadata"][name] == created["metadata"][name]


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("uid", "other", 422),
        ("name", "other", 400),
        ("deletionTimestamp", "2024-01-01T00:00:00Z", 422),
    ],
)
def test_patch_of_identity_is_refused(world: World, field: str, value: str, code: int) -> None:
    world.create("configmaps", config_map("a"))
    with pytest.raises(StatusError) as caught:
        world.merge("configmaps", "a", {"metadata": {field: value}})
    assert caught.value.code == code


def test_write_without_change_leaves_version_and_watchers_alone(world: World) -> None:
    body = world.create("configmaps", config_map("a", data={"k": "v"}))
    watch = world.watch("configmaps")
    before = world.storage.resource_version
    assert world.merge("configmaps", "a", {"data": {"k": "v"}}) == body
    assert world.storage.update(world.type("configmaps"), NAMESPACE, "a", body) == body
    assert world.storage.resource_version == before
    assert watch.pop() == []


def test_dry_run_validates_and_writes_nothing(world: World) -> None:
    before = world.storage.resource_version
    options = WriteOptions(dry_run=True)
    made = world.storage.create(world.type("configmaps"), NAMESPACE, config_map("a"), options)
    assert made["metadata"]["name"] == "a"
    assert not world.exists("configmaps", "a")
    with pytest.raises(StatusError):
        world.storage.create(world.type("configmaps"), NAMESPACE, config_map("A"), options)
    assert world.storage.resource_version == before


@pytest.mark.parametrize("field_validation", ["Ignore", "Warn", "Strict"])
def test_unknown_fields_are_dropped_reported_or_refused(
    world: World, field_validation: str
) -> None:
    body = pod("a", container={"colour": "red"})
    options = WriteOptions(field_validation=field_validation)
    expected = 'unknown field "spec.containers[0].colour"'
    if field_validation == "Strict":
        with pytest.raises(StatusError) as caught:
            world.storage.create(world.type("pods"), NAMESPACE, body, options)
        assert caught.value.code == 400
        assert f"strict decoding error: {expected}" in caught.value.message
        return
    created = world.storage.create(world.type("pods"), NAMESPACE, body, options)
    assert "colour" not in created["spec"]["containers"][0]
    assert options.warnings == ([expected] if field_validation == "Warn" else [])


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        pytest.param({"data": {"k": 1}}, "ConfigMap.data of type string", id="number"),
        pytest.param({"data": ["k"]}, "cannot unmarshal array", id="list"),
        pytest.param({"binaryData": {"k": "$"}}, "illegal base64 data", id="base64"),
    ],
)
def test_wrong_types_in_builtin_kinds_are_bad_requests(
    world: World, fields: Any, text: str
) -> None:
    with pytest.raises(StatusError, match=text) as caught:
        world.create("configmaps", config_map("a", **fields))
    assert caught.value.code == 400


def test_config_map_over_a_mebibyte_is_invalid(world: World) -> None:
    with pytest.raises(StatusError, match="Too long") as caught:
        world.create("configmaps", config_map("a", data={"k": "x" * (1024 * 1024 + 1)}))
    assert caught.value.code == 422


def test_object_over_the_store_limit_is_too_large(world: World) -> None:
    annotations = {f"n{i}": "x" * 60_000 for i in range(4)}
    big = {"env": [{"name": f"V{i}", "value": "x" * 10_000} for i in range(150)]}
    with pytest.raises(StatusError) as caught:
        world.create("pods", pod("a", metadata={"annotations": annotations}, container=big))
    assert (caught.value.code, caught.value.reason) == (413, "RequestEntityTooLarge")


def test_immutable_config_map_stays(world: World) -> None:
    world.create("configmaps", config_map("a", data={"k": "v"}, immutable=True))
    with pytest.raises(StatusError, match="field is immutable when `immutable` is set"):
        world.merge("configmaps", "a", {"data": {"k": "w"}})


def test_put_creates_a_lease_that_is_absent(world: World) -> None:
    rt = world.type("leases")
    body = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}}
    world.storage.update(rt, NAMESPACE, "l", body)
    with pytest.raises(StatusError, match="must be specified for an update") as caught:
        world.storage.update(rt, NAMESPACE, "l", body)
    assert caught.value.code == 422
