"""The pause before a retry, if the last attempts all ended within seconds of their start.

The retry policy of the Go original retries at once, without end: a Task that runs ``false`` with
maxRetryCount -1 would keep the API server, the scheduler and a Node busy.

1. An attempt ends quickly if it ends within ``Settings.quick_end_seconds`` of its start.
2. The status counts the quick ends in a row (``RetryPolicyStatus.quick_end_count``, of the attempts
   before the current one), so a new controller continues the count. An attempt that lasts longer
   resets it to zero.
3. The first two quick ends in a row are retried at once. The retry after the third waits one
   second, and each further pause is twice as long, up to ``Settings.max_pause_seconds``.

Example: quick ends 1 to 6 are followed by pauses of 0, 0, 1, 2, 4 and 8 s.

The ends of attempts without a Pod, and of attempts that a user suspends or retries, are not quick
ends. The pause after refused creates is in ``draft``.

Rules: docs/design/failure-handling.md, "Pauses".
"""

from datetime import timedelta

from controller.core.policies.retry_policy import REQUESTED_RETRY_CODES
from controller.core.settings import Settings
from framework.api.types import (
    FrameworkAttemptStatus,
    FrameworkStatus,
    RetryPolicyStatus,
    TaskAttemptStatus,
    TaskStatus,
)

FREE_QUICK_ENDS = 3


def count_quick_ends(status: FrameworkStatus | TaskStatus, settings: Settings) -> int:
    """Count the quick ends in a row, up to the current attempt, which has ended.

    The count stops at the number that gives the longest pause.
    """
    before = status.retry_policy_status.quick_end_count
    attempt = status.attempt_status
    if settings.max_pause_seconds <= 0:
        return 0
    if attempt.instance_uid is None:
        return before
    if not _is_quick(attempt, settings):
        return 0
    if _is_requested(attempt):
        return before
    return min(before + 1, FREE_QUICK_ENDS + settings.max_pause_seconds.bit_length())


def compute_pause_seconds(quick_end_count: int, settings: Settings) -> int:
    """Compute the pause before the retry after this number of quick ends in a row."""
    if quick_end_count < FREE_QUICK_ENDS:
        return 0
    # Another client may have written a status with any number.
    doublings = min(quick_end_count - FREE_QUICK_ENDS, settings.max_pause_seconds.bit_length())
    return min(settings.max_pause_seconds, 1 << doublings)


def find_pause_seconds(status: FrameworkStatus | TaskStatus, settings: Settings) -> int:
    """Find the pause before the retry of the current attempt, which has ended; 0 for none."""
    attempt = status.attempt_status
    if attempt.instance_uid is None or _is_requested(attempt):
        return 0
    return compute_pause_seconds(count_quick_ends(status, settings), settings)


def build_next_retries(
    status: FrameworkStatus | TaskStatus, settings: Settings, *, is_accountable: bool
) -> RetryPolicyStatus:
    """Build the retry status of the next attempt: one more retry, and no delay."""
    old = status.retry_policy_status
    return RetryPolicyStatus(
        total_retried_count=old.total_retried_count + 1,
        accountable_retried_count=old.accountable_retried_count + int(is_accountable),
        quick_end_count=count_quick_ends(status, settings),
        extra=old.extra,
    )


def _is_requested(attempt: FrameworkAttemptStatus | TaskAttemptStatus) -> bool:
    completion = attempt.completion_status
    return completion is not None and completion.code in REQUESTED_RETRY_CODES


def _is_quick(attempt: FrameworkAttemptStatus | TaskAttemptStatus, settings: Settings) -> bool:
    if attempt.completion_time is None:
        return False
    lasted = attempt.completion_time - attempt.start_time
    # If the clock was set back, the duration is unknown.
    return timedelta(0) <= lasted <= timedelta(seconds=settings.quick_end_seconds)
