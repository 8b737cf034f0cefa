from dataclasses import replace
from datetime import datetime

import pytest

from cli.see import policies
from framework.api.avoiding import AvoidNodesSpec
from framework.api.codec import decode_spec
from framework.api.leaving import LeaveNodesSpec
from framework.api.recovery import InPlaceSpec, RecoverySpec
from framework.api.states import FrameworkState
from framework.api.types import (
    CompletedPodPolicy,
    CompletionPolicySpec,
    Condition,
    DrainSpec,
    FrameworkSpec,
    RetryPolicySpec,
    RetryPolicyStatus,
    TaskRoleSpec,
    TaskSpec,
)
from framework.api.wire import format_time
from tests.support.builders import AT, at, build_framework_wire, build_status


@pytest.mark.parametrize(
    ("count", "fancy", "expected"),
    [
        (0, False, "none"),
        (3, False, "up to 3"),
        (-1, False, "after every failure"),
        (-2, False, "after every end"),
        (1, True, "up to 1; Transient failures always, Permanent ones never"),
        (0, True, "Transient failures always, others never"),
    ],
)
def test_retry_policy_in_words(count: int, *, fancy: bool, expected: str) -> None:
    assert policies.describe_retries(RetryPolicySpec(fancy, count)) == expected


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, "Transient failures always, others never"),
        (2, "up to 2; Transient failures always, Permanent ones never"),
    ],
)
def test_retries_of_a_role_name_its_retryable_exit_codes(count: int, expected: str) -> None:
    annotations = {"frameworkbarrier.io/retryable-exit-codes": "tensorflow=128-255"}
    task = TaskSpec(
        RetryPolicySpec(fancy_retry_policy=True, max_retry_count=count),
        pod={"metadata": {"annotations": annotations}},
    )
    assert policies.describe_task_retries(task) == (
        f"{expected}; exit codes 128-255 of tensorflow are Transient, its others Permanent"
    )
    plain = TaskSpec(RetryPolicySpec(fancy_retry_policy=True, max_retry_count=count))
    assert policies.describe_task_retries(plain) == expected


def test_retries_that_do_not_count_are_named() -> None:
    assert policies.describe_retried(RetryPolicyStatus(3, 3)) == "3 so far"
    assert policies.describe_retried(RetryPolicyStatus(3, 1)) == "3 so far, 2 of them not counted"


@pytest.mark.parametrize(
    ("failed", "succeeded", "expected"),
    [
        (1, -1, "1 failed Task ends it as failed"),
        (2, 1, "2 failed Tasks end it as failed; 1 succeeded Task ends it as succeeded"),
        (-1, 0, "only the end of all Tasks of all roles ends it"),
    ],
)
def test_completion_policy_in_words(failed: int, succeeded: int, expected: str) -> None:
    assert policies.describe_completion(CompletionPolicySpec(failed, succeeded)) == expected


def test_fields_that_change_what_a_gang_waits_for_are_named() -> None:
    role = TaskRoleSpec(
        "worker",
        8,
        absent_task_indices=(3,),
        min_member_count=5,
        drain=DrainSpec(90),
        recovery=RecoverySpec(InPlaceSpec(3, 3600), LeaveNodesSpec(120), AvoidNodesSpec()),
        completed_pod_policy=CompletedPodPolicy.DELETE,
    )
    assert policies.describe_role(role) == (
        "complete with 5 of 7, 1 absent, drains for up to 90s, "
        "up to 3 restarts in place in 60m, leaves nodes within 2m, "
        "avoids up to 3 nodes after 2 failures there in 24h, ended Pods are deleted"
    )
    assert policies.describe_role(TaskRoleSpec("worker", 8)) == ""
    once = TaskRoleSpec("worker", 8, recovery=RecoverySpec(InPlaceSpec(1, 3600)))
    assert policies.describe_role(once) == "up to 1 restart in place in 60m"


def test_lifetime_fields_are_listed_when_they_are_set() -> None:
    wire = build_framework_wire(
        executionType="Stop", completedPodPolicy="Retain", suspend=True,
        activeDeadlineSeconds=3600, ttlSecondsAfterFinished=60,
    )["spec"]  # fmt: skip
    assert policies.list_lifetime(decode_spec(wire), None, AT) == [
        ("Execution", "it is stopped by its user (executionType Stop)"),
        ("Suspended", "yes: it has no Pods until spec.suspend is false"),
        ("Deadline", "fails after 60m (activeDeadlineSeconds)"),
        ("Removal", "60s after its end (ttlSecondsAfterFinished)"),
        ("Pods", "stay after their end (completedPodPolicy Retain)"),
    ]
    plain = build_framework_wire()["spec"]
    assert policies.list_lifetime(decode_spec(plain), None, AT) == []


def test_suspended_framework_says_since_when() -> None:
    suspended = Condition("Suspended", "True", transition_time=AT)
    status = replace(build_status(), conditions=(suspended,))
    assert policies.list_lifetime(FrameworkSpec(suspend=True), status, at(300)) == [
        (
            "Suspended",
            f"yes, since {format_time(AT)} (5m ago): it has no Pods until spec.suspend is false",
        )
    ]


@pytest.mark.parametrize(("now", "left"), [(at(600), "in 50m"), (at(3700), "which has passed")])
def test_deadline_that_counts_says_when_it_ends_the_framework(now: datetime, left: str) -> None:
    spec = FrameworkSpec(active_deadline_seconds=3600, ttl_seconds_after_finished=60)
    status = replace(build_status(), active_start_time=AT)
    deadline, removal = policies.list_lifetime(spec, status, now)
    text = "fails after 60m (activeDeadlineSeconds)"
    assert deadline == ("Deadline", f"{text}, at {format_time(at(3600))}, {left}")
    assert removal == ("Removal", "60s after its end (ttlSecondsAfterFinished)")


def test_completed_framework_says_when_it_is_removed() -> None:
    spec = FrameworkSpec(active_deadline_seconds=3600, ttl_seconds_after_finished=60)
    status = replace(
        build_status(state=FrameworkState.COMPLETED), active_start_time=AT, transition_time=at(10)
    )
    deadline, removal = policies.list_lifetime(spec, status, at(30))
    assert deadline == ("Deadline", "fails after 60m (activeDeadlineSeconds)")
    text = "60s after its end (ttlSecondsAfterFinished)"
    assert removal == ("Removal", f"{text}, at {format_time(at(70))}, in 40s")


def test_time_span_beyond_the_last_year_has_no_moment() -> None:
    spec = FrameworkSpec(active_deadline_seconds=2**62)
    status = replace(build_status(), active_start_time=AT)
    ((_, text),) = policies.list_lifetime(spec, status, AT)
    assert text.endswith("(activeDeadlineSeconds)")
