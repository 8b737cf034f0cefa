"""Which status a store trusts when the Lease changes its holder."""

from typing import Any

import pytest

from controller.core.actions import ObjectKind
from controller.store.entry import Entry
from controller.store.store import Store
from framework.api.states import FrameworkState
from framework.kube.resources import Object
from tests.support.builders import build_framework_wire, build_status, build_status_wire
from tests.support.builders.cases import cases
from tests.support.fakes.storageclient import LoopClock

pytestmark = pytest.mark.looptime

S = FrameworkState


def build(version: int, state: FrameworkState, uid: str = "u") -> Object:
    wire = build_framework_wire(name="gang")
    wire["metadata"] |= {"uid": uid, "resourceVersion": str(version)}
    return {**wire, "status": build_status_wire(state=state)}


def open_store(*, is_standby: bool = True) -> tuple[Store, Entry]:
    """A store that was shown version 5 with the state AttemptPreparing."""
    store = Store(on_change=lambda _: None, clock=LoopClock())
    if is_standby:
        store.trust.follow()
    store.apply(ObjectKind.FRAMEWORK, build(5, S.ATTEMPT_PREPARING))
    entry = store.find("default/gang")
    assert entry is not None
    return store, entry


def read_state(entry: Entry) -> FrameworkState:
    assert entry.observed.framework is not None
    assert entry.observed.framework.status is not None
    return entry.observed.framework.status.state


@pytest.mark.parametrize("is_standby", [True, False])
async def test_only_a_standby_trusts_the_status_of_another_controller(*, is_standby: bool) -> None:
    store, entry = open_store(is_standby=is_standby)
    store.apply(ObjectKind.FRAMEWORK, build(6, S.ATTEMPT_RUNNING))
    assert read_state(entry) is (S.ATTEMPT_RUNNING if is_standby else S.ATTEMPT_PREPARING)
    assert entry.observed.is_diverged is not is_standby


@cases(
    "seen listed expected needs_refresh",
    list_is_newer_than_the_watch=(5, [build(9, S.COMPLETED)], S.COMPLETED, False),
    watch_is_newer_than_the_list=(12, [build(9, S.COMPLETED)], S.ATTEMPT_RUNNING, False),
    not_listed=(5, [], S.ATTEMPT_PREPARING, True),
    another_is_listed=(5, [build(9, S.COMPLETED, "another")], S.ATTEMPT_PREPARING, True),
)
async def test_new_leader_trusts_the_newest_version_and_reads_live_those_not_listed(
    seen: int, listed: Any, expected: FrameworkState, *, needs_refresh: bool
) -> None:
    store, entry = open_store()
    if seen > 5:
        store.apply(ObjectKind.FRAMEWORK, build(seen, S.ATTEMPT_RUNNING))
    store.take_over.finish(store.take_over.confirm(listed))
    assert read_state(entry) is expected
    assert entry.observed.needs_refresh is needs_refresh
    if expected is S.COMPLETED:
        store.apply(ObjectKind.FRAMEWORK, build(7, S.ATTEMPT_RUNNING))
        assert read_state(entry) is expected, "an older version that the watch shows later"


async def test_late_write_of_the_last_leader_is_kept_until_we_have_written() -> None:
    store, entry = open_store()
    store.take_over.finish(store.take_over.confirm([build(5, S.ATTEMPT_PREPARING)]))
    store.apply(ObjectKind.FRAMEWORK, build(6, S.ATTEMPT_RUNNING))
    states = [read_state(entry)]
    store.frameworks.record_status(entry, build(7, S.COMPLETED), build_status(state=S.COMPLETED))
    store.apply(ObjectKind.FRAMEWORK, build(8, S.ATTEMPT_RUNNING))
    states.append(read_state(entry))
    assert states == [S.ATTEMPT_RUNNING, S.COMPLETED]
    assert entry.observed.is_diverged
