"""What a store trusts when the Lease changes hands."""

from typing import Any

import pytest

from controller.core.actions import ObjectKind
from controller.store.entry import Entry
from controller.store.store import Store
from framework.api.states import FrameworkState
from framework.kube.resources import Object
from tests.support.builders import build_framework_wire, build_status, build_status_wire
from tests.support.fakes.storageclient import LoopClock

pytestmark = pytest.mark.looptime

KEY = "default/gang"


def build(version: int, state: str, uid: str = "u", **spec: Any) -> Object:
    wire = build_framework_wire(name="gang", **spec)
    wire["metadata"] |= {"uid": uid, "resourceVersion": str(version)}
    return {**wire, "status": build_status_wire(state=FrameworkState(state))}


def read_state(entry: Entry) -> str:
    assert entry.observed.framework is not None
    assert entry.observed.framework.status is not None
    return str(entry.observed.framework.status.state)


def open_standby() -> tuple[Store, Entry]:
    store = Store(on_change=lambda _: None, clock=LoopClock())
    store.follow()
    store.apply(ObjectKind.FRAMEWORK, build(5, "AttemptPreparing"))
    entry = store.find(KEY)
    assert entry is not None
    return store, entry


async def test_standby_takes_every_status_it_is_shown() -> None:
    store, entry = open_standby()
    store.apply(ObjectKind.FRAMEWORK, build(6, "AttemptRunning"))
    assert read_state(entry) == "AttemptRunning"
    assert not entry.observed.is_diverged


async def test_new_leader_takes_what_is_stored_now_over_what_its_watch_has_shown() -> None:
    store, entry = open_standby()
    store.take_over([build(9, "Completed")])
    assert read_state(entry) == "Completed"
    assert not entry.observed.needs_refresh
    # The watch catches up.
    store.apply(ObjectKind.FRAMEWORK, build(7, "AttemptRunning"))
    assert read_state(entry) == "Completed"


async def test_new_leader_keeps_what_its_watch_has_shown_since_the_list() -> None:
    store, entry = open_standby()
    store.apply(ObjectKind.FRAMEWORK, build(12, "AttemptRunning"))
    store.take_over([build(9, "AttemptPreparing")])
    assert read_state(entry) == "AttemptRunning"
    assert not entry.observed.needs_refresh


@pytest.mark.parametrize("listed", [[], [build(9, "Completed", uid="another")]])
async def test_new_leader_reads_live_what_the_list_does_not_confirm(listed: list[Object]) -> None:
    store, entry = open_standby()
    store.take_over(listed)
    assert entry.observed.needs_refresh
    assert read_state(entry) == "AttemptPreparing"


async def test_late_write_of_the_last_leader_is_kept_until_we_have_written() -> None:
    store, entry = open_standby()
    store.take_over([build(5, "AttemptPreparing")])
    store.apply(ObjectKind.FRAMEWORK, build(6, "AttemptRunning"))
    assert read_state(entry) == "AttemptRunning"
    store.record_status(entry, build(7, "Completed"), build_status(state=FrameworkState.COMPLETED))
    store.apply(ObjectKind.FRAMEWORK, build(8, "AttemptRunning"))
    assert read_state(entry) == "Completed"
    assert entry.observed.is_diverged


async def test_without_election_a_status_of_others_is_never_taken() -> None:
    store = Store(on_change=lambda _: None, clock=LoopClock())
    store.apply(ObjectKind.FRAMEWORK, build(5, "AttemptPreparing"))
    store.apply(ObjectKind.FRAMEWORK, build(6, "AttemptRunning"))
    entry = store.find(KEY)
    assert entry is not None
    assert read_state(entry) == "AttemptPreparing"
    assert entry.observed.is_diverged
