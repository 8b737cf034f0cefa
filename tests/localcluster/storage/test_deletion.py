"""Deletion: preconditions, grace, finalizers, owners, namespaces."""

from typing import Any

import pytest

from localcluster.apiserver.engine.history import Watch
from localcluster.apiserver.model.errors import Object
from localcluster.apiserver.storage import DeleteOptions, Selector, StatusError
from tests.localcluster.storage.worlds import NAMESPACE, World, config_map, owned_by, pod

HOLD = {"finalizers": ["example.com/hold"]}


def delete(world: World, plural: str, name: str, **options: Any) -> Object:
    return world.storage.delete(world.type(plural), NAMESPACE, name, DeleteOptions(**options))


def told(watch: Watch) -> list[tuple[str, str]]:
    return [(event.type, event.object["metadata"]["name"]) for event in watch.pop()]


def test_delete_without_finalizers_removes_at_once(world: World) -> None:
    world.create("configmaps", config_map("a"))
    watch = world.watch("configmaps")
    gone = delete(world, "configmaps", "a")
    assert "deletionTimestamp" not in gone["metadata"]
    assert told(watch) == [("DELETED", "a")]
    with pytest.raises(StatusError) as caught:
        delete(world, "configmaps", "a")
    assert (caught.value.code, caught.value.message) == (404, 'configmaps "a" not found')


@pytest.mark.parametrize(
    "options", [{"uid": "another"}, {"resource_version": "1"}], ids=["uid", "version"]
)
def test_delete_with_unmet_precondition_conflicts(world: World, options: dict[str, str]) -> None:
    world.create("configmaps", config_map("a"))
    with pytest.raises(StatusError, match="in the precondition") as caught:
        delete(world, "configmaps", "a", **options)
    assert caught.value.code == 409
    assert world.exists("configmaps", "a")


def test_delete_with_met_preconditions_deletes(world: World) -> None:
    metadata = world.create("configmaps", config_map("a"))["metadata"]
    version = metadata["resourceVersion"]
    delete(world, "configmaps", "a", uid=metadata["uid"], resource_version=version)
    assert not world.exists("configmaps", "a")


def test_delete_with_unknown_policy_is_invalid(world: World) -> None:
    world.create("configmaps", config_map("a"))
    with pytest.raises(StatusError, match="propagationPolicy") as caught:
        delete(world, "configmaps", "a", propagation="Foo")
    assert caught.value.code == 422


def test_finalizer_keeps_object_until_it_is_cleared(world: World) -> None:
    world.create("configmaps", config_map("a", metadata=HOLD))
    held = delete(world, "configmaps", "a")
    assert held["metadata"]["deletionTimestamp"] == "2024-01-01T00:00:00Z"
    assert held["metadata"]["deletionGracePeriodSeconds"] == 0
    before = world.storage.resource_version
    assert delete(world, "configmaps", "a") == held
    assert world.storage.resource_version == before
    watch = world.watch("configmaps")
    world.merge("configmaps", "a", {"data": {"still": "writable"}})
    world.merge("configmaps", "a", {"metadata": {"finalizers": None}})
    assert told(watch) == [("MODIFIED", "a"), ("DELETED", "a")]
    assert not world.exists("configmaps", "a")


def test_terminating_object_takes_no_new_finalizer(world: World) -> None:
    world.create("configmaps", config_map("a", metadata=HOLD))
    delete(world, "configmaps", "a")
    finalizers = [*HOLD["finalizers"], "example.com/late"]
    with pytest.raises(StatusError, match="no new finalizers can be added") as caught:
        world.merge("configmaps", "a", {"metadata": {"finalizers": finalizers}})
    assert caught.value.code == 422


def test_update_never_revives_a_terminating_object(world: World) -> None:
    world.create("configmaps", config_map("a", metadata=HOLD))
    delete(world, "configmaps", "a")
    body = config_map("a", metadata=HOLD, data={"k": "v"})
    updated = world.storage.update(world.type("configmaps"), NAMESPACE, "a", body)
    assert updated["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize(
    ("asked", "own", "expected"),
    [(None, None, 30), (None, 5, 5), (7, 5, 7), (None, -1, 1)],
    ids=["default", "spec", "asked", "negative"],
)
def test_bound_pod_gets_its_grace(
    world: World, asked: int | None, own: int | None, expected: int
) -> None:
    spec: Object = {} if own is None else {"terminationGracePeriodSeconds": own}
    world.create("pods", pod("p", **spec))
    world.bind("p")
    leaving = delete(world, "pods", "p", grace_seconds=asked)
    metadata = leaving["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == expected
    assert metadata["deletionTimestamp"] == f"2024-01-01T00:00:{expected:02}Z"
    assert metadata["generation"] == 2


def test_unbound_pod_goes_at_once(world: World) -> None:
    world.create("pods", pod("p"))
    watch = world.watch("pods")
    delete(world, "pods", "p", grace_seconds=30)
    assert told(watch) == [("MODIFIED", "p"), ("DELETED", "p")]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_completed_pod_goes_at_once(world: World, phase: str) -> None:
    world.create("pods", pod("p"))
    world.bind("p")
    world.merge("pods", "p", {"status": {"phase": phase}}, "status")
    delete(world, "pods", "p")
    assert not world.exists("pods", "p")


def test_second_delete_of_a_pod_only_shortens(world: World) -> None:
    world.create("pods", pod("p"))
    world.bind("p")
    first = delete(world, "pods", "p")
    world.clock.advance(3)
    assert delete(world, "pods", "p") == first
    assert delete(world, "pods", "p", grace_seconds=60) == first
    shorter = delete(world, "pods", "p", grace_seconds=10)
    assert shorter["metadata"]["deletionTimestamp"] == "2024-01-01T00:00:10Z"
    delete(world, "pods", "p", grace_seconds=0)
    assert not world.exists("pods", "p")


def test_pod_with_finalizer_outlives_its_grace(world: World) -> None:
    world.create("pods", pod("p", metadata=HOLD))
    world.bind("p")
    delete(world, "pods", "p")
    delete(world, "pods", "p", grace_seconds=0)
    assert world.exists("pods", "p")
    world.merge("pods", "p", {"metadata": {"finalizers": []}})
    assert not world.exists("pods", "p")


def test_pod_that_lost_its_finalizers_waits_for_its_grace(world: World) -> None:
    world.create("pods", pod("p", metadata=HOLD))
    world.bind("p")
    delete(world, "pods", "p")
    world.merge("pods", "p", {"metadata": {"finalizers": []}})
    assert world.exists("pods", "p")


def test_delete_collection_deletes_the_selected(world: World) -> None:
    for name, label in (("a", "x"), ("b", "y"), ("c", "x")):
        world.create("configmaps", config_map(name, metadata={"labels": {"l": label}}))
    rt = world.type("configmaps")
    gone = world.storage.delete_collection(rt, NAMESPACE, Selector(label="l=x"))
    assert [item["metadata"]["name"] for item in gone] == ["a", "c"]
    assert world.names("configmaps") == ["b"]


def attempt_world(world: World) -> None:
    """Build a framework, its attempt with the finalizer of the original, and two Pods."""
    owner = world.create("configmaps", config_map("framework"))
    body = config_map("attempt", metadata={"finalizers": ["foregroundDeletion"], **owned_by(owner)})
    attempt = world.create("configmaps", body)
    for name in ("bound", "unbound"):
        world.create("pods", pod(name, metadata=owned_by(attempt)))
    world.bind("bound")


@pytest.mark.parametrize("policy", ["Foreground", "Background", None])
def test_attempt_waits_for_its_pods_whatever_the_policy(world: World, policy: str | None) -> None:
    attempt_world(world)
    delete(world, "configmaps", "framework", propagation=policy)
    world.storage.collect_garbage()
    assert world.names("pods") == ["bound"]
    assert world.get("pods", "bound")["metadata"]["deletionTimestamp"]
    attempt = world.get("configmaps", "attempt")
    assert attempt["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert world.exists("configmaps", "framework") == (policy == "Foreground")
    delete(world, "pods", "bound", grace_seconds=0)
    world.storage.collect_garbage()
    assert world.names("configmaps") == []


def test_attempt_deleted_without_policy_is_deleted_in_the_foreground(world: World) -> None:
    attempt_world(world)
    held = delete(world, "configmaps", "attempt")
    assert held["metadata"]["deletionTimestamp"]
    world.storage.collect_garbage()
    assert world.names("pods") == ["bound"]
    assert world.exists("configmaps", "attempt")
    delete(world, "pods", "bound", grace_seconds=0)
    world.storage.collect_garbage()
    assert world.names("configmaps") == ["framework"]


def test_foreground_owner_does_not_wait_for_dependents_that_do_not_block(world: World) -> None:
    owner = world.create("configmaps", config_map("owner"))
    world.create(
        "configmaps", config_map("held", metadata={**HOLD, **owned_by(owner, blocks=False)})
    )
    delete(world, "configmaps", "owner", propagation="Foreground")
    world.storage.collect_garbage()
    assert world.names("configmaps") == ["held"]
    assert world.get("configmaps", "held")["metadata"]["deletionTimestamp"]


def test_orphaned_dependents_lose_their_owner_and_stay(world: World) -> None:
    owner = world.create("configmaps", config_map("owner"))
    world.create("configmaps", config_map("child", metadata=owned_by(owner)))
    delete(world, "configmaps", "owner", propagation="Orphan")
    assert world.get("configmaps", "owner")["metadata"]["finalizers"] == ["orphan"]
    world.storage.collect_garbage()
    assert world.names("configmaps") == ["child"]
    assert "ownerReferences" not in world.get("configmaps", "child")["metadata"]


def test_dependent_with_an_owner_left_only_loses_the_gone_one(world: World) -> None:
    owners = [world.create("configmaps", config_map(name)) for name in "ab"]
    references = [owned_by(owner)["ownerReferences"][0] for owner in owners]
    references[1]["controller"] = False
    world.create("configmaps", config_map("child", metadata={"ownerReferences": references}))
    delete(world, "configmaps", "a")
    world.storage.collect_garbage()
    left = world.get("configmaps", "child")["metadata"]["ownerReferences"]
    assert [owner["name"] for owner in left] == ["b"]


def test_dependent_of_a_former_object_of_the_name_is_collected(world: World) -> None:
    former = world.create("configmaps", config_map("owner"))
    delete(world, "configmaps", "owner")
    world.create("configmaps", config_map("owner"))
    world.create("configmaps", config_map("late", metadata=owned_by(former)))
    world.storage.collect_garbage()
    assert world.names("configmaps") == ["owner"]


def test_dependent_of_an_owner_in_another_namespace_is_collected(world: World) -> None:
    rt = world.type("configmaps")
    owner = world.storage.create(rt, "kube-system", config_map("owner"))
    world.create("configmaps", config_map("child", metadata=owned_by(owner)))
    world.storage.collect_garbage()
    assert not world.exists("configmaps", "child")


def test_collection_steps_are_single_writes(world: World) -> None:
    attempt_world(world)
    delete(world, "configmaps", "framework", propagation="Foreground")
    steps = 0
    while world.storage.collect_garbage_once():
        steps += 1
    assert steps == 3  # the attempt and each Pod: deleted or marked
    assert not world.storage.has_garbage


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_namespaces_every_cluster_needs_stay(world: World, name: str) -> None:
    with pytest.raises(StatusError, match="this namespace may not be deleted") as caught:
        world.storage.delete(world.type("namespaces"), None, name)
    assert caught.value.code == 403


def test_namespace_goes_when_its_contents_are_gone(world: World) -> None:
    namespaces, pods = world.type("namespaces"), world.type("pods")
    world.storage.create(namespaces, None, {"metadata": {"name": "team"}})
    world.storage.create(world.type("configmaps"), "team", config_map("a"))
    world.storage.create(pods, "team", pod("p"))
    body = {"target": {"kind": "Node", "name": "local"}}
    world.storage.create_subresource(pods, "team", "p", "binding", body)
    leaving = world.storage.delete(namespaces, None, "team")
    assert leaving["status"]["phase"] == "Terminating"
    with pytest.raises(StatusError, match="because it is being terminated") as caught:
        world.storage.create(pods, "team", pod("late"))
    assert (caught.value.code, caught.value.reason) == (403, "Forbidden")
    world.storage.collect_garbage()
    assert world.storage.list(world.type("configmaps"), "team").items == []
    assert world.storage.get(namespaces, None, "team")
    world.storage.delete(pods, "team", "p", DeleteOptions(grace_seconds=0))
    world.storage.collect_garbage()
    assert "team" not in world.names("namespaces")
