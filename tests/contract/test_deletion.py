"""Deletion: finalizers, grace, preconditions, owners and propagation, namespaces."""

import asyncio
from typing import Any

from tests.contract.apiclient import Api, Object, config_map, owned_by, pod

FOREGROUND = {"propagationPolicy": "Foreground"}
ORPHAN = {"propagationPolicy": "Orphan"}


async def test_delete_of_a_config_map_answers_success(api: Api) -> None:
    created = (await api.create("configmaps", config_map("one"))).ok()
    answer = await api.delete("configmaps", "one")
    assert answer.status == 200
    assert (answer.body["kind"], answer.body["status"]) == ("Status", "Success")
    assert answer.body["details"] == {
        "name": "one",
        "kind": "configmaps",
        "uid": created["metadata"]["uid"],
    }
    (await api.get("configmaps", "one")).refused(404, "NotFound")


async def test_delete_with_another_uid_is_a_conflict(api: Api) -> None:
    created = (await api.create("configmaps", config_map("one"))).ok()
    wrong = await api.delete("configmaps", "one", {"preconditions": {"uid": "another"}})
    still = await api.get("configmaps", "one")
    right = await api.delete(
        "configmaps", "one", {"preconditions": {"uid": created["metadata"]["uid"]}}
    )
    wrong.refused(409, "Conflict")
    still.ok()
    right.ok()


async def test_finalizer_keeps_the_object_until_it_is_removed(api: Api) -> None:
    (await api.create("configmaps", config_map("one", finalizers=["example.com/hold"]))).ok()
    version = await api.version("configmaps")

    deleting = (await api.delete("configmaps", "one")).ok()
    again = (await api.delete("configmaps", "one")).ok()
    (await api.patch("configmaps", "one", {"metadata": {"finalizers": None}})).ok()
    async with api.watch("configmaps", resourceVersion=version) as watch:
        events = [await watch.next(), await watch.next()]

    assert deleting["kind"] == "ConfigMap"
    assert deleting["metadata"]["deletionTimestamp"]
    assert deleting["metadata"]["deletionGracePeriodSeconds"] == 0
    assert again["metadata"]["deletionTimestamp"] == deleting["metadata"]["deletionTimestamp"]
    assert [kind for kind, _ in events] == ["MODIFIED", "DELETED"]
    assert events[0][1]["metadata"]["deletionTimestamp"]
    (await api.get("configmaps", "one")).refused(404, "NotFound")


async def test_terminating_object_gets_no_new_finalizers(api: Api) -> None:
    (await api.create("configmaps", config_map("one", finalizers=["example.com/hold"]))).ok()
    (await api.delete("configmaps", "one")).ok()
    patch = {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}
    answer = await api.patch("configmaps", "one", patch)
    (await api.patch("configmaps", "one", {"metadata": {"finalizers": None}})).ok()
    assert answer.refused(422, "Invalid").fields == ["metadata.finalizers"]


async def test_deletion_timestamp_cannot_be_taken_back(api: Api) -> None:
    (await api.create("configmaps", config_map("one", finalizers=["example.com/hold"]))).ok()
    deleting = (await api.delete("configmaps", "one")).ok()
    metadata = {key: deleting["metadata"][key] for key in ("name", "finalizers")}
    replaced = await api.replace("configmaps", {"metadata": metadata})
    (await api.patch("configmaps", "one", {"metadata": {"finalizers": None}})).ok()
    assert replaced.ok()["metadata"]["deletionTimestamp"]


async def test_unscheduled_pod_goes_at_once(api: Api) -> None:
    (await api.create("pods", pod("one"))).ok()
    answer = await api.delete("pods", "one")
    assert answer.ok()["kind"] == "Pod"
    (await api.get("pods", "one")).refused(404, "NotFound")


async def test_scheduled_pod_terminates_gracefully(api: Api) -> None:
    (await api.create("pods", pod("one", node="n1"))).ok()

    deleting = (await api.delete("pods", "one")).ok()
    terminating = (await api.get("pods", "one")).ok()
    forced = await api.delete("pods", "one", {"gracePeriodSeconds": 0})

    assert deleting["metadata"]["deletionGracePeriodSeconds"] == 30
    assert terminating["metadata"]["deletionTimestamp"]
    assert (
        terminating["metadata"]["deletionTimestamp"] > terminating["metadata"]["creationTimestamp"]
    )
    forced.ok()
    (await api.get("pods", "one")).refused(404, "NotFound")


async def test_grace_can_be_shortened_but_not_lengthened(api: Api) -> None:
    (await api.create("pods", pod("one", node="n1"))).ok()
    seen = []
    for grace in (20, 5, 60):
        deleting = (await api.delete("pods", "one", {"gracePeriodSeconds": grace})).ok()
        seen.append(deleting["metadata"]["deletionGracePeriodSeconds"])
    (await api.delete("pods", "one", {"gracePeriodSeconds": 0})).ok()
    assert seen == [20, 5, 5]


async def test_finished_pod_goes_at_once(api: Api) -> None:
    (await api.create("pods", pod("one", node="n1"))).ok()
    (await api.patch("pods", "one", {"status": {"phase": "Succeeded"}}, subresource="status")).ok()
    (await api.delete("pods", "one")).ok()
    (await api.get("pods", "one")).refused(404, "NotFound")


async def test_grace_in_the_query_counts_too(api: Api) -> None:
    (await api.create("pods", pod("one", node="n1"))).ok()
    (await api.delete("pods", "one", gracePeriodSeconds=0)).ok()
    (await api.get("pods", "one")).refused(404, "NotFound")


async def _attempt(api: Api, **metadata: Any) -> tuple[Object, Object]:
    """Return a ConfigMap and a scheduled Pod that it owns."""
    owner = (await api.create("configmaps", config_map("owner", **metadata))).ok()
    body = pod("dependent", node="n1", ownerReferences=owned_by(owner))
    dependent = (await api.create("pods", body)).ok()
    await _wait_for_collector(api)
    return owner, dependent


async def _wait_for_collector(api: Api) -> None:
    """Wait until the collector, which sees Pods in their order, knows those created so far."""
    gone = (await api.create("configmaps", config_map("gone"))).ok()
    (await api.delete("configmaps", "gone")).ok()
    (await api.create("pods", pod("canary", ownerReferences=owned_by(gone)))).ok()
    await api.wait_gone("pods", "canary")


async def test_foreground_finalizer_set_at_creation_holds_the_owner(api: Api) -> None:
    """The way attempts are kept apart: deleted without a policy, gone only after its Pods."""
    await _attempt(api, finalizers=["foregroundDeletion"])
    deleting = (await api.delete("configmaps", "owner")).ok()
    await api.wait_for("pods", "dependent", "metadata", "deletionTimestamp")
    waiting = (await api.get("configmaps", "owner")).ok()
    (await api.delete("pods", "dependent", {"gracePeriodSeconds": 0})).ok()
    await api.wait_gone("configmaps", "owner")
    assert deleting["metadata"]["deletionTimestamp"]
    assert waiting["metadata"]["finalizers"] == ["foregroundDeletion"]
    (await api.get("configmaps", "owner")).refused(404, "NotFound")


async def test_foreground_policy_deletes_dependents_first(api: Api) -> None:
    await _attempt(api)
    deleting = (await api.delete("configmaps", "owner", FOREGROUND)).ok()
    await api.wait_for("pods", "dependent", "metadata", "deletionTimestamp")
    (await api.get("configmaps", "owner")).ok()
    (await api.delete("pods", "dependent", {"gracePeriodSeconds": 0})).ok()
    await api.wait_gone("configmaps", "owner")
    assert deleting["metadata"]["finalizers"] == ["foregroundDeletion"]


async def test_foreground_policy_does_not_wait_for_unblocking_dependents(api: Api) -> None:
    owner = (await api.create("configmaps", config_map("owner"))).ok()
    body = pod("dependent", node="n1", ownerReferences=owned_by(owner, blocks=False))
    (await api.create("pods", body)).ok()
    (await api.delete("configmaps", "owner", FOREGROUND)).ok()
    await api.wait_gone("configmaps", "owner")
    terminating = await api.wait_for("pods", "dependent", "metadata", "deletionTimestamp")
    (await api.delete("pods", "dependent", {"gracePeriodSeconds": 0})).ok()
    assert terminating["metadata"]["deletionTimestamp"]


async def test_foreground_policy_without_dependents_ends_at_once(api: Api) -> None:
    (await api.create("configmaps", config_map("owner"))).ok()
    (await api.delete("configmaps", "owner", FOREGROUND)).ok()
    await api.wait_gone("configmaps", "owner")


async def test_background_policy_deletes_dependents_after_the_owner(api: Api) -> None:
    await _attempt(api)
    answer = await api.delete("configmaps", "owner", {"propagationPolicy": "Background"})
    (await api.get("configmaps", "owner")).refused(404, "NotFound")
    terminating = await api.wait_for("pods", "dependent", "metadata", "deletionTimestamp")
    (await api.delete("pods", "dependent", {"gracePeriodSeconds": 0})).ok()
    assert answer.ok()["kind"] == "Status"
    assert terminating["metadata"]["deletionTimestamp"]


async def test_background_deletion_goes_down_the_chain(api: Api) -> None:
    top = (await api.create("configmaps", config_map("top"))).ok()
    middle = config_map("middle", ownerReferences=owned_by(top))
    middle = (await api.create("configmaps", middle)).ok()
    (await api.create("pods", pod("leaf", ownerReferences=owned_by(middle)))).ok()
    (await api.delete("configmaps", "top")).ok()
    await api.wait_gone("configmaps", "middle")
    await api.wait_gone("pods", "leaf")


async def test_orphan_policy_leaves_dependents_without_owner(api: Api) -> None:
    await _attempt(api)
    (await api.delete("configmaps", "owner", ORPHAN)).ok()
    await api.wait_gone("configmaps", "owner")
    left = (await api.get("pods", "dependent")).ok()
    (await api.delete("pods", "dependent", {"gracePeriodSeconds": 0})).ok()
    assert not left["metadata"].get("ownerReferences")
    assert "deletionTimestamp" not in left["metadata"]


async def test_dependent_of_an_owner_that_never_was_is_collected(api: Api) -> None:
    owner = (await api.create("configmaps", config_map("owner"))).ok()
    (await api.delete("configmaps", "owner")).ok()
    (await api.create("pods", pod("late", ownerReferences=owned_by(owner)))).ok()
    await api.wait_gone("pods", "late")


async def test_dependent_with_a_second_living_owner_stays(api: Api) -> None:
    first = (await api.create("configmaps", config_map("first"))).ok()
    second = (await api.create("configmaps", config_map("second"))).ok()
    owners = [*owned_by(first), {**owned_by(second)[0], "controller": False}]
    (await api.create("configmaps", config_map("shared", ownerReferences=owners))).ok()
    version = await api.version("configmaps")

    (await api.delete("configmaps", "first")).ok()
    selector = "metadata.name=shared"
    async with api.watch("configmaps", resourceVersion=version, fieldSelector=selector) as watch:
        kind, item = await watch.next_change()

    assert kind == "MODIFIED"
    assert [owner["name"] for owner in item["metadata"]["ownerReferences"]] == ["second"]


async def test_namespace_goes_with_all_it_holds(api: Api) -> None:
    (await api.create("configmaps", config_map("one"))).ok()
    (await api.create("pods", pod("two"))).ok()
    deleting = (await api.delete("namespaces", api.namespace)).ok()
    late = await api.create("configmaps", config_map("late"))
    await api.wait_gone("namespaces", api.namespace)
    assert deleting["status"]["phase"] == "Terminating"
    assert late.status in {403, 404}
    assert (await api.list("configmaps")).ok()["items"] == []


async def test_namespace_is_active_and_labelled(api: Api) -> None:
    namespace = (await api.get("namespaces", api.namespace)).ok()
    assert namespace["status"]["phase"] == "Active"
    assert namespace["metadata"]["labels"] == {"kubernetes.io/metadata.name": api.namespace}
    assert namespace["spec"]["finalizers"] == ["kubernetes"]


async def test_simultaneous_deletes_succeed_once(api: Api) -> None:
    (await api.create("configmaps", config_map("one"))).ok()
    answers = await asyncio.gather(*(api.delete("configmaps", "one") for _ in range(5)))
    assert sorted(answer.status for answer in answers) == [200, 404, 404, 404, 404]
