"""Which completed attempts are retried: docs/design/failure-handling.md, "Retry policy"."""

import pytest

from controller.core.policies.retry_policy import decide_retry, draw_delay_seconds
from framework.api.completion import CONFLICT, PERMANENT, TRANSIENT
from framework.api.types import CompletionType, RetryPolicySpec, RetryPolicyStatus
from tests.support.builders.cases import cases

SUCCEEDED = CompletionType("Succeeded", ())
FAILED = CompletionType("Failed", ())
UNTYPED = CompletionType("Failed", None)
IS_TRANSIENT = CompletionType("Failed", (TRANSIENT,))
IS_CONFLICT = CompletionType("Failed", (TRANSIENT, CONFLICT))
IS_PERMANENT = CompletionType("Failed", (PERMANENT,))
IS_BOTH = CompletionType("Failed", (PERMANENT, TRANSIENT))
LOST_CONFLICT = CompletionType("Failed", (CONFLICT,))


@cases(
    "fancy limit done kind expected",
    no_retries_allowed=(False, 0, 0, FAILED, False),
    the_first_of_one=(False, 1, 0, FAILED, True),
    all_used=(False, 1, 1, FAILED, False),
    lowered_below_what_was_used=(False, 2, 5, FAILED, False),
    every_failure=(False, -1, 99, FAILED, True),
    every_failure_but_it_succeeded=(False, -1, 0, SUCCEEDED, False),
    success_needs_no_retry=(False, 3, 0, SUCCEEDED, False),
    every_completion=(False, -2, 9, SUCCEEDED, True),
    every_completion_a_failure_too=(False, -2, 9, FAILED, True),
    attributes_count_only_if_fancy=(False, 1, 0, IS_PERMANENT, True),
    transient_counts_only_if_fancy=(False, 0, 0, IS_TRANSIENT, False),
    fancy_without_a_type_is_normal=(True, 1, 0, UNTYPED, True),
    fancy_conflict_alone_is_normal=(True, 1, 1, LOST_CONFLICT, False),
    fancy_success_is_normal=(True, -2, 0, SUCCEEDED, True),
)
def test_normal_decision_follows_the_count(
    *, fancy: bool, limit: int, done: int, kind: CompletionType, expected: bool
) -> None:
    status = RetryPolicyStatus(done + 4, done)
    decision = decide_retry(RetryPolicySpec(fancy, limit), status, 7, kind)
    assert decision.should_retry is expected
    assert not decision.is_conflict
    if expected:
        assert decision.is_accountable


@cases(
    "kind should_retry is_conflict",
    transient=(IS_TRANSIENT, True, False),
    transient_conflict=(IS_CONFLICT, True, True),
    transient_is_looked_at_before_permanent=(IS_BOTH, True, False),
    permanent=(IS_PERMANENT, False, False),
)
@pytest.mark.parametrize("limit", [-2, -1, 0, 3])
def test_fancy_decision_follows_the_type_whatever_the_limit(
    *, kind: CompletionType, should_retry: bool, is_conflict: bool, limit: int
) -> None:
    decision = decide_retry(
        RetryPolicySpec(fancy_retry_policy=True, max_retry_count=limit),
        RetryPolicyStatus(3, 3),
        7,
        kind,
    )
    assert (decision.should_retry, decision.is_conflict) == (should_retry, is_conflict)
    if should_retry:
        assert not decision.is_accountable


@pytest.mark.parametrize("code", [-210, -220, -221, -230, -240])
@pytest.mark.parametrize("kind", [FAILED, IS_TRANSIENT])
def test_requested_end_is_never_retried(code: int, kind: CompletionType) -> None:
    policy = RetryPolicySpec(fancy_retry_policy=True, max_retry_count=-2)
    assert not decide_retry(policy, RetryPolicyStatus(), code, kind).should_retry


@pytest.mark.parametrize("policy", [(False, 0), (False, 1), (True, 0), (False, -1), (False, -2)])
def test_suspended_attempt_is_always_retried_and_never_counted(policy: tuple[bool, int]) -> None:
    decision = decide_retry(RetryPolicySpec(*policy), RetryPolicyStatus(5, 5), -250, IS_TRANSIENT)
    assert decision.should_retry
    assert not decision.is_accountable
    assert not decision.is_conflict


def test_a_role_gone_from_the_spec_never_retries() -> None:
    decision = decide_retry(None, RetryPolicyStatus(), 7, IS_TRANSIENT)
    assert not decision.should_retry
    assert "role" in decision.reason


def test_the_drawn_delay_is_of_the_range_and_of_the_attempt() -> None:
    drawn = {draw_delay_seconds("uid", attempt, 60, 62) for attempt in range(50)}
    assert drawn == {60, 61, 62}
    assert draw_delay_seconds("uid", 3, 0, 900) == draw_delay_seconds("uid", 3, 0, 900)
    assert len({draw_delay_seconds(f"uid{n}", 3, 0, 900) for n in range(20)}) > 10
    assert draw_delay_seconds("uid", 3, 5, 5) == 5
