"""Deletion: preconditions, grace, finalizers, owners, namespaces."""

from typing import Any

import pytest

from localcluster.apiserver.model.errors import Object
from localcluster.apiserver.storage import DeleteOptions
from tests.localcluster.storage.worlds import NAMESPACE, World, config_map, owned_by, pod

HOLD = {"finalizers": ["example.com/hold"]}


def delete(world: World, plural: str, name: str, **options: Any) -> Object:
    return world.storage.delete(world.type(plural), NAMESPACE, name, DeleteOptions(**options))


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
