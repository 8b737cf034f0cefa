"""Deletion, where tests/contract has no case: exact grace, finalizers of Pods, chains of owners."""

import pytest

from localcluster.apiserver.model.errors import Object
from tests.contract.apiclient import config_map, owned_by, pod
from tests.localcluster.storage.worlds import World

HOLD = ["example.com/hold"]


@pytest.mark.parametrize(
    ("asked", "own", "expected"),
    [(None, None, 30), (None, 5, 5), (7, 5, 7), (None, -1, 1)],
    ids=["default", "spec", "asked", "negative"],
)
def test_bound_pod_gets_its_grace(
    world: World, asked: int | None, own: int | None, expected: int
) -> None:
    body = pod("p", node="local")
    body["spec"] |= {} if own is None else {"terminationGracePeriodSeconds": own}
    world.create("pods", body)
    metadata = world.delete("pods", "p", grace_seconds=asked)["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == expected
    assert metadata["deletionTimestamp"] == f"2024-01-01T00:00:{expected:02}Z"
    assert metadata["generation"] == 2


@pytest.mark.parametrize("grace_ends_first", [True, False])
def test_pod_stays_until_grace_and_finalizers_have_ended(
    world: World, *, grace_ends_first: bool
) -> None:
    def end_grace() -> None:
        world.delete("pods", "p", grace_seconds=0)

    def remove_finalizers() -> None:
        world.merge("pods", "p", {"metadata": {"finalizers": []}})

    world.create("pods", pod("p", node="local", finalizers=HOLD))
    world.delete("pods", "p")
    first, second = end_grace, remove_finalizers
    if not grace_ends_first:
        first, second = second, first
    first()
    assert world.names("pods") == ["p"]
    second()
    assert world.names("pods") == []


def create_attempt(world: World) -> Object:
    """Create a framework, its attempt with the finalizer of the original, and two Pods."""
    owner = world.create("configmaps", config_map("framework"))
    fields: Object = {"finalizers": ["foregroundDeletion"], "ownerReferences": owned_by(owner)}
    attempt = world.create("configmaps", config_map("attempt", **fields))
    world.create("pods", pod("bound", node="local", ownerReferences=owned_by(attempt)))
    world.create("pods", pod("unbound", ownerReferences=owned_by(attempt)))
    return attempt


@pytest.mark.parametrize("policy", ["Foreground", "Background", None])
def test_attempt_waits_for_its_pods_whatever_the_policy(world: World, policy: str | None) -> None:
    create_attempt(world)
    world.delete("configmaps", "framework", propagation=policy)
    world.storage.collect_garbage()
    assert world.names("pods") == ["bound"]
    assert world.get("pods", "bound")["metadata"]["deletionTimestamp"]
    attempt = world.get("configmaps", "attempt")
    assert attempt["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert ("framework" in world.names("configmaps")) == (policy == "Foreground")
    world.delete("pods", "bound", grace_seconds=0)
    world.storage.collect_garbage()
    assert world.names("configmaps") == []


def test_dependent_of_a_deleted_object_is_collected_although_its_name_is_used_again(
    world: World,
) -> None:
    former = world.create("configmaps", config_map("owner"))
    world.delete("configmaps", "owner")
    world.create("configmaps", config_map("owner"))
    world.create("configmaps", config_map("late", ownerReferences=owned_by(former)))
    world.storage.collect_garbage()
    assert world.names("configmaps") == ["owner"]


def test_dependent_of_an_owner_in_another_namespace_is_collected(world: World) -> None:
    owner = world.storage.create(world.type("configmaps"), "kube-system", config_map("owner"))
    world.create("configmaps", config_map("child", ownerReferences=owned_by(owner)))
    world.storage.collect_garbage()
    assert world.names("configmaps") == []


def test_collection_steps_are_single_writes(world: World) -> None:
    create_attempt(world)
    world.delete("configmaps", "framework", propagation="Foreground")
    steps = 0
    while world.storage.collect_garbage_once():
        steps += 1
    assert steps == 3  # the attempt and each Pod: deleted or marked
    assert not world.storage.has_garbage
