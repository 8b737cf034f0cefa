from typing import Any

import pytest

from framework.api import codec
from framework.api.avoiding import AvoidNodesSpec
from framework.api.leaving import LeaveNodesSpec
from framework.api.recovery import InPlaceSpec, RecoverySpec
from framework.api.types import (
    CompletionPolicySpec,
    DrainSpec,
    FrameworkSpec,
    RetryPolicySpec,
    TaskRoleSpec,
    TaskSpec,
)
from framework.api.validation import (
    check_role_count,
    check_task_count,
    find_duplicate_roles,
    validate_framework,
    validate_spec,
)
from tests.support.builders import (
    build_framework,
    build_framework_wire,
    build_role,
    build_role_wire,
    build_spec,
    build_template_wire,
)

ROLE = "spec.taskRoles[0]"


def faults(spec: FrameworkSpec) -> dict[str, str]:
    """The faults of a spec, path to message."""
    errors = validate_spec(spec)
    found = {error.path: error.message for error in errors}
    assert len(found) == len(errors)
    return found


def with_task(**fields: Any) -> TaskRoleSpec:
    return build_role(task=TaskSpec(**({"pod": build_template_wire()} | fields)))


def with_in_place(max_restarts: int, within_seconds: int) -> TaskRoleSpec:
    return build_role(recovery=RecoverySpec(InPlaceSpec(max_restarts, within_seconds)))


def with_leave_nodes(**fields: Any) -> TaskRoleSpec:
    return build_role(recovery=RecoverySpec(leave_nodes=LeaveNodesSpec(**fields)))


def with_avoid_nodes(**fields: Any) -> TaskRoleSpec:
    return build_role(recovery=RecoverySpec(avoid_nodes=AvoidNodesSpec(**fields)))


def with_metadata(metadata: object) -> TaskRoleSpec:
    return with_task(pod=build_template_wire() | {"metadata": metadata})


def with_policy(failed: int, succeeded: int) -> TaskRoleSpec:
    return build_role(completion_policy=CompletionPolicySpec(failed, succeeded))


@pytest.mark.parametrize(
    "role",
    [
        build_role("a" * 63),
        build_role(number=0),
        build_role(number=10_000),
        build_role(number=0, task=TaskSpec()),
        build_role(number=1, absent_task_indices=(0,), task=TaskSpec()),
        with_policy(-1, -1),
        with_policy(0, 20_000),
        with_task(retry_policy=RetryPolicySpec(max_retry_count=-2)),
        with_task(pod_graceful_deletion_timeout_seconds=0),
        with_metadata({"labels": {"a": "b"}}),
        with_metadata({"labels": None}),
        with_metadata(None),
        build_role(absent_task_indices=(0, 7)),
        build_role(min_member_count=0),
        build_role(min_member_count=99),
        build_role(drain=DrainSpec(0)),
        with_in_place(100, 1),
        with_in_place(1, 999_999_999),
        build_role(recovery=RecoverySpec()),
        with_leave_nodes(),
        with_leave_nodes(timeout_seconds=86_400, max_leaves=1000, within_seconds=999_999_999),
        with_avoid_nodes(),
        with_avoid_nodes(failures=1, within_seconds=1, max_nodes=1),
        with_avoid_nodes(failures=10, within_seconds=999_999_999, max_nodes=16),
    ],
)
def test_role_that_is_legal_has_no_fault(role: TaskRoleSpec) -> None:
    assert faults(build_spec(role)) == faults(FrameworkSpec()) == {}


def test_lifetime_may_be_zero_and_not_negative() -> None:
    for seconds in (None, 0, 2**62):
        spec = FrameworkSpec(active_deadline_seconds=seconds, ttl_seconds_after_finished=seconds)
        assert faults(spec) == {}
    spec = FrameworkSpec(active_deadline_seconds=-1, ttl_seconds_after_finished=-2)
    assert faults(spec) == {
        "spec.activeDeadlineSeconds": (
            "must be at least 0, not -1: seconds; leave it out for no deadline"
        ),
        "spec.ttlSecondsAfterFinished": (
            "must be at least 0, not -2: seconds; leave it out to keep the Framework as the "
            "controller is configured"
        ),
    }


POLICY = "frameworkAttemptCompletionPolicy"
TASK = "task.podGracefulDeletionTimeoutSec"
NO_CONTAINERS = "task.pod.spec.containers: is required: list at least one container"


@pytest.mark.parametrize(
    ("role", "fault"),
    [
        (build_role(""), "name: is required: name the role"),
        (
            build_role("Worker"),
            "name: 'Worker' is not a valid role name: use 1 to 63 characters of a-z",
        ),
        (
            build_role("a-b"),
            "name: 'a-b' is not a valid role name: use 1 to 63 characters of a-z and 0-9, ",
        ),
        (build_role("a" * 64), f"name: '{'a' * 64}' is not a valid role name"),
        (build_role(number=-1), "taskNumber: must be from 0 to 10000, not -1"),
        (build_role(number=10_001), "taskNumber: must be from 0 to 10000, not 10001"),
        (with_policy(-2, 0), f"{POLICY}.minFailedTaskCount: must be at least -1, not -2: a count"),
        (with_policy(0, -2), f"{POLICY}.minSucceededTaskCount: must be at least -1, not -2: a"),
        (
            with_task(retry_policy=RetryPolicySpec(max_retry_count=-3)),
            "task.retryPolicy.maxRetryCount: must be at least -2, not -3: a count, -1 to retry ev",
        ),
        (
            with_task(pod_graceful_deletion_timeout_seconds=-1),
            f"{TASK}: must be at least 0, not -1: seconds; leave it out to never delete by force",
        ),
        (
            build_role(absent_task_indices=(0, -1)),
            "absentTaskIndices[1]: must be at least 0, not -1: the index of a Task",
        ),
        (
            build_role(number=3, absent_task_indices=(2, 0, 2)),
            "absentTaskIndices[2]: 2 is listed twice: remove one",
        ),
        (
            build_role(min_member_count=-1),
            "minMemberCount: must be at least 0, not -1: a count of Tasks; leave it out to start",
        ),
        (
            build_role(drain=DrainSpec(-5)),
            "drain.timeoutSec: must be at least 0, not -5: seconds; leave drain out for no drain",
        ),
        (
            with_in_place(0, 60),
            (
                "recovery.inPlace.maxRestarts: is missing or 0: write the restarts that are "
                "allowed, for example 3; or leave inPlace out for none"
            ),
        ),
        (
            with_leave_nodes(timeout_seconds=-1),
            "recovery.leaveNodes.timeoutSeconds: must be from 0 to 86400, not -1: seconds to leave",
        ),
        (
            with_leave_nodes(max_leaves=1001),
            "recovery.leaveNodes.maxLeaves: must be from 1 to 1000, not 1001: a count",
        ),
        (
            with_leave_nodes(within_seconds=0),
            "recovery.leaveNodes.withinSeconds: must be from 1 to 999999999, not 0: the seconds in",
        ),
        (
            with_avoid_nodes(failures=0),
            "recovery.avoidNodes.failures: must be from 1 to 10, not 0: failures on a node; leave",
        ),
        (
            with_avoid_nodes(max_nodes=17),
            "recovery.avoidNodes.maxNodes: must be from 1 to 16, not 17: the nodes that a Task",
        ),
        (
            with_avoid_nodes(within_seconds=0),
            "recovery.avoidNodes.withinSeconds: must be from 1 to 999999999, not 0: the seconds in",
        ),
        (
            with_in_place(101, 60),
            "recovery.inPlace.maxRestarts: must be at most 100, not 101: use a lower count",
        ),
        (
            with_in_place(1, 0),
            (
                "recovery.inPlace.withinSeconds: is missing or 0: write the seconds in which "
                "maxRestarts are allowed, for example 3600"
            ),
        ),
        (
            with_in_place(-1, 60),
            "recovery.inPlace.maxRestarts: must be at least 1, not -1: a count of restarts; leave",
        ),
        (
            with_in_place(1, 1_000_000_000),
            "recovery.inPlace.withinSeconds: must be at most 999999999, not 1000000000: use fewer",
        ),
        (with_task(pod={}), NO_CONTAINERS),
        (with_task(pod={"spec": []}), NO_CONTAINERS),
        (with_task(pod={"spec": {"containers": []}}), NO_CONTAINERS),
        (with_task(pod={"spec": {"containers": {"name": "a"}}}), NO_CONTAINERS),
        (with_metadata("x"), "task.pod.metadata: must be an object, not string"),
        (
            with_metadata({"annotations": []}),
            "task.pod.metadata.annotations: must be an object, not array",
        ),
        (
            with_metadata({"labels": {"gpu": True}}),
            "task.pod.metadata.labels[gpu]: must be a string, not boolean: quote it",
        ),
    ],
)
def test_role_fault_has_path_and_remedy(role: TaskRoleSpec, fault: str) -> None:
    [error] = validate_spec(build_spec(role))
    assert str(error).startswith(f"{ROLE}.{fault}")


def test_spec_faults_of_all_places_come_together() -> None:
    spec = build_spec(
        build_role("a"),
        build_role("A", 10_001),
        build_role("a", drain=DrainSpec(-1)),
        retry_policy=RetryPolicySpec(max_retry_count=-9),
    )
    assert set(faults(spec)) == {
        "spec.retryPolicy.maxRetryCount",
        "spec.taskRoles[1].name",
        "spec.taskRoles[1].taskNumber",
        "spec.taskRoles[2].name",
        "spec.taskRoles[2].drain.timeoutSec",
    }


def test_roles_of_one_name_are_each_named_with_the_first() -> None:
    errors = find_duplicate_roles(build_spec(*(build_role(name) for name in "abaa")))
    assert [error.path for error in errors] == ["spec.taskRoles[2].name", "spec.taskRoles[3].name"]
    assert all("the name of taskRoles[0]: give each role its own" in e.message for e in errors)
    assert find_duplicate_roles(build_spec(build_role("a"), build_role("b"))) == ()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "is required: name the Framework"),
        (
            "My_Gang",
            "'My_Gang' is not a valid Framework name: use 1 to 63 characters of a-z, 0-9 and '-'",
        ),
        ("a.b", "is not a valid Framework name"),
        ("a" * 64, "is not a valid Framework name"),
    ],
)
def test_framework_name_fault_has_path_and_remedy(name: str, message: str) -> None:
    [error] = validate_framework(build_framework(name=name))
    assert error.path == "metadata.name"
    assert message in error.message


def test_framework_with_a_legal_or_generated_name_has_no_fault() -> None:
    for name in ("gang", "0", "my-gang", "a" * 63):
        assert validate_framework(build_framework(name=name)) == ()
    assert validate_framework(build_framework(name="", extra={"generateName": "gang-"})) == ()


def test_framework_wire_with_faults_of_name_and_spec_has_both() -> None:
    wire = build_framework_wire(build_role_wire("UP"), name="UP")
    errors = validate_framework(codec.decode_framework(wire))
    assert [error.path for error in errors] == ["metadata.name", "spec.taskRoles[0].name"]


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ((10_000,), None),
        ((5_000, 5_000), None),
        ((1,) * 256, None),
        ((5_001, 5_000), "has 10001 Tasks; at most 10000 Tasks are allowed in all roles together"),
        ((0,) * 257, "has 257 roles; at most 256 roles are allowed: give Tasks that are alike one"),
    ],
)
def test_roles_and_tasks_in_total_are_limited(counts: tuple[int, ...], message: str | None) -> None:
    roles = (build_role(f"a{index}", number) for index, number in enumerate(counts))
    found = faults(build_spec(*roles))
    if message is None:
        assert found == {}
    else:
        assert found["spec.taskRoles"].startswith(message)


def test_wanted_gaps_are_limited() -> None:
    found = faults(build_spec(build_role(absent_task_indices=tuple(range(10_001)))))
    assert found == {
        f"{ROLE}.absentTaskIndices": "lists 10001 indexes; at most 10000 are allowed: "
        "leave out those from taskNumber on"
    }


def test_limits_of_another_cluster_may_be_other_ones() -> None:
    spec = build_spec(build_role("a", 3), build_role("b", 3))
    assert (check_role_count(spec, 2), check_task_count(spec, 6)) == (None, None)
    assert "has 2 roles; at most 1 roles" in str(check_role_count(spec, 1))
    assert "has 6 Tasks; at most 5 Tasks" in str(check_task_count(spec, 5))
