"""What the store believes: resourceVersions never go back, absence needs a witness."""

from typing import Any

import pytest

from controller.core.actions import ActionKey, ObjectKind, Verb
from controller.store.entry import Entry
from controller.store.store import Store
from framework.api import codec
from framework.api.states import FrameworkState
from framework.api.types import ExecutionType
from tests.support.builders import (
    AT,
    build_configmap_wire,
    build_framework_wire,
    build_pod_wire,
    build_status_wire,
)

KEY = "default/gang"
POD = (ObjectKind.POD, "gang-worker-0")
TERMINATING: dict[str, Any] = {
    "deletionTimestamp": "2026-01-01T00:00:30Z",
    "deletionGracePeriodSeconds": 30,
}


class Bench:
    """A store and the keys it said had changed."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.store = Store(self.keys.append)
        self.store.apply(ObjectKind.FRAMEWORK, build_framework_wire())

    @property
    def entry(self) -> Entry:
        found = self.store.find(KEY)
        assert found is not None
        return found


@pytest.fixture
def bench() -> Bench:
    return Bench()


def pod(version: int = 10, uid: str = "pod-worker-0", **metadata: Any) -> dict[str, Any]:
    return build_pod_wire(metadata={"resourceVersion": str(version), "uid": uid, **metadata})


def framework(version: int, **spec: Any) -> dict[str, Any]:
    wire = build_framework_wire(**spec)
    wire["metadata"] |= {"resourceVersion": str(version), "generation": version}
    return wire


# --- Frameworks ----------------------------------------------------------------------------------


def test_older_and_equal_versions_of_a_framework_are_ignored(bench: Bench) -> None:
    bench.store.apply(ObjectKind.FRAMEWORK, framework(5, description="new"))
    bench.keys.clear()
    bench.store.apply(ObjectKind.FRAMEWORK, framework(4, description="old"))
    bench.store.apply(ObjectKind.FRAMEWORK, framework(5, description="same version"))
    assert bench.entry.observed.framework is not None
    assert bench.entry.observed.framework.spec.description == "new"
    assert bench.keys == []


def test_status_of_others_is_noticed_and_not_taken(bench: Bench) -> None:
    wire = framework(5)
    wire["status"] = build_status_wire()
    bench.store.apply(ObjectKind.FRAMEWORK, wire)
    assert bench.entry.observed.framework is not None
    assert bench.entry.observed.framework.status is None
    assert bench.entry.observed.is_diverged


def test_first_sight_trusts_what_is_stored() -> None:
    store = Store(lambda _: None)
    wire = build_framework_wire()
    wire["status"] = build_status_wire()
    store.apply(ObjectKind.FRAMEWORK, wire)
    entry = store.find(KEY)
    assert entry is not None
    assert entry.observed.framework is not None
    assert entry.observed.framework.status is not None
    assert entry.observed.framework.status.state is FrameworkState.ATTEMPT_RUNNING


def test_another_framework_of_the_same_name_starts_anew(bench: Bench) -> None:
    bench.entry.observed.live[POD] = ""
    wire = framework(9)
    wire["metadata"]["uid"] = "another"
    wire["status"] = build_status_wire()
    bench.store.apply(ObjectKind.FRAMEWORK, wire)
    assert bench.entry.observed.framework is not None
    assert bench.entry.observed.framework.status is not None
    assert not bench.entry.observed.live


def test_removal_of_another_instance_is_ignored(bench: Bench) -> None:
    wire = framework(9)
    wire["metadata"]["uid"] = "another"
    bench.store.remove(ObjectKind.FRAMEWORK, wire)
    assert bench.entry.observed.framework is not None
    bench.store.remove(ObjectKind.FRAMEWORK, build_framework_wire())
    assert bench.entry.observed.framework is None


def test_frameworks_not_in_a_list_are_gone(bench: Bench) -> None:
    bench.store.replace(ObjectKind.FRAMEWORK, [build_framework_wire(name="other")], "9")
    assert bench.entry.observed.framework is None
    assert len(bench.store) == 1


def test_unreadable_framework_is_a_fault_and_heals(bench: Bench) -> None:
    wire = framework(5)
    wire["spec"]["taskRoles"] = "nonsense"
    bench.store.apply(ObjectKind.FRAMEWORK, wire)
    assert bench.entry.observed.framework is None
    assert "spec.taskRoles" in str(bench.entry.observed.fault)
    bench.store.apply(ObjectKind.FRAMEWORK, framework(6))
    assert bench.entry.observed.fault is None
    assert bench.entry.observed.framework is not None


def test_live_get_that_finds_none_asks_for_no_other(bench: Bench) -> None:
    bench.entry.observed.needs_refresh = True
    bench.store.drop_framework(bench.entry)
    assert not bench.entry.observed.needs_refresh


def test_refresh_keeps_what_is_not_yet_confirmed(bench: Bench) -> None:
    bench.store.record_own(bench.entry, ObjectKind.POD, pod(), AT)
    bench.store.refresh_framework(bench.entry, framework(5))
    assert POD in bench.entry.observed.unconfirmed
    assert bench.entry.observed.live[POD] == "pod-worker-0"


def test_pod_that_no_watch_shows_goes_with_its_framework(bench: Bench) -> None:
    bench.store.record_own(bench.entry, ObjectKind.POD, pod(), AT)
    bench.store.drop_framework(bench.entry)
    assert not bench.entry.observed.pods


def test_entry_about_which_nothing_is_known_is_forgotten(bench: Bench) -> None:
    bench.store.apply(ObjectKind.POD, pod())
    bench.store.remove(ObjectKind.FRAMEWORK, build_framework_wire())
    bench.store.forget_if_empty(KEY)
    assert bench.store.find(KEY) is not None
    bench.store.remove(ObjectKind.POD, pod(11, **TERMINATING))
    bench.store.forget_if_empty(KEY)
    assert bench.store.find(KEY) is None


# --- Pods ----------------------------------------------------------------------------------------


def test_older_versions_of_a_pod_are_ignored(bench: Bench) -> None:
    bench.store.apply(ObjectKind.POD, pod(10))
    bench.keys.clear()
    bench.store.apply(ObjectKind.POD, pod(9, **TERMINATING))
    assert not bench.entry.observed.pods["gang-worker-0"].is_terminating
    assert bench.keys == []


def test_late_answer_never_replaces_a_newer_event(bench: Bench) -> None:
    bench.store.apply(ObjectKind.POD, pod(12, **TERMINATING))
    bench.store.record_own(bench.entry, ObjectKind.POD, pod(10), AT)
    assert bench.entry.observed.pods["gang-worker-0"].is_terminating
    assert POD not in bench.entry.observed.unconfirmed


def test_own_create_is_unconfirmed_until_a_watch_shows_it(bench: Bench) -> None:
    bench.store.record_own(bench.entry, ObjectKind.POD, pod(10), AT)
    assert bench.entry.observed.unconfirmed == {POD: AT}
    bench.store.apply(ObjectKind.POD, pod(10))
    assert not bench.entry.observed.unconfirmed


@pytest.mark.parametrize("answer", ["record_own", "record_terminating"])
def test_late_answers_never_resurrect_what_was_seen_deleted(bench: Bench, answer: str) -> None:
    bench.store.apply(ObjectKind.POD, pod(10, **TERMINATING))
    bench.store.remove(ObjectKind.POD, pod(11, **TERMINATING))
    if answer == "record_own":
        bench.store.record_own(bench.entry, ObjectKind.POD, pod(10), AT)
    else:
        bench.store.record_terminating(bench.entry, ObjectKind.POD, pod(10, **TERMINATING))
    assert not bench.entry.observed.pods
    assert bench.entry.observed.live[POD] == ""


def test_event_told_again_after_the_end_brings_nothing_back(bench: Bench) -> None:
    bench.store.apply(ObjectKind.POD, pod(10, **TERMINATING))
    bench.store.remove(ObjectKind.POD, pod(11, **TERMINATING))
    bench.store.apply(ObjectKind.POD, pod(9))
    assert not bench.entry.observed.pods
    assert bench.entry.observed.live[POD] == ""


def test_deletion_of_a_terminating_pod_is_believed(bench: Bench) -> None:
    bench.store.apply(ObjectKind.POD, pod(10, **TERMINATING))
    bench.store.remove(ObjectKind.POD, pod(11, **TERMINATING))
    assert not bench.entry.observed.pods
    assert bench.entry.observed.live[POD] == ""


def test_deletion_of_a_live_pod_is_not_believed_without_a_live_get(bench: Bench) -> None:
    """It may only have lost our label."""
    bench.store.apply(ObjectKind.POD, pod(10))
    bench.store.remove(ObjectKind.POD, pod(11))
    assert bench.entry.observed.live.get(POD) != ""
    assert POD in bench.entry.observed.unconfirmed


def test_live_get_brings_back_a_pod_that_only_left_the_selector(bench: Bench) -> None:
    bench.store.apply(ObjectKind.POD, pod(10))
    bench.store.remove(ObjectKind.POD, pod(11))
    bench.store.record_own(bench.entry, ObjectKind.POD, pod(11), AT)
    assert bench.entry.observed.pods["gang-worker-0"].resource_version == "11"
    assert bench.entry.observed.live[POD] == "pod-worker-0"
    assert bench.entry.observed.unconfirmed == {POD: AT}


def test_deletion_of_a_live_pod_is_confirmed_by_the_answer_to_our_own(bench: Bench) -> None:
    bench.store.apply(ObjectKind.POD, pod(10))
    bench.entry.outcomes.in_flight.add(ActionKey(Verb.DELETE, *POD, "pod-worker-0/0"))
    bench.store.remove(ObjectKind.POD, pod(11))
    # Our request may be lost, and the Pod may only have left the selector.
    assert POD not in bench.entry.observed.live
    assert bench.entry.observed.pods
    bench.store.record_absent(bench.entry, *POD, "pod-worker-0")
    assert bench.entry.observed.live[POD] == ""
    assert not bench.entry.observed.pods
    assert bench.entry.observed.unconfirmed == {}


def test_deletion_of_another_instance_is_ignored(bench: Bench) -> None:
    bench.store.apply(ObjectKind.POD, pod(10))
    bench.store.remove(ObjectKind.POD, pod(11, uid="another"))
    assert bench.entry.observed.pods


def test_pod_seen_drops_what_was_known_of_its_name(bench: Bench) -> None:
    bench.store.record_absent(bench.entry, *POD, None)
    bench.store.apply(ObjectKind.POD, pod(10))
    assert POD not in bench.entry.observed.live


def test_absence_of_one_instance_says_nothing_of_another(bench: Bench) -> None:
    bench.store.apply(ObjectKind.POD, pod(10, uid="new"))
    bench.store.record_absent(bench.entry, *POD, "old")
    assert bench.entry.observed.live[POD] == "new"
    assert bench.entry.observed.pods
    bench.store.record_absent(bench.entry, *POD, "new")
    assert not bench.entry.observed.pods


def test_foreign_object_is_no_pod_of_ours(bench: Bench) -> None:
    bench.store.apply(ObjectKind.POD, pod(10))
    bench.store.record_foreign(bench.entry, *POD, "theirs")
    assert not bench.entry.observed.pods
    assert bench.entry.observed.live[POD] == "theirs"


def test_list_removes_what_it_does_not_show(bench: Bench) -> None:
    bench.store.apply(ObjectKind.POD, pod(10, **TERMINATING))
    bench.store.replace(ObjectKind.POD, [], "20")
    assert not bench.entry.observed.pods
    assert bench.entry.observed.live[POD] == ""


def test_list_that_does_not_show_a_live_pod_is_not_believed(bench: Bench) -> None:
    bench.store.apply(ObjectKind.POD, pod(10))
    bench.store.replace(ObjectKind.POD, [], "20")
    assert bench.entry.observed.live.get(POD) != ""


def test_list_says_nothing_of_a_pod_that_no_watch_shows(bench: Bench) -> None:
    """It lost our label, then it was deleted: only live answers tell of it."""
    bench.store.record_own(bench.entry, ObjectKind.POD, pod(10, **TERMINATING), AT)
    bench.store.replace(ObjectKind.POD, [], "20")
    assert bench.entry.observed.live.get(POD) != ""
    assert bench.entry.observed.pods


def test_own_writes_newer_than_the_list_are_kept(bench: Bench) -> None:
    bench.store.record_own(bench.entry, ObjectKind.POD, pod(30), AT)
    bench.store.replace(ObjectKind.POD, [], "20")
    assert bench.entry.observed.pods
    assert bench.entry.observed.live[POD] == "pod-worker-0"


def test_pods_of_a_list_reach_their_entries(bench: Bench) -> None:
    bench.store.replace(ObjectKind.POD, [pod(10), build_pod_wire(index=1)], "20")
    assert sorted(bench.entry.observed.pods) == ["gang-worker-0", "gang-worker-1"]


def test_pod_without_a_framework_belongs_to_the_one_it_names() -> None:
    store = Store(lambda _: None)
    store.apply(ObjectKind.POD, pod())
    entry = store.find(KEY)
    assert entry is not None
    assert entry.observed.framework is None


@pytest.mark.parametrize("wire", [{}, {"metadata": {}}, {"metadata": {"name": "x"}}])
def test_object_that_says_not_where_it_is_is_ignored(bench: Bench, wire: dict[str, Any]) -> None:
    bench.store.apply(ObjectKind.FRAMEWORK, wire)
    bench.store.apply(ObjectKind.POD, wire)
    bench.store.remove(ObjectKind.POD, wire)
    assert [entry.key for entry in bench.store.walk()] == [KEY]


def test_unreadable_versions_count_as_the_oldest(bench: Bench) -> None:
    bench.store.apply(ObjectKind.POD, pod(10))
    bench.store.apply(
        ObjectKind.POD, build_pod_wire(metadata={"resourceVersion": "none", **TERMINATING})
    )
    assert not bench.entry.observed.pods["gang-worker-0"].is_terminating


# --- ConfigMaps ----------------------------------------------------------------------------------


def test_configmap_follows_the_same_rules(bench: Bench) -> None:
    configmap = (ObjectKind.CONFIGMAP, "gang-attempt")
    bench.store.apply(ObjectKind.CONFIGMAP, build_configmap_wire(resourceVersion="10"))
    assert bench.entry.observed.configmap is not None
    bench.store.remove(ObjectKind.CONFIGMAP, build_configmap_wire(resourceVersion="11"))
    assert bench.entry.observed.live.get(configmap) != ""
    bench.store.apply(
        ObjectKind.CONFIGMAP, build_configmap_wire(resourceVersion="12", **TERMINATING)
    )
    bench.store.replace(ObjectKind.CONFIGMAP, [], "20")
    assert find_configmap(bench) is None
    assert bench.entry.observed.live[configmap] == ""


def find_configmap(bench: Bench) -> object:
    return bench.entry.observed.configmap


def test_framework_is_found_by_its_name_whatever_its_labels_say(bench: Bench) -> None:
    wire = build_framework_wire()
    wire["metadata"] |= {"resourceVersion": "77", "labels": {"FC_FRAMEWORK_NAME": "another"}}
    bench.store.apply(ObjectKind.FRAMEWORK, wire)
    assert bench.entry.observed.framework is not None
    assert bench.entry.observed.framework.metadata.resource_version == "77"
    assert bench.store.find("default/another") is None


def test_edit_of_a_user_seen_while_our_status_write_is_answered_is_kept(bench: Bench) -> None:
    bench.store.apply(ObjectKind.FRAMEWORK, framework(10))
    status = codec.decode_status(build_status_wire())
    assert status is not None
    written = framework(11) | {"status": build_status_wire()}
    bench.store.apply(ObjectKind.FRAMEWORK, framework(12, executionType="Stop"))
    bench.store.record_status(bench.entry, written, status)
    found = bench.entry.observed.framework
    assert found is not None
    assert found.spec.execution_type is ExecutionType.STOP
    assert (found.metadata.resource_version, found.status) == ("12", status)
