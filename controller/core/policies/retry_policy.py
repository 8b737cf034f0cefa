"""The retry policy: whether a completed attempt is tried again, and after what delay.

Rules: docs/design/failure-handling.md, "Retry policy"; ``RetryPolicySpec.ShouldRetry`` of the Go
original.
"""

import hashlib
from dataclasses import dataclass

from framework.api.completion import (
    CONFLICT,
    DELETE_TASK_REQUESTED,
    FRAMEWORK_ATTEMPT_COMPLETION,
    PERMANENT,
    STOP_FRAMEWORK_REQUESTED,
    TRANSIENT,
)
from framework.api.constants import EXTENDED_UNLIMITED, UNLIMITED
from framework.api.types import CompletionType, RetryPolicySpec, RetryPolicyStatus

# Someone asked for the end: no policy brings the attempt back.
_FINAL_CODES = frozenset(
    {STOP_FRAMEWORK_REQUESTED, FRAMEWORK_ATTEMPT_COMPLETION, DELETE_TASK_REQUESTED},
)


@dataclass(frozen=True, slots=True)
class RetryDecision:
    """Whether to retry. ``is_conflict``: the delay is to be drawn from the conflict range."""

    should_retry: bool
    reason: str
    is_accountable: bool = True
    is_conflict: bool = False


def decide_retry(
    policy: RetryPolicySpec | None,
    status: RetryPolicyStatus,
    code: int,
    completion: CompletionType,
) -> RetryDecision:
    """Decide on a completed attempt; ``policy`` None: its role left the spec."""
    if policy is None:
        return _stop("the role is no longer in the spec")
    if code in _FINAL_CODES:
        return _stop(f"completion code is {code}")
    if policy.fancy_retry_policy and completion.is_failed:
        if completion.has_attribute(TRANSIENT):
            is_conflict = completion.has_attribute(CONFLICT)
            return RetryDecision(
                should_retry=True,
                reason="the failure is transient",
                is_accountable=False,
                is_conflict=is_conflict,
            )
        if completion.has_attribute(PERMANENT):
            return _stop("the failure is permanent")
    return _decide_normal(policy, status, completion)


def draw_delay_seconds(framework_uid: str, attempt_id: int, low: int, high: int) -> int:
    """Draw a delay of [low, high] seconds, the same for the same attempt."""
    digest = hashlib.sha256(f"{framework_uid}/{attempt_id}".encode()).digest()
    return low + int.from_bytes(digest[:8]) % (high - low + 1)


def _decide_normal(
    policy: RetryPolicySpec,
    status: RetryPolicyStatus,
    completion: CompletionType,
) -> RetryDecision:
    limit, done = policy.max_retry_count, status.accountable_retried_count
    if limit == EXTENDED_UNLIMITED:
        return RetryDecision(should_retry=True, reason="every completion is retried")
    if not completion.is_failed:
        return _stop("it succeeded")
    if limit == UNLIMITED or done < limit:
        return RetryDecision(should_retry=True, reason=f"{done} of {limit} retries are used")
    return _stop(f"all {limit} retries are used")


def _stop(reason: str) -> RetryDecision:
    return RetryDecision(should_retry=False, reason=reason)
