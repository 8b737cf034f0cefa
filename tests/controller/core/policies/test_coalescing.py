"""Which changes wait for others, and which are written at once.

docs/design/state-machines.md, "When a status is written".
"""

from dataclasses import replace
from typing import Any

from controller.core.actions import ObjectKind, Urgency
from controller.core.decide import decide
from controller.core.decision import Decision
from framework.api.completion import complete_succeeded_pod
from framework.api.states import TaskState
from framework.api.types import (
    CompletionPolicySpec,
    ExecutionType,
    FrameworkSpec,
    RetryPolicySpec,
    TaskRoleSpec,
    TaskSpec,
)
from tests.support.builders import (
    build_pod,
    build_pods,
    build_role,
    build_role_roster,
    build_role_status,
    build_roster,
    build_spec,
    build_status,
    build_task,
    build_unaddressed_task,
    end_task,
)
from tests.support.builders.cases import cases
from tests.support.builders.worlds import SETTINGS, build_published, build_snapshot

POLICY = "completion_policy"


def decide_on(*phases: str, spec: FrameworkSpec | None = None, **role: Any) -> Decision:
    """Decide on a gang of two that ran, when its Pods are in these phases."""
    spec = spec or build_spec(build_role(number=2, **role))
    status = build_status(build_role_status(number=2))
    snapshot = build_snapshot(spec, status, pods=build_pods(*phases), published=build_published())
    return decide(snapshot, SETTINGS)


def retried(count: int) -> TaskSpec:
    pod = build_role().task.pod
    return TaskSpec(retry_policy=RetryPolicySpec(max_retry_count=count), pod=pod)


def test_success_of_one_task_is_written_later_while_another_runs() -> None:
    decision = decide_on("Succeeded", "Running")
    assert decision.status is not None
    assert [action.urgency for action in decision.actions] == [Urgency.LATER]
    assert decision.urgency is Urgency.LATER


@cases(
    "phases fields",
    the_last_one_ended=(("Succeeded", "Succeeded"), {}),
    it_failed=(("Failed", "Running"), {}),
    it_is_retried=(("Succeeded", "Running"), {"task": retried(-2)}),
    it_ends_the_attempt=(
        ("Succeeded", "Running"),
        {POLICY: CompletionPolicySpec(min_succeeded_task_count=1)},
    ),
)
def test_other_ends_are_written_at_once(phases: tuple[str, ...], fields: dict[str, Any]) -> None:
    decision = decide_on(*phases, **fields)
    assert decision.urgency >= Urgency.NOW
    assert "Failed" not in phases or decision.publication is not None


def test_stop_is_written_at_once() -> None:
    spec = build_spec(build_role(number=2), execution_type=ExecutionType.STOP)
    assert decide_on("Succeeded", "Running", spec=spec).urgency >= Urgency.NOW


def test_success_that_completes_the_gang_is_written_at_once() -> None:
    old = build_role_roster(number=2)
    old = old._replace(members=old.members[1:])
    # Its Pod is gone: while it is there, no gang is complete without its success.
    succeeded = complete_succeeded_pod(build_pod(phase="Succeeded"))
    first = end_task(build_task(TaskState.ATTEMPT_DELETING), succeeded)
    waiting = build_task(TaskState.ATTEMPT_PREPARING, index=1)
    decision = decide(
        build_snapshot(
            build_spec(build_role(number=2)),
            build_status(build_role_status(tasks=(first, waiting))),
            pods=[build_pod(index=1, phase="Pending")],
            published=build_published(build_roster(old, complete=False)),
            live={(ObjectKind.POD, first.attempt_status.pod_name): ""},
        ),
        SETTINGS,
    )
    assert decision.publication is not None
    assert decision.publication.roster is not None
    assert decision.publication.roster.complete
    assert decision.urgency >= Urgency.NOW


def decide_on_first_roster(role: TaskRoleSpec) -> Decision:
    """Decide when the one Pod of a gang has its address and does not run yet."""
    status = build_status(build_role_status(tasks=(build_unaddressed_task(),)))
    snapshot = build_snapshot(build_spec(role), status, pods=build_pods("Pending"))
    return decide(snapshot, SETTINGS)


def test_address_is_written_with_what_follows_when_nothing_waits_in_the_pod() -> None:
    decision = decide_on_first_roster(build_role())
    assert decision.publication is not None
    assert decision.urgency is Urgency.LATER


def test_address_is_written_at_once_when_a_barrier_may_wait_in_the_pod() -> None:
    role = build_role()
    spec = {**role.task.pod["spec"], "initContainers": [{"name": "barrier", "image": "b"}]}
    role = replace(role, task=replace(role.task, pod={"spec": spec}))
    decision = decide_on_first_roster(role)
    assert decision.publication is not None
    assert decision.urgency >= Urgency.NOW


def test_running_gang_is_not_urgent() -> None:
    decision = decide_on("Running", "Running")
    assert decision.urgency is Urgency.SOON
