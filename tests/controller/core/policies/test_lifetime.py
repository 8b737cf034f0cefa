"""Suspension, deadline and retention: the answers of the policy, without a machine."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from controller.core.draft import Draft
from controller.core.policies import lifetime
from controller.core.settings import Settings
from framework.api.states import FrameworkState
from framework.api.types import Condition, ExecutionType, FrameworkSpec, FrameworkStatus
from tests.support.builders import AT, at, build_spec, build_status
from tests.support.builders.cases import cases
from tests.support.builders.worlds import NOW, build_draft

SUSPENDED = (Condition("Suspended", "True", 1, AT, "Suspended"),)
SUSPENDING = (Condition("Suspended", "False", 1, AT, "Suspending"),)
RESUMED = (Condition("Suspended", "False", 1, AT, "Resumed"),)
NOT_STARTED = (Condition("GangReady", "False", 1, AT, "NotStarted"),)
NO_GANG = (Condition("GangReady", "False", 1, AT, "NoGang"),)
PENDING = FrameworkState.ATTEMPT_CREATION_PENDING
STOP, CREATE = ExecutionType.STOP, ExecutionType.CREATE


def find_code(spec: FrameworkSpec, **status: Any) -> int | None:
    end = lifetime.find_final_end(build_draft(spec, build_status(**status)))
    return None if end is None else end.code


def track(spec: FrameworkSpec, status: FrameworkStatus) -> datetime | None:
    draft = build_draft(spec, status)
    lifetime.track_activity(draft)
    return draft.status.active_start_time


@cases(
    "seconds passed code",
    long_before=(60, 10, None),
    just_before=(60, 59.5, None),
    at_the_second=(60, 60, -240),
    after_it=(60, 61, -240),
    zero=(0, 0, -240),
    beyond_the_calendar=(2**62, 10**9, None),
)
def test_framework_ends_when_it_was_active_for_the_deadline(
    seconds: int, passed: float, code: int | None
) -> None:
    spec = build_spec(active_deadline_seconds=seconds)
    status = build_status(active_start_time=at(0))
    draft = build_draft(spec, status, now=at(0) + timedelta(seconds=passed))
    end = lifetime.find_final_end(draft)
    assert (end and end.code) == code
    is_waiting = code is None and seconds == 60
    assert draft.wake_at == (at(60) if is_waiting else None)


def test_clock_that_is_set_back_ends_no_framework_and_wakes_at_the_deadline() -> None:
    spec = build_spec(active_deadline_seconds=60)
    draft = build_draft(spec, build_status(active_start_time=at(9000)), now=at(0))
    assert lifetime.find_final_end(draft) is None
    assert draft.wake_at == at(9060)


def test_stop_comes_before_the_deadline_and_before_the_suspension() -> None:
    spec = build_spec(execution_type=STOP, active_deadline_seconds=0, suspend=True)
    assert find_code(spec, active_start_time=AT) == -210
    assert not lifetime.is_suspended(spec)
    assert lifetime.find_suspension(build_draft(spec)) is None


def test_suspended_framework_has_no_deadline() -> None:
    spec = build_spec(suspend=True, active_deadline_seconds=0)
    status = build_status(active_start_time=track(spec, build_status(active_start_time=AT)))
    draft = build_draft(spec, status)
    assert lifetime.find_final_end(draft) is None
    assert draft.wake_at is None
    suspension = lifetime.find_suspension(draft)
    assert suspension is not None
    assert (suspension.code, suspension.type.attributes) == (-250, ("Transient",))


@cases(
    "spec status expected",
    without_a_deadline_there_is_none=({"active_deadline_seconds": None}, {}, None),
    suspended_removes_it=({"suspend": True}, {"active_start_time": AT}, None),
    before_its_start_there_is_none=({"execution_type": CREATE}, {"state": PENDING}, None),
    started=({}, {"state": PENDING, "conditions": NOT_STARTED}, "now"),
    pending_since_its_start=({}, {"state": PENDING, "conditions": NO_GANG}, AT),
    kept_while_it_is_active=({}, {"active_start_time": at(3)}, at(3)),
    set_later_it_counts_from_the_start=({}, {}, AT),
    resumed=({}, {"conditions": SUSPENDED}, "now"),
    resumed_before_its_pods_were_gone=({}, {"conditions": SUSPENDING}, "now"),
    was_resumed_before=({}, {"conditions": RESUMED, "active_start_time": at(3)}, at(3)),
    stopped_while_suspended=({"execution_type": STOP}, {"conditions": SUSPENDED}, None),
)
def test_deadline_counts_from_the_start_or_the_last_resumption(
    spec: dict[str, Any], status: dict[str, Any], expected: datetime | str | None
) -> None:
    built = build_spec(**{"active_deadline_seconds": 60, **spec})
    now = NOW.replace(microsecond=0)
    assert track(built, build_status(**status)) == (now if expected == "now" else expected)


@cases("conditions", resumption=SUSPENDED, start=NOT_STARTED)
def test_active_start_is_stored_without_a_deadline_for_a_later_deadline(
    conditions: tuple[Condition, ...],
) -> None:
    status = build_status(state=PENDING, conditions=conditions)
    assert track(build_spec(), status) == NOW.replace(microsecond=0)


@cases(
    "ttl config expected",
    of_the_config=(None, 30, (30, "frameworkCompletedRetainSec")),
    for_ever=(None, None, None),
    of_the_framework=(5, 30, (5, "spec.ttlSecondsAfterFinished")),
    at_once=(0, 30, (0, "spec.ttlSecondsAfterFinished")),
    longer_than_the_config=(90, 30, (90, "spec.ttlSecondsAfterFinished")),
    of_the_framework_alone=(5, None, (5, "spec.ttlSecondsAfterFinished")),
)
def test_ttl_of_a_framework_replaces_the_retention_of_the_config(
    ttl: int | None, config: int | None, expected: tuple[int, str] | None
) -> None:
    spec = build_spec(ttl_seconds_after_finished=ttl)
    draft = build_draft(spec, settings=Settings(completed_retain_seconds=config))
    assert lifetime.find_retention(draft) == expected


@pytest.mark.parametrize("state", list(FrameworkState))
def test_framework_rests_only_without_an_attempt(state: FrameworkState) -> None:
    status = build_status(state=state)
    attempt = replace(status.attempt_status, configmap_uid=None, instance_uid=None)
    draft: Draft = build_draft(build_spec(suspend=True), replace(status, attempt_status=attempt))
    rests = {FrameworkState.ATTEMPT_COMPLETED, PENDING}
    assert lifetime.is_at_rest(draft) is (state in rests)
