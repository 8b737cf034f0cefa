"""The pause before the retry of an attempt that ends at once, again and again."""

from dataclasses import replace
from datetime import timedelta

from controller.core.policies import retry_backoff
from controller.core.settings import Settings
from framework.api.completion import RETRY_TASK_REQUESTED
from framework.api.types import RetryPolicyStatus, TaskStatus
from tests.support.builders import (
    at,
    build_status,
    build_task,
    build_task_attempt,
    end_attempt,
    end_task,
)
from tests.support.builders.cases import cases

SETTINGS = Settings()
OFF = Settings(max_pause_seconds=0)


def build_ended(seconds: float, before: int, *, has_pod: bool = True) -> TaskStatus:
    """A Task whose attempt ended after so many seconds, after so many quick ends in a row."""
    uid = "0_uid" if has_pod else None
    attempt = build_task_attempt(
        start_time=at(0), completion_time=at(seconds), instance_uid=uid, pod_uid=uid
    )
    retries = RetryPolicyStatus(9, 9, quick_end_count=before)
    return replace(build_task(), attempt_status=attempt, retry_policy_status=retries)


def test_pauses_begin_after_the_third_quick_end_and_double_to_the_greatest() -> None:
    pauses = []
    count = 0
    for _ in range(16):
        task = build_ended(1, count)
        pauses.append(retry_backoff.find_pause_seconds(task, SETTINGS))
        count = retry_backoff.build_next_retries(
            task, SETTINGS, is_accountable=True
        ).quick_end_count
    assert pauses == [0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, *[300] * 5]


@cases(
    "seconds before expected",
    the_first=(0, 0, 1),
    one_more=(10, 2, 3),
    a_longer_one_begins_anew=(11, 9, 0),
    a_clock_that_was_set_back_says_nothing=(-5, 9, 0),
)
def test_quick_ends_are_counted_in_a_row(seconds: float, before: int, expected: int) -> None:
    assert retry_backoff.count_quick_ends(build_ended(seconds, before), SETTINGS) == expected


def test_count_is_bounded_so_that_the_status_of_a_task_at_rest_does_not_change() -> None:
    count = 0
    for _ in range(100):
        count = retry_backoff.count_quick_ends(build_ended(1, count), SETTINGS)
    assert count == retry_backoff.count_quick_ends(build_ended(1, count), SETTINGS) < 20


def test_suspended_attempt_changes_no_count_and_is_retried_without_a_pause() -> None:
    before = RetryPolicyStatus(9, 9, quick_end_count=7)
    times = {"start_time": at(0), "completion_time": at(1)}
    status = end_attempt(build_status(retry_policy_status=before), -250, **times)
    assert retry_backoff.find_pause_seconds(status, SETTINGS) == 0
    retries = retry_backoff.build_next_retries(status, SETTINGS, is_accountable=False)
    assert retries == RetryPolicyStatus(10, 9, quick_end_count=7)
    # Any other end within a second pauses.
    failed = end_attempt(build_status(retry_policy_status=before), -101, **times)
    assert retry_backoff.find_pause_seconds(failed, SETTINGS) > 0


@cases(
    "seconds expected",
    quick_ends_before_it_still_count=(1, 7),
    a_longer_one_begins_anew=(11, 0),
)
def test_retry_that_a_user_requests_is_no_quick_end_and_has_no_pause(
    seconds: float, expected: int
) -> None:
    task = end_task(build_ended(seconds, 7), RETRY_TASK_REQUESTED)
    assert retry_backoff.find_pause_seconds(task, SETTINGS) == 0
    assert retry_backoff.count_quick_ends(task, SETTINGS) == expected


def test_refused_creations_have_a_pause_of_their_own_and_do_not_count() -> None:
    task = build_ended(0, 7, has_pod=False)
    assert retry_backoff.find_pause_seconds(task, SETTINGS) == 0
    assert retry_backoff.count_quick_ends(task, SETTINGS) == 7


def test_switched_off_nothing_is_counted_and_nothing_waits() -> None:
    task = build_ended(0, 7)
    assert retry_backoff.find_pause_seconds(task, OFF) == 0
    assert retry_backoff.count_quick_ends(task, OFF) == 0


def test_next_retries_keep_what_a_later_release_wrote() -> None:
    task = build_ended(0, 0)
    extra = {"later": timedelta(1)}
    retries = replace(task.retry_policy_status, extra=extra, retry_delay_seconds=4)
    task = replace(task, retry_policy_status=retries)
    following = retry_backoff.build_next_retries(task, SETTINGS, is_accountable=False)
    assert following == RetryPolicyStatus(10, 9, None, 1, extra)
