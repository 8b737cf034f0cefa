"""The retry policy: whether a completed attempt is retried, and the delay after a conflict.

``decide_retry`` applies the first rule that matches:

1. The role has left the spec: no retry.
2. The completion code is -210, -220, -221, -230 or -240, a requested end, the end of the Framework
   or the deadline: no retry.
3. The completion code is -250, a suspension, -260, a retry that a user requested, or -280, a Task
   that left its node: retry, and do not count it.
4. With ``fancyRetryPolicy``, a Transient failure is retried and does not count against
   ``maxRetryCount``; a Permanent failure is not retried.
5. ``maxRetryCount`` -2: each completion is retried.
6. A success is not retried.
7. ``maxRetryCount`` -1: each failure is retried.
8. A failure is retried while fewer than ``maxRetryCount`` retries have been counted.

Example: maxRetryCount 1 and fancyRetryPolicy. The attempts end as Transient, Unknown, Unknown. The
first is retried and not counted, the second is retried and counted, the third is not retried.

Rules: docs/design/failure-handling.md, "Retry policy"; ``RetryPolicySpec.ShouldRetry`` of the Go
original.
"""

import hashlib
from dataclasses import dataclass

from framework.api.completion import (
    CONFLICT,
    DELETE_TASK_REQUESTED,
    FRAMEWORK_ATTEMPT_COMPLETION,
    FRAMEWORK_DEADLINE_EXCEEDED,
    PERMANENT,
    POD_LEFT_RUNNING,
    RETRY_TASK_REQUESTED,
    STOP_FRAMEWORK_REQUESTED,
    SUSPEND_FRAMEWORK_REQUESTED,
    TASK_LEFT_NODE,
    TRANSIENT,
)
from framework.api.constants import EXTENDED_UNLIMITED, UNLIMITED
from framework.api.types import CompletionType, RetryPolicySpec, RetryPolicyStatus

# Ends that a user or the Framework requested.
_FINAL_CODES = frozenset(
    {
        STOP_FRAMEWORK_REQUESTED,
        FRAMEWORK_ATTEMPT_COMPLETION,
        POD_LEFT_RUNNING,
        DELETE_TASK_REQUESTED,
        FRAMEWORK_DEADLINE_EXCEEDED,
    },
)
REQUESTED_RETRY_CODES = {
    SUSPEND_FRAMEWORK_REQUESTED: "a user suspended the Framework",
    RETRY_TASK_REQUESTED: "a user asked for the retry",
}
"""Ends after which a user requested the next attempt, with the reason."""
_UNCOUNTED_RETRY_CODES = REQUESTED_RETRY_CODES | {TASK_LEFT_NODE: "the Task left its node"}


@dataclass(frozen=True, slots=True)
class RetryDecision:
    """Whether to retry; ``is_conflict``: the delay is drawn from the range for conflicts."""

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
    if code in _UNCOUNTED_RETRY_CODES:
        return RetryDecision(
            should_retry=True, reason=_UNCOUNTED_RETRY_CODES[code], is_accountable=False
        )
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
