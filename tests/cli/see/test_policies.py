import pytest

from cli.see import policies
from framework.api.codec import decode_spec
from framework.api.types import (
    CompletionPolicySpec,
    DrainSpec,
    RetryPolicySpec,
    RetryPolicyStatus,
    TaskRoleSpec,
)
from tests.support.builders import build_framework_wire


@pytest.mark.parametrize(
    ("count", "fancy", "expected"),
    [
        (0, False, "none"),
        (3, False, "up to 3"),
        (-1, False, "after every failure"),
        (-2, False, "after every end"),
        (1, True, "up to 1; Transient failures always, Permanent ones never"),
    ],
)
def test_retry_policy_in_words(count: int, *, fancy: bool, expected: str) -> None:
    assert policies.describe_retries(RetryPolicySpec(fancy, count)) == expected


def test_retries_that_do_not_count_are_named() -> None:
    assert policies.describe_retried(RetryPolicyStatus(3, 3)) == "3 so far"
    assert policies.describe_retried(RetryPolicyStatus(3, 1)) == "3 so far, 2 of them not counted"


@pytest.mark.parametrize(
    ("failed", "succeeded", "expected"),
    [
        (1, -1, "1 failed Task ends it as failed"),
        (2, 1, "2 failed Tasks end it as failed; 1 succeeded Task ends it as succeeded"),
        (-1, 0, "the end of all Tasks ends it"),
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
    )
    assert policies.describe_role(role) == "complete with 5 of 7, 1 absent, drains for up to 90s"
    assert policies.describe_role(TaskRoleSpec("worker", 8)) == ""


def test_lifetime_fields_are_listed_when_they_are_set() -> None:
    wire = build_framework_wire(
        executionType="Stop", completedPodPolicy="Retain", suspend=True,
        activeDeadlineSeconds=3600, ttlSecondsAfterFinished=60,
    )["spec"]  # fmt: skip
    assert policies.list_lifetime(decode_spec(wire), wire) == [
        ("Execution", "it is stopped by its user (executionType Stop)"),
        ("Suspended", "yes: it has no Pods until spec.suspend is false"),
        ("Deadline", "fails after 60m (activeDeadlineSeconds)"),
        ("Removal", "60s after its end (ttlSecondsAfterFinished)"),
        ("Pods", "stay after their end (completedPodPolicy Retain)"),
    ]
    plain = build_framework_wire()["spec"]
    assert policies.list_lifetime(decode_spec(plain), plain) == []
