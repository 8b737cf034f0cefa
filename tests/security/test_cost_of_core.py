"""The cost of each operation of the core grows with the Tasks, not faster."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import pytest

from controller.core.actions import CreatePod, ObjectKind
from controller.core.decide import decide
from controller.core.objects.object_templates import build_pod
from controller.core.snapshot import Snapshot
from framework.api import codec, constants
from framework.api.pods import parse_pod
from framework.api.roster import Leaving, Roster, decode_roster, encode_roster, fingerprint_uid
from framework.api.states import FrameworkState, TaskState
from framework.api.types import (
    ExecutionType,
    FrameworkSpec,
    FrameworkStatus,
    RetryPolicySpec,
    TaskSpec,
    TaskStatus,
)
from framework.api.validation import validate_spec
from tests.security.linearcost import (
    SETTINGS,
    Stage,
    assert_decision_is_linear,
    assert_linear,
    for_two_sizes,
)
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
from tests.support.measuring.cost import Operation

BAD_REQUEST, FORBIDDEN = 400, 403


# --- Decisions -----------------------------------------------------------------------------------


def pending(gang: LargeGang, pods: Any = None, **fields: Any) -> Snapshot:
    """The Pod of each Task is to be created."""
    return build_snapshot(gang.build_spec(), build_pending(gang), pods, **fields)


def build_pending(gang: LargeGang) -> FrameworkStatus:
    return gang.build_status(TaskState.ATTEMPT_CREATION_PENDING, FrameworkState.ATTEMPT_PREPARING)


def refused(gang: LargeGang, code: int, *, share: int = 1) -> Snapshot:
    """The create of each Pod was refused, or of every second one if ``share`` is 2."""
    failures = dict(list(build_failures(build_pending(gang), code).items())[::share])
    live = {} if code == FORBIDDEN else {(key.kind, key.name): "" for key in failures}
    return pending(gang, failures=failures, live=live)


def preparing(gang: LargeGang, state: TaskState, pods: Any = None) -> Snapshot:
    """The attempt waits for its Tasks, all in one state."""
    status = gang.build_status(state, FrameworkState.ATTEMPT_PREPARING)
    return build_snapshot(gang.build_spec(), status, pods)


def build_running(gang: LargeGang) -> FrameworkStatus:
    return gang.build_status(TaskState.ATTEMPT_RUNNING)


def running(gang: LargeGang, spec: FrameworkSpec | None = None, phase: str = "Running") -> Snapshot:
    """All Tasks run with a complete roster; ``phase`` is that of their Pods now."""
    pods, published = gang.build_pods(phase), gang.build_published()
    return build_snapshot(spec or gang.build_spec(), build_running(gang), pods, published=published)


def failed(gang: LargeGang) -> Snapshot:
    pods = gang.build_pods("Failed", message="x" * 200)
    return build_snapshot(gang.build_spec(), build_running(gang), pods)


def lost(gang: LargeGang) -> Snapshot:
    """Every Pod was deleted by others."""
    live = {(ObjectKind.POD, name): "" for name in gang.build_pods()}
    return build_snapshot(gang.build_spec(), build_running(gang), live=live)


def attempt_lost(gang: LargeGang) -> Snapshot:
    """The ConfigMap was deleted by others, and with it every Pod."""
    status = build_running(gang)
    live = {(ObjectKind.CONFIGMAP, status.attempt_status.configmap_name): ""}
    return build_snapshot(gang.build_spec(), status, configmap=None, live=live)


def unowned(gang: LargeGang) -> Snapshot:
    """The attempt has Pods that belong to no Task."""
    status = change_tasks(build_pending(gang), lambda task: replace(task, instance_uid="another"))
    return build_snapshot(gang.build_spec(), status, gang.build_pods())


def scaled_away(gang: LargeGang, spec: FrameworkSpec) -> Snapshot:
    """All Tasks are marked as scaled down; the spec wants other ones."""
    return build_snapshot(spec, change_tasks(gang.build_status(TaskState.COMPLETED), mark_gone))


def draining(gang: LargeGang, deadline: float) -> Snapshot:
    """Half of the Tasks leave, each since another generation; no agent has acknowledged."""

    def mark_leaving(task: TaskStatus) -> TaskStatus:
        if task.index < gang.half.share:
            return task
        return replace(mark_gone(task), drain_deadline_time=at(deadline))

    status = change_tasks(build_running(gang), mark_leaving)
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


# Every second Task of a role, and as many as a spec can list beyond the last one.
GAPS = tuple(range(0, 100_000, 2))


def absent(gang: LargeGang, status: FrameworkStatus | None) -> Snapshot:
    spec = gang.build_spec(absent_task_indices=GAPS)
    return build_snapshot(spec, status, gang.build_pods() if status else None)


def absent_for_long(gang: LargeGang) -> Snapshot:
    return absent(
        gang,
        change_tasks(build_running(gang), lambda task: task if task.index % 2 else mark_gone(task)),
    )


def returning(gang: LargeGang) -> Snapshot:
    """Most Tasks that were absent are wanted again."""
    return scaled_away(gang, gang.build_spec(absent_task_indices=tuple(range(gang.share // 10))))


def returning_beside_others(gang: LargeGang) -> Snapshot:
    """All absent Tasks are wanted again; the spec lists many indexes that do not exist."""
    beyond = tuple(range(gang.share, gang.share + 50_000))
    return scaled_away(gang, gang.build_spec(absent_task_indices=beyond))


def stopped(gang: LargeGang) -> Snapshot:
    spec = replace(gang.build_spec(), execution_type=ExecutionType.STOP)
    return build_snapshot(spec, build_running(gang), gang.build_pods())


def tasks_retried(gang: LargeGang) -> Snapshot:
    task = TaskSpec(RetryPolicySpec(max_retry_count=-2), pod=build_template_wire())
    status = gang.build_status(TaskState.ATTEMPT_COMPLETED)
    ended = change_tasks(status, lambda task: end_task(task, -100))
    return build_snapshot(gang.build_spec(task=task), ended)


def ended(gang: LargeGang, state: FrameworkState, **spec: Any) -> Snapshot:
    """All Tasks are Completed, and the attempt has ended."""
    status = end_attempt(gang.build_ended(TaskState.COMPLETED, state), -100)
    return build_snapshot(replace(gang.build_spec(), **spec), status, configmap=None)


def framework_retried(gang: LargeGang) -> Snapshot:
    policy = RetryPolicySpec(max_retry_count=-2)
    return ended(gang, FrameworkState.ATTEMPT_COMPLETED, retry_policy=policy)


STAGES: dict[str, Stage] = {
    "new": lambda gang: build_snapshot(gang.build_spec(), None),
    "creating": pending,
    "quota_exceeded": lambda gang: refused(gang, FORBIDDEN),
    "all_refused": lambda gang: refused(gang, BAD_REQUEST),
    "half_refused": lambda gang: refused(gang, BAD_REQUEST, share=2),
    "adopting": lambda gang: pending(gang, gang.build_pods("Pending")),
    "starting": lambda gang: preparing(gang, TaskState.ATTEMPT_PREPARING, gang.build_pods()),
    "missing": lambda gang: preparing(gang, TaskState.ATTEMPT_CREATION_REQUESTED),
    "running": running,
    "succeeded": lambda gang: running(gang, phase="Succeeded"),
    "failed": failed,
    "lost": lost,
    "attempt_lost": attempt_lost,
    "unowned": unowned,
    "rescaled_up": lambda gang: build_snapshot(
        gang.build_spec(), build_running(gang.half), gang.half.build_pods()
    ),
    "rescaled_down": lambda gang: running(gang, gang.half.build_spec()),
    "scaled_away": lambda gang: scaled_away(gang, gang.half.build_spec()),
    "draining": lambda gang: draining(gang, deadline=7200),
    "drained_too_late": lambda gang: draining(gang, deadline=60),
    "absent": lambda gang: absent(gang, None),
    "made_absent": lambda gang: absent(gang, build_running(gang)),
    "absent_for_long": absent_for_long,
    "returning": returning,
    "returning_beside_others": returning_beside_others,
    "stopped": stopped,
    "tasks_retried": tasks_retried,
    "framework_retried": framework_retried,
    "completed": lambda gang: ended(gang, FrameworkState.COMPLETED),
}


@pytest.mark.parametrize(
    ("name", "roles"),
    [
        *((name, 2) for name in STAGES),
        *((name, 250) for name in ("new", "running", "failed", "unowned")),
    ],
)
@for_two_sizes
def test_decision_costs_no_more_than_its_tasks(
    small: int, large: int, name: str, roles: int
) -> None:
    assert_decision_is_linear(small, large, STAGES[name], roles)


# --- Codecs and builders --------------------------------------------------------------------------


@lru_cache(maxsize=2)
def build_failed_status(size: int) -> FrameworkStatus:
    decision = decide(failed(LargeGang(size, 2)), SETTINGS)
    assert decision.status is not None
    return decision.status


def build_status_wire(size: int) -> Any:
    return codec.encode_status(build_failed_status(size))


def build_spec_wire(size: int) -> Any:
    gang = LargeGang(size, 250)
    return codec.encode_spec(gang.build_spec(absent_task_indices=tuple(range(gang.share * 2))))


def build_large_roster(size: int) -> Roster:
    roster = LargeGang(size, 2).build_published().roster
    assert roster is not None
    return roster


def render_pods(size: int) -> Operation:
    decision = decide(pending(LargeGang(size, 2)), SETTINGS)
    creates = [action for action in decision.actions if isinstance(action, CreatePod)]
    assert len(creates) == size
    return lambda: [build_pod(action.framework, action.task) for action in creates]


def parse_pods(size: int) -> Operation:
    wires = [build_pod_wire("worker", index) for index in range(size)]
    return lambda: [parse_pod(wire) for wire in wires]


OPERATIONS: dict[str, Callable[[int], Operation]] = {
    "encode_status": lambda size: partial(codec.encode_status, build_failed_status(size)),
    "compress_status": lambda size: partial(codec.compress_status, build_status_wire(size), 1),
    "decode_status": lambda size: partial(codec.decode_status, build_status_wire(size)),
    "decompress_status": lambda size: partial(
        codec.decode_status, codec.compress_status(build_status_wire(size), 1)
    ),
    "decode_spec": lambda size: partial(codec.decode_spec, build_spec_wire(size)),
    "validate_spec": lambda size: partial(validate_spec, codec.decode_spec(build_spec_wire(size))),
    "render_pods": render_pods,
    "parse_pods": parse_pods,
    "encode_roster": lambda size: partial(encode_roster, build_large_roster(size)),
    "decode_roster": lambda size: partial(decode_roster, encode_roster(build_large_roster(size))),
}


@pytest.mark.parametrize("name", OPERATIONS)
@for_two_sizes
def test_operation_costs_no_more_than_its_tasks(small: int, large: int, name: str) -> None:
    assert_linear(small, large, OPERATIONS[name])
