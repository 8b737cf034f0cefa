"""No operation of the core costs more than its Tasks: row 5 of issue 10, and what is like it.

CPU time of this process, best of two: 10,000 Tasks cost less than a second, and not much more
than four times what 2,500 cost (sixteen times would be quadratic).
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from controller.core.actions import CreatePod, ObjectKind
from controller.core.decide import decide
from controller.core.objects.object_templates import build_pod
from controller.core.settings import Settings
from controller.core.snapshot import Snapshot
from framework.api import codec, constants
from framework.api.pods import parse_pod
from framework.api.roster import Leaving, decode_roster, encode_roster, fingerprint_uid
from framework.api.states import FrameworkState, TaskState
from framework.api.types import ExecutionType, RetryPolicySpec, TaskSpec, TaskStatus
from framework.api.validation import validate_spec
from tests.support.builders import (
    at,
    build_pod_wire,
    build_template_wire,
    end_attempt,
    end_task,
    pod_uid,
)
from tests.support.builders.largegangs import (
    LargeGang,
    build_failures,
    build_snapshot,
    change_tasks,
    mark_gone,
)
from tests.support.measuring.cost import Operation, assert_costs_at_most, assert_grows_at_most

SMALL, LARGE = 1_000, 4_000
# 1 s for the 10,000 Tasks that there may be.
LIMIT_SECONDS = 0.4
# Between linear, 4, and quadratic, 16.
MAX_FACTOR = 9.0
BAD_REQUEST, FORBIDDEN = 400, 403
SETTINGS = Settings()
S, T = FrameworkState, TaskState

Stage = Callable[[LargeGang], Snapshot]


def assert_linear(prepare: Callable[[int], Operation]) -> None:
    large = prepare(LARGE)
    assert_costs_at_most(LIMIT_SECONDS, large)
    assert_grows_at_most(MAX_FACTOR, prepare(SMALL), large)


# --- Decisions -----------------------------------------------------------------------------------


def first_sight(gang: LargeGang) -> Snapshot:
    return build_snapshot(gang.build_spec(), None)


def creating(gang: LargeGang) -> Snapshot:
    status = gang.build_status(T.ATTEMPT_CREATION_PENDING, S.ATTEMPT_PREPARING)
    return build_snapshot(gang.build_spec(), status)


def quota_exceeded(gang: LargeGang) -> Snapshot:
    status = gang.build_status(T.ATTEMPT_CREATION_PENDING, S.ATTEMPT_PREPARING)
    return build_snapshot(gang.build_spec(), status, failures=build_failures(status, FORBIDDEN))


def all_refused(gang: LargeGang) -> Snapshot:
    status = gang.build_status(T.ATTEMPT_CREATION_PENDING, S.ATTEMPT_PREPARING)
    failures = build_failures(status, BAD_REQUEST)
    live = {(key.kind, key.name): "" for key in failures}
    return build_snapshot(gang.build_spec(), status, failures=failures, live=live)


def half_refused(gang: LargeGang) -> Snapshot:
    """The other half waits until the refused Tasks have ended."""
    status = gang.build_status(T.ATTEMPT_CREATION_PENDING, S.ATTEMPT_PREPARING)
    failures = dict(list(build_failures(status, BAD_REQUEST).items())[::2])
    live = {(key.kind, key.name): "" for key in failures}
    return build_snapshot(gang.build_spec(), status, failures=failures, live=live)


def adopting(gang: LargeGang) -> Snapshot:
    status = gang.build_status(T.ATTEMPT_CREATION_PENDING, S.ATTEMPT_PREPARING)
    return build_snapshot(gang.build_spec(), status, gang.build_pods("Pending"))


def starting(gang: LargeGang) -> Snapshot:
    status = gang.build_status(T.ATTEMPT_PREPARING, S.ATTEMPT_PREPARING)
    return build_snapshot(gang.build_spec(), status, gang.build_pods())


def missing(gang: LargeGang) -> Snapshot:
    """All Pods wait; the progress is looked at."""
    status = gang.build_status(T.ATTEMPT_CREATION_REQUESTED, S.ATTEMPT_PREPARING)
    return build_snapshot(gang.build_spec(), status)


def running(gang: LargeGang) -> Snapshot:
    status = gang.build_status(T.ATTEMPT_RUNNING)
    published = gang.build_published()
    return build_snapshot(gang.build_spec(), status, gang.build_pods(), published=published)


def succeeded(gang: LargeGang) -> Snapshot:
    status = gang.build_status(T.ATTEMPT_RUNNING)
    pods, published = gang.build_pods("Succeeded"), gang.build_published()
    return build_snapshot(gang.build_spec(), status, pods, published=published)


def failed(gang: LargeGang) -> Snapshot:
    pods = gang.build_pods("Failed", message="x" * 200)
    return build_snapshot(gang.build_spec(), gang.build_status(T.ATTEMPT_RUNNING), pods)


def lost(gang: LargeGang) -> Snapshot:
    """Others deleted every Pod."""
    live = {(ObjectKind.POD, name): "" for name in gang.build_pods()}
    return build_snapshot(gang.build_spec(), gang.build_status(T.ATTEMPT_RUNNING), live=live)


def attempt_lost(gang: LargeGang) -> Snapshot:
    """Others deleted the ConfigMap, and with it every Pod."""
    status = gang.build_status(T.ATTEMPT_RUNNING)
    live = {(ObjectKind.CONFIGMAP, status.attempt_status.configmap_name): ""}
    return build_snapshot(gang.build_spec(), status, configmap=None, live=live)


def unclaimed(gang: LargeGang) -> Snapshot:
    """The attempt has Pods that no Task claims."""
    status = change_tasks(
        gang.build_status(T.ATTEMPT_CREATION_PENDING, S.ATTEMPT_PREPARING),
        lambda task: replace(task, instance_uid="another"),
    )
    return build_snapshot(gang.build_spec(), status, gang.build_pods())


def rescaled_up(gang: LargeGang) -> Snapshot:
    status = gang.half.build_status(T.ATTEMPT_RUNNING)
    return build_snapshot(gang.build_spec(), status, gang.half.build_pods())


def rescaled_down(gang: LargeGang) -> Snapshot:
    status, published = gang.build_status(T.ATTEMPT_RUNNING), gang.build_published()
    spec = gang.half.build_spec()
    return build_snapshot(spec, status, gang.build_pods(), published=published)


def scaled_away(gang: LargeGang) -> Snapshot:
    status = change_tasks(gang.build_status(T.COMPLETED), mark_gone)
    return build_snapshot(gang.half.build_spec(), status)


def draining(gang: LargeGang, deadline: float = 7200) -> Snapshot:
    """Half of the Tasks leave, each since another generation; no agent has taken note."""

    def mark_leaving(task: TaskStatus) -> TaskStatus:
        if task.index < gang.half.share:
            return task
        return replace(mark_gone(task), drain_deadline_time=at(deadline))

    status = change_tasks(gang.build_status(T.ATTEMPT_RUNNING), mark_leaving)
    leaving = [
        Leaving(name, index, fingerprint_uid(pod_uid(name, index)), 2 + index, "")
        for name in gang.names
        for index in range(gang.half.share, gang.share)
    ]
    note = {constants.ACKNOWLEDGED_GENERATION_ANNOTATION: "1"}
    pods = {
        name: replace(pod, annotations={**pod.annotations, **note})
        for name, pod in gang.build_pods().items()
    }
    published = gang.build_published(leaving=leaving, generation=gang.size)
    return build_snapshot(gang.half.build_spec(), status, pods, published=published)


def drained_too_late(gang: LargeGang) -> Snapshot:
    return draining(gang, deadline=60)


def list_gaps(gang: LargeGang) -> tuple[int, ...]:
    """Every second Task of a role, and as many as anybody can list beyond the last one."""
    return tuple(range(0, 100_000, 2))


def absent(gang: LargeGang) -> Snapshot:
    return build_snapshot(gang.build_spec(absent_task_indices=list_gaps(gang)), None)


def made_absent(gang: LargeGang) -> Snapshot:
    spec = gang.build_spec(absent_task_indices=list_gaps(gang))
    return build_snapshot(spec, gang.build_status(T.ATTEMPT_RUNNING), gang.build_pods())


def absent_for_long(gang: LargeGang) -> Snapshot:
    status = gang.build_status(T.ATTEMPT_RUNNING)
    status = change_tasks(status, lambda task: mark_gone(task) if task.index % 2 == 0 else task)
    spec = gang.build_spec(absent_task_indices=list_gaps(gang))
    return build_snapshot(spec, status, gang.build_pods())


def returning(gang: LargeGang) -> Snapshot:
    """All but a few of the wanted gaps are wanted again."""
    status = change_tasks(gang.build_status(T.COMPLETED), mark_gone)
    spec = gang.build_spec(absent_task_indices=tuple(range(gang.share // 10)))
    return build_snapshot(spec, status)


def stopped(gang: LargeGang) -> Snapshot:
    spec = replace(gang.build_spec(), execution_type=ExecutionType.STOP)
    return build_snapshot(spec, gang.build_status(T.ATTEMPT_RUNNING), gang.build_pods())


def tasks_retried(gang: LargeGang) -> Snapshot:
    task = TaskSpec(RetryPolicySpec(max_retry_count=-2), pod=build_template_wire())
    status = change_tasks(
        gang.build_status(T.ATTEMPT_COMPLETED),
        lambda task: end_task(task, -100),
    )
    return build_snapshot(gang.build_spec(task=task), status)


def framework_retried(gang: LargeGang) -> Snapshot:
    status = end_attempt(gang.build_ended(T.COMPLETED, S.ATTEMPT_COMPLETED), -100)
    spec = replace(gang.build_spec(), retry_policy=RetryPolicySpec(max_retry_count=-2))
    return build_snapshot(spec, status, configmap=None)


def completed(gang: LargeGang) -> Snapshot:
    status = end_attempt(gang.build_ended(T.COMPLETED, S.COMPLETED), -100)
    return build_snapshot(gang.build_spec(), status, configmap=None)


STAGES: list[Stage] = [
    first_sight, creating, quota_exceeded, all_refused, half_refused, adopting, starting, missing,
    running, succeeded, failed, lost, attempt_lost, unclaimed, rescaled_up, rescaled_down,
    scaled_away, draining, drained_too_late, absent, made_absent, absent_for_long, returning,
    stopped, tasks_retried, framework_retried, completed,
]  # fmt: skip


def name_stage(stage: Stage) -> str:
    return stage.__name__


@pytest.mark.parametrize("stage", STAGES, ids=name_stage)
def test_decision_on_two_large_roles_costs_no_more_than_its_tasks(stage: Stage) -> None:
    assert_linear(lambda size: partial(decide, stage(LargeGang(size, 2)), SETTINGS))


@pytest.mark.parametrize("stage", [first_sight, running, failed, unclaimed], ids=name_stage)
def test_decision_on_as_many_roles_as_there_may_be_costs_no_more_than_its_tasks(
    stage: Stage,
) -> None:
    assert_linear(lambda size: partial(decide, stage(LargeGang(size, 250)), SETTINGS))


# --- What is written and read --------------------------------------------------------------------


def failed_status(size: int) -> Any:
    decision = decide(failed(LargeGang(size, 2)), SETTINGS)
    assert decision.status is not None
    return decision.status


def encode_status(size: int) -> Operation:
    status = failed_status(size)
    return lambda: codec.encode_status(status)


def compress_status(size: int) -> Operation:
    wire = codec.encode_status(failed_status(size))
    return lambda: codec.compress_status(wire, 1)


def decode_status(size: int) -> Operation:
    wire = codec.encode_status(failed_status(size))
    return lambda: codec.decode_status(wire)


def decompress_status(size: int) -> Operation:
    wire = codec.compress_status(codec.encode_status(failed_status(size)), 1)
    return lambda: codec.decode_status(wire)


def build_spec_wire(size: int) -> Any:
    gang = LargeGang(size, 250)
    return codec.encode_spec(gang.build_spec(absent_task_indices=tuple(range(gang.share * 2))))


def decode_spec(size: int) -> Operation:
    wire = build_spec_wire(size)
    return lambda: codec.decode_spec(wire)


def check_spec(size: int) -> Operation:
    spec = codec.decode_spec(build_spec_wire(size))
    return lambda: validate_spec(spec)


def render_pods(size: int) -> Operation:
    decision = decide(creating(LargeGang(size, 2)), SETTINGS)
    creates = [action for action in decision.actions if isinstance(action, CreatePod)]
    assert len(creates) == size
    return lambda: [build_pod(action.framework, action.task) for action in creates]


def parse_pods(size: int) -> Operation:
    wires = [build_pod_wire("worker", index) for index in range(size)]
    return lambda: [parse_pod(wire) for wire in wires]


def encode_a_roster(size: int) -> Operation:
    roster = LargeGang(size, 2).build_published().roster
    assert roster is not None
    return lambda: encode_roster(roster)


def decode_a_roster(size: int) -> Operation:
    roster = LargeGang(size, 2).build_published().roster
    assert roster is not None
    stored = encode_roster(roster)
    return lambda: decode_roster(stored)


OPERATIONS = [
    encode_status, compress_status, decode_status, decompress_status, decode_spec, check_spec,
    render_pods, parse_pods, encode_a_roster, decode_a_roster,
]  # fmt: skip


@pytest.mark.parametrize("prepare", OPERATIONS, ids=lambda prepare: prepare.__name__)
def test_operation_costs_no_more_than_its_tasks(prepare: Callable[[int], Operation]) -> None:
    assert_linear(prepare)
