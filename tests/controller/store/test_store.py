"""The store: resourceVersions never decrease, and only evidence makes an object absent."""

from typing import Any

import pytest

from controller.core.actions import ActionKey, ObjectKind, Verb
from controller.store.entry import Entry
from controller.store.observed import Observed
from controller.store.store import Store
from framework.api import codec
from framework.api.states import FrameworkState
from framework.api.types import ExecutionType, Framework
from framework.kube.resources import Object
from tests.support.builders import (
    AT,
    build_configmap_wire,
    build_framework_wire,
    build_pod_wire,
    build_status,
    build_status_wire,
)
from tests.support.builders.cases import cases

KEY = "default/gang"
NAME = "gang-worker-0"
POD = (ObjectKind.POD, NAME)
CONFIGMAP = (ObjectKind.CONFIGMAP, "gang-attempt")
TERMINATING: dict[str, Any] = {
    "deletionTimestamp": "2026-01-01T00:00:30Z",
    "deletionGracePeriodSeconds": 30,
}


class Bench:
    """A store that knows one Framework, and the keys of its notifications."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.store = Store(self.keys.append)
        self.store.apply(ObjectKind.FRAMEWORK, build_framework_wire())

    @property
    def entry(self) -> Entry:
        found = self.store.find(KEY)
        assert found is not None
        return found

    @property
    def known(self) -> Observed:
        return self.entry.observed

    @property
    def framework(self) -> Framework:
        assert self.known.framework is not None
        return self.known.framework

    def apply(self, *pods: Object) -> None:
        for wire in pods:
            self.store.apply(ObjectKind.POD, wire)

    def apply_framework(self, wire: Object) -> None:
        self.store.apply(ObjectKind.FRAMEWORK, wire)

    def remove(self, wire: Object) -> None:
        self.store.remove(ObjectKind.POD, wire)

    def record(self, wire: Object) -> None:
        """Record the answer of a create or of a live GET."""
        self.store.objects[ObjectKind.POD].record_own(self.entry, wire, AT)

    def is_absent(self, kind: ObjectKind = ObjectKind.POD, name: str = NAME) -> bool:
        """Return whether the object is known not to exist."""
        is_cached = name in self.known.pods if kind is ObjectKind.POD else self.known.configmap
        return not is_cached and self.known.live.get((kind, name)) == ""


@pytest.fixture
def bench() -> Bench:
    return Bench()


def pod(version: int = 10, uid: str = "pod-worker-0", **metadata: Any) -> Object:
    return build_pod_wire(metadata={"resourceVersion": str(version), "uid": uid, **metadata})


def framework(version: int, uid: str = "", *, has_status: bool = False, **spec: Any) -> Object:
    wire = build_framework_wire(**spec)
    wire["metadata"] |= {"resourceVersion": str(version), "generation": version}
    wire["metadata"] |= {"uid": uid} if uid else {}
    return wire | ({"status": build_status_wire()} if has_status else {})


# --- Frameworks ----------------------------------------------------------------------------------


def test_older_and_equal_versions_of_a_framework_are_ignored(bench: Bench) -> None:
    bench.apply_framework(framework(5, description="new"))
    bench.keys.clear()
    bench.apply_framework(framework(4, description="old"))
    bench.apply_framework(framework(5, description="same version"))
    assert bench.framework.spec.description == "new"
    assert bench.keys == []


def test_status_that_another_client_wrote_is_noticed_and_not_taken(bench: Bench) -> None:
    bench.apply_framework(framework(5, has_status=True))
    assert bench.framework.status is None
    assert bench.known.is_diverged


def test_status_seen_first_is_trusted() -> None:
    bench = Bench()
    bench.store = Store(lambda _: None)
    bench.apply_framework(framework(1, has_status=True))
    assert bench.framework.status is not None
    assert bench.framework.status.state is FrameworkState.ATTEMPT_RUNNING


def test_another_framework_of_the_same_name_replaces_all_that_was_known(bench: Bench) -> None:
    bench.known.live[POD] = ""
    bench.apply_framework(framework(9, "another", has_status=True))
    assert bench.framework.status is not None
    assert not bench.known.live


def test_removal_of_another_instance_is_ignored(bench: Bench) -> None:
    bench.store.remove(ObjectKind.FRAMEWORK, framework(9, "another"))
    assert bench.known.framework is not None
    bench.store.remove(ObjectKind.FRAMEWORK, build_framework_wire())
    assert bench.known.framework is None


def test_frameworks_not_in_a_list_are_gone(bench: Bench) -> None:
    bench.store.replace(ObjectKind.FRAMEWORK, [build_framework_wire(name="other")], "9")
    assert bench.known.framework is None
    assert len(bench.store) == 1


@pytest.mark.parametrize("is_seen_deleted", [True, False])
def test_older_event_does_not_restore_a_framework(bench: Bench, *, is_seen_deleted: bool) -> None:
    if is_seen_deleted:
        bench.store.remove(ObjectKind.FRAMEWORK, build_framework_wire())
    else:
        bench.store.frameworks.drop(bench.entry)  # A live GET did not find it.
    bench.apply_framework(build_framework_wire())
    assert bench.known.framework is None
    bench.store.replace(ObjectKind.FRAMEWORK, [build_framework_wire()], "1", is_reset=True)
    assert bench.known.framework is not None, "the storage was restored from a backup"


def test_live_get_that_finds_no_framework_drops_its_own_pods(bench: Bench) -> None:
    bench.record(pod())
    bench.known.needs_refresh = True
    bench.store.frameworks.drop(bench.entry)
    assert not bench.known.needs_refresh
    assert not bench.known.pods


def test_refresh_keeps_creates_that_are_not_yet_confirmed(bench: Bench) -> None:
    bench.record(pod())
    bench.store.frameworks.refresh(bench.entry, framework(5))
    assert POD in bench.known.unconfirmed
    assert bench.known.live[POD] == "pod-worker-0"


def test_entry_without_any_object_is_forgotten(bench: Bench) -> None:
    bench.apply(pod())
    bench.store.remove(ObjectKind.FRAMEWORK, build_framework_wire())
    bench.store.forget_if_empty(KEY)
    assert bench.store.find(KEY) is not None
    bench.remove(pod(11, **TERMINATING))
    bench.store.forget_if_empty(KEY)
    assert bench.store.find(KEY) is None


def test_framework_is_found_by_its_name_whatever_its_labels_are(bench: Bench) -> None:
    wire = framework(77)
    wire["metadata"]["labels"] = {"FC_FRAMEWORK_NAME": "another"}
    bench.apply_framework(wire)
    assert bench.framework.metadata.resource_version == "77"
    assert bench.store.find("default/another") is None


def test_edit_of_a_user_seen_while_our_status_write_is_answered_is_kept(bench: Bench) -> None:
    status = codec.decode_status(build_status_wire())
    assert status is not None
    bench.apply_framework(framework(12, executionType="Stop"))
    bench.store.frameworks.record_status(bench.entry, framework(11, has_status=True), status)
    assert bench.framework.spec.execution_type is ExecutionType.STOP
    assert (bench.framework.metadata.resource_version, bench.framework.status) == ("12", status)


def test_late_answer_to_a_status_write_changes_nothing_of_the_next_framework(bench: Bench) -> None:
    answer = build_framework_wire() | {"status": {"state": "Completed"}}
    bench.apply_framework(framework(90, "another"))
    bench.store.frameworks.require_refresh(bench.entry)
    bench.store.frameworks.record_status(bench.entry, answer, build_status())
    assert bench.known.needs_refresh
    assert not bench.known.is_status_ours
    bench.apply_framework(framework(91, "another"))
    assert not bench.known.is_diverged


# --- Pods ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["9", "none"])
def test_older_and_unreadable_versions_of_a_pod_are_ignored(bench: Bench, version: str) -> None:
    bench.apply(pod(10))
    bench.keys.clear()
    bench.apply(build_pod_wire(metadata={"resourceVersion": version, **TERMINATING}))
    assert not bench.known.pods[NAME].is_terminating
    assert bench.keys == []


def test_late_answer_never_replaces_a_newer_event(bench: Bench) -> None:
    bench.apply(pod(12, **TERMINATING))
    bench.record(pod(10))
    assert bench.known.pods[NAME].is_terminating
    assert POD not in bench.known.unconfirmed


def test_own_create_is_unconfirmed_until_a_watch_shows_it(bench: Bench) -> None:
    bench.record(pod(10))
    assert bench.known.unconfirmed == {POD: AT}
    bench.apply(pod(10))
    assert not bench.known.unconfirmed


@pytest.mark.parametrize("late", ["nothing", "create", "delete", "event"])
def test_deletion_of_a_terminating_pod_is_final(bench: Bench, late: str) -> None:
    bench.apply(pod(10, **TERMINATING))
    bench.remove(pod(11, **TERMINATING))
    if late == "create":
        bench.record(pod(10))
    elif late == "delete":
        bench.store.objects[ObjectKind.POD].record_terminating(bench.entry, pod(10, **TERMINATING))
    elif late == "event":
        bench.apply(pod(9))
    assert bench.is_absent()


def test_pod_that_only_left_the_selector_is_absent_only_after_a_live_get(bench: Bench) -> None:
    bench.apply(pod(10))
    bench.remove(pod(11))
    assert not bench.is_absent()
    assert POD in bench.known.unconfirmed
    bench.record(pod(11))
    assert bench.known.pods[NAME].resource_version == "11"
    assert bench.known.live[POD] == "pod-worker-0"
    assert bench.known.unconfirmed == {POD: AT}


def test_deletion_of_a_running_pod_is_confirmed_by_the_answer_to_our_own(bench: Bench) -> None:
    bench.apply(pod(10))
    bench.entry.outcomes.in_flight.add(ActionKey(Verb.DELETE, *POD, "pod-worker-0/0"))
    bench.remove(pod(11))
    # Our request may be lost, and the Pod may only have left the selector.
    assert POD not in bench.known.live
    assert bench.known.pods
    bench.store.objects[ObjectKind.POD].record_absent(bench.entry, NAME, "pod-worker-0")
    assert bench.is_absent()
    assert bench.known.unconfirmed == {}


@pytest.mark.parametrize("is_terminating", [False, True])
def test_event_older_than_an_answer_removes_nothing(bench: Bench, *, is_terminating: bool) -> None:
    bench.apply(pod(10))
    bench.record(pod(13, **(TERMINATING if is_terminating else {})))
    # At version 11 it left the selector: it existed when the live GET was answered.
    bench.remove(pod(11))
    assert bench.known.pods[NAME].resource_version == "13"
    assert bench.known.live[POD] == "pod-worker-0"
    bench.remove(pod(15, **TERMINATING))
    assert not bench.known.pods


def test_deletion_of_another_instance_of_a_pod_is_ignored(bench: Bench) -> None:
    bench.apply(pod(9, uid="next"))
    bench.remove(pod(8, uid="last", **TERMINATING))
    bench.remove(pod(11, uid="another"))
    assert bench.known.pods[NAME].uid == "next"
    assert (bench.known.live, bench.known.unconfirmed) == ({}, {})


def test_deletion_of_another_instance_of_a_configmap_is_ignored(bench: Bench) -> None:
    kind = ObjectKind.CONFIGMAP
    bench.store.apply(kind, build_configmap_wire(uid="next", resourceVersion="9"))
    bench.store.remove(kind, build_configmap_wire(uid="last", resourceVersion="8"))
    assert bench.known.configmap is not None
    assert bench.known.configmap.uid == "next"
    assert bench.known.unconfirmed == {}


def test_pod_that_a_watch_shows_is_no_longer_absent(bench: Bench) -> None:
    bench.store.objects[ObjectKind.POD].record_absent(bench.entry, NAME, None)
    bench.apply(pod(10))
    assert POD not in bench.known.live


def test_absence_of_one_instance_is_not_that_of_another(bench: Bench) -> None:
    bench.apply(pod(10, uid="new"))
    bench.store.objects[ObjectKind.POD].record_absent(bench.entry, NAME, "old")
    assert bench.known.live[POD] == "new"
    assert bench.known.pods
    bench.store.objects[ObjectKind.POD].record_absent(bench.entry, NAME, "new")
    assert bench.is_absent()


def test_foreign_object_is_no_pod_of_ours(bench: Bench) -> None:
    bench.apply(pod(10))
    bench.store.objects[ObjectKind.POD].record_foreign(bench.entry, NAME, "theirs")
    assert not bench.known.pods
    assert bench.known.live[POD] == "theirs"


@cases(
    "wire is_shown_by_a_watch is_absent",
    terminating=(pod(10, **TERMINATING), True, True),
    running=(pod(10), True, False),
    without_our_label=(pod(10, **TERMINATING), False, False),
    newer_than_the_list=(pod(30), False, False),
)
def test_pod_that_a_list_does_not_show_is_absent_only_if_it_was_terminating(
    bench: Bench, wire: Object, *, is_shown_by_a_watch: bool, is_absent: bool
) -> None:
    """Only live answers show a Pod that lost our label."""
    (bench.apply if is_shown_by_a_watch else bench.record)(wire)
    bench.store.replace(ObjectKind.POD, [], "20")
    assert bench.is_absent() is is_absent
    if not is_shown_by_a_watch:
        assert bench.known.pods


def test_pods_of_a_list_reach_their_entries(bench: Bench) -> None:
    bench.store.replace(ObjectKind.POD, [pod(10), build_pod_wire(index=1)], "20")
    assert sorted(bench.known.pods) == [NAME, "gang-worker-1"]


def test_pod_without_a_framework_belongs_to_the_one_it_names() -> None:
    bench = Bench()
    bench.store = Store(lambda _: None)
    bench.apply(pod())
    assert bench.known.framework is None


@pytest.mark.parametrize("wire", [{}, {"metadata": {}}, {"metadata": {"name": "x"}}])
def test_object_without_a_name_or_namespace_is_ignored(bench: Bench, wire: Object) -> None:
    bench.apply_framework(wire)
    bench.apply(wire)
    bench.remove(wire)
    assert [entry.key for entry in bench.store.walk()] == [KEY]


def test_configmap_follows_the_same_rules(bench: Bench) -> None:
    kind = ObjectKind.CONFIGMAP
    bench.store.apply(kind, build_configmap_wire(resourceVersion="10"))
    assert bench.entry.observed.configmap is not None
    bench.store.remove(kind, build_configmap_wire(resourceVersion="11"))
    assert not bench.is_absent(*CONFIGMAP)
    bench.store.apply(kind, build_configmap_wire(resourceVersion="12", **TERMINATING))
    bench.store.replace(kind, [], "20")
    assert bench.is_absent(*CONFIGMAP)
