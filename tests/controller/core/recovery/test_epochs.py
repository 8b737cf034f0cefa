"""Which reports start the next epoch: docs/design/recovery.md."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from controller.core.recovery.epochs import EpochState, ProcessReport, decide_epoch
from framework.api.naming import TaskKey
from framework.api.recovery import (
    BUDGET_USED_UP,
    NOT_IN_PLACE,
    PERMANENT_FAILURE,
    RESTARTED,
    InPlaceSpec,
)
from tests.support.builders.worlds import NOW

POLICIES = {"worker": InPlaceSpec(2, 60)}


def report(index: int = 0, epoch: int = 0, code: int = 1, role: str = "worker") -> ProcessReport:
    return ProcessReport(
        TaskKey(role, index), f"{role}-{index}", epoch, code, is_permanent=code == 210
    )


def decide(
    state: EpochState, *reports: ProcessReport, seconds: float = 0, is_counted: bool = True
) -> EpochState:
    live = {each.fingerprint for each in reports}
    moment = NOW + timedelta(seconds=seconds)
    return decide_epoch(state, reports, POLICIES, live, moment, is_counted=is_counted)


def test_reports_of_one_epoch_cause_one_restart() -> None:
    state = decide(EpochState(), report(1, code=137), report(2))
    assert (state.epoch, state.refused, state.restarts) == (1, frozenset(), {"worker": (NOW,)})
    assert (state.first_failed, state.reason) == (report(1, code=137), RESTARTED)
    assert decide(state, report(1), report(2), report(0)) == state, "one that arrives later"
    assert decide(state, report(0, epoch=9)) == state, "no agent of this attempt wrote it"


def test_budget_is_that_of_a_sliding_window() -> None:
    state = decide(decide(EpochState(), report()), report(epoch=1), seconds=50)
    refused = decide(state, report(epoch=2), seconds=59)
    assert (refused.epoch, set(refused.refused)) == (3, {"worker-0"})
    assert refused.restarts == state.restarts, "the retry policy pays"
    assert refused.reason == BUDGET_USED_UP
    allowed = decide(state, report(epoch=2), seconds=60)
    assert (allowed.epoch, allowed.refused) == (3, frozenset())
    assert len(allowed.restarts["worker"]) == 2


def test_permanent_code_and_role_without_restart_in_place_are_refused() -> None:
    state = decide(EpochState(), report(0, code=210), report(1), report(0, role="ps"))
    assert (state.epoch, set(state.refused)) == (1, {"worker-0", "ps-0"})
    assert (state.reason, dict(state.restarts)) == (PERMANENT_FAILURE, {})
    assert decide(EpochState(), report(role="ps")).reason == NOT_IN_PLACE


def test_epoch_that_is_not_counted_needs_no_budget_but_a_code_that_is_not_permanent() -> None:
    state = EpochState(restarts={"worker": (NOW, NOW)})
    free = decide(state, report(), is_counted=False)
    assert (free.epoch, free.refused, free.reason) == (1, frozenset(), RESTARTED)
    assert free.restarts == state.restarts
    refused = decide(state, report(code=210), report(1), report(role="ps"), is_counted=False)
    assert set(refused.refused) == {"worker-0", "ps-0"}
    assert (refused.restarts, refused.reason) == (state.restarts, PERMANENT_FAILURE)


def test_refusal_stays_until_the_pod_is_gone() -> None:
    state = decide(EpochState(), report(code=210))
    assert decide(state, report(code=210), seconds=999).refused == {"worker-0"}
    assert decide(state).refused == frozenset()
    assert decide(state).epoch == 1


@given(
    st.lists(
        st.tuples(
            st.integers(0, 40),
            st.lists(
                st.builds(
                    report, st.integers(0, 3), st.integers(0, 6), st.sampled_from([1, 137, 210])
                ),
                max_size=3,
            ),
        ),
        max_size=12,
    )
)
def test_epochs_and_budgets_hold_for_any_reports(
    steps: list[tuple[int, list[ProcessReport]]],
) -> None:
    state, seconds, counted = EpochState(), 0, []
    for pause, reports in steps:
        seconds += pause
        before = state
        state = decide(state, *reports, seconds=seconds)
        # A Pod that is refused ends: its later reports start no epoch.
        current = [
            r for r in reports if r.epoch == before.epoch and r.fingerprint not in before.refused
        ]
        assert state.epoch - before.epoch == bool(current)
        again = decide(state, *(r for r in reports if r.epoch <= before.epoch), seconds=seconds)
        assert (again.epoch, again.restarts) == (state.epoch, state.restarts)
        if state.restarts != before.restarts:
            counted.append(seconds)
        for end in counted:
            assert sum(end - 60 < time <= end for time in counted) <= 2
