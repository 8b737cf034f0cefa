"""When a change has taken effect, and when it never will."""

from dataclasses import replace
from typing import Any

import pytest

from cli.exitcodes import CliError, ExitCode
from cli.steer.changes import Gang
from cli.steer.conditions import parse_wanted
from cli.steer.effects import Deleted, Goal, Retried, Scaled, Stopped, Verdict
from framework.api.completion import (
    DELETE_TASK_REQUESTED,
    POD_LEFT_RUNNING,
    STOP_FRAMEWORK_REQUESTED,
)
from framework.api.naming import TaskKey
from framework.api.states import FrameworkState, TaskState
from framework.api.types import Condition, ExecutionType, FrameworkStatus, TaskStatus
from tests.cli.steer.gangs import build_gang, build_gang_of
from tests.support.builders import (
    FRAMEWORK_UID,
    build_role,
    build_role_status,
    build_spec,
    build_status,
    build_task,
    build_task_attempt,
    end_attempt,
    end_task,
    pod_uid,
)

_T = TaskState
STOPPED = end_attempt(build_status(state=FrameworkState.COMPLETED), STOP_FRAMEWORK_REQUESTED)
BLOCKED = Condition("Blocked", "True", reason="CreationRefused", message="quota")
SCALED = Scaled("gang", FRAMEWORK_UID, 1, ("worker",))
RETRIED = Retried("gang", FRAMEWORK_UID, {TaskKey("worker", 0): 0})
GOALS: list[Goal] = [
    Stopped("gang", FRAMEWORK_UID),
    SCALED,
    RETRIED,
    Deleted("gang", FRAMEWORK_UID),
]
GOALS.append(parse_wanted("condition=Succeeded").build_goal("gang", FRAMEWORK_UID))


def build(*tasks: TaskStatus, number: int = 2, **status: Any) -> Gang:
    spec = build_spec(build_role("worker", number))
    built = build_status(build_role_status(tasks=tasks), **{"observed_generation": 1, **status})
    return build_gang(spec, built)


def build_leaving(index: int, state: TaskState) -> TaskStatus:
    return replace(
        end_task(build_task(state, index=index), DELETE_TASK_REQUESTED), deletion_pending=True
    )


@pytest.mark.parametrize("gang", [None, build_gang(uid="another")], ids=["deleted", "replaced"])
@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: type(goal).__name__)
def test_deletion_ends_every_wait(goal: Goal, gang: Gang | None) -> None:
    verdict = goal.judge(gang)
    assert verdict.is_final
    assert verdict.is_reached == isinstance(goal, Deleted | Stopped)


def test_stopped_framework_is_waited_for_until_its_pods_are_gone() -> None:
    goal = Stopped("gang", FRAMEWORK_UID)
    tasks = build_task(_T.ATTEMPT_DELETING), build_task(_T.COMPLETED, index=1)
    verdict = goal.judge(build(*tasks, state=FrameworkState.ATTEMPT_DELETION_PENDING))
    assert (verdict.is_final, verdict.text) == (False, "waits for 1 Pods: worker/0")
    assert goal.judge(build_gang(None, STOPPED)).is_reached


@pytest.mark.parametrize(
    ("live", "verdict"),
    [
        (None, Verdict(text="waits for the Pods that were left running", needs_pods=True)),
        ({0, 1, 2}, Verdict(text="waits for 2 Pods that were left running: worker/0, worker/2")),
        ({1, 2}, Verdict(text="waits for 1 Pods that were left running: worker/2")),
        ({1}, Verdict(is_reached=True, text="the Pods that were left running have ended")),
    ],
    ids=["unknown", "all", "some", "none"],
)
def test_pods_left_running_are_waited_for_until_they_have_ended(
    live: set[int] | None, verdict: Verdict
) -> None:
    codes = (POD_LEFT_RUNNING, STOP_FRAMEWORK_REQUESTED, POD_LEFT_RUNNING)
    tasks = [end_task(build_task(_T.COMPLETED, index=i), code) for i, code in enumerate(codes)]
    uids = None if live is None else frozenset(pod_uid("worker", index) for index in live)
    gang = build(*tasks, number=3, state=FrameworkState.COMPLETED)
    assert Stopped("gang", FRAMEWORK_UID).judge(replace(gang, live_pod_uids=uids)) == verdict


@pytest.mark.parametrize(
    ("gang", "is_reached", "text"),
    [
        (build(build_task(), build_task(index=1)), True, "worker: 2"),
        (build(build_task(), build_task(_T.COMPLETED, index=1)), True, "worker: 2"),
        (build(build_task(), build_task(_T.ATTEMPT_PREPARING, index=1)), False, "1 of 2 Tasks run"),
        (build(build_task()), False, "1 of 2 Tasks run"),
        (
            build(build_task(), build_leaving(1, _T.ATTEMPT_DELETING), number=1),
            False,
            "worker/1 leaving",
        ),
        (build(build_task(), build_leaving(1, _T.COMPLETED), number=1), True, "worker: 1"),
        (build(build_task(), observed_generation=0, number=1), False, "not seen the change"),
        (build_gang(None, None), False, "not seen the change"),
        (build(build_task(), conditions=(BLOCKED,)), False, "blocked: CreationRefused: quota"),
    ],
)
def test_scaled_role_is_waited_for_until_it_has_its_size(
    gang: Gang,
    *,
    is_reached: bool,
    text: str,
) -> None:
    verdict = SCALED.judge(gang)
    assert verdict.is_reached is is_reached
    assert not verdict.failure
    assert text in verdict.text


@pytest.mark.parametrize(
    ("gang", "failure"),
    [
        (build_gang(None, STOPPED), "has ended (Stopped)"),
        (build_gang_of(execution_type=ExecutionType.STOP), "is stopped"),
        (build_gang_of(execution_type=ExecutionType.CREATE), "is not started"),
        (build_gang_of(suspend=True), "is suspended"),
        (build_gang_of(execution_type=ExecutionType.CREATE, suspend=True), "is not started"),
    ],
)
def test_scale_of_what_does_not_run_is_not_waited_for_and_has_a_remedy(
    gang: Gang, failure: str
) -> None:
    found = SCALED.judge(gang).failure
    assert found.startswith(failure)
    remedy = {"is not started": "start gang`", "is suspended": "resume gang`"}
    assert remedy.get(failure, "run --replace FILE`") in found


def build_attempt(number: int, state: TaskState) -> Gang:
    return build(build_task(state, attempt_status=build_task_attempt(id=number)))


@pytest.mark.parametrize(
    ("gang", "is_reached", "failure"),
    [
        (build_attempt(0, _T.ATTEMPT_DELETING), False, ""),
        (build_attempt(0, _T.COMPLETED), False, "is not retried"),
        (build_attempt(1, _T.ATTEMPT_CREATION_PENDING), False, ""),
        (build_attempt(1, _T.ATTEMPT_RUNNING), True, ""),
        (build_attempt(1, _T.ATTEMPT_COMPLETED), True, ""),
        (build_attempt(2, _T.ATTEMPT_RUNNING), True, ""),
        (build(build_leaving(0, _T.ATTEMPT_RUNNING)), False, "scaled down"),
        (build_gang(None, STOPPED), False, "attempt of the Framework has ended"),
    ],
)
def test_retried_task_is_waited_for_until_its_next_attempt_runs(
    gang: Gang,
    *,
    is_reached: bool,
    failure: str,
) -> None:
    verdict = RETRIED.judge(gang)
    assert verdict.is_reached is is_reached
    assert failure in verdict.failure
    assert bool(failure) == bool(verdict.failure)


@pytest.mark.parametrize(
    ("finalizers", "text"),
    [
        (["foregroundDeletion", "lab/quota"], "its ConfigMap and its Pods"),
        (["lab/quota"], "held by the finalizers lab/quota"),
    ],
)
def test_deletion_that_a_finalizer_holds_names_it(finalizers: list[str], text: str) -> None:
    gang = build_gang()
    gang.body["metadata"]["finalizers"] = finalizers
    verdict = Deleted("gang", FRAMEWORK_UID).judge(gang)
    assert not verdict.is_final
    assert text in verdict.text


def build_conditions(state: FrameworkState, **conditions: str) -> FrameworkStatus:
    built = tuple(
        Condition(name, status, reason="PodFailed", message="worker/1 failed")
        for name, status in conditions.items()
    )
    return build_status(state=state, conditions=built, observed_generation=1)


RUNS = build_conditions(FrameworkState.ATTEMPT_RUNNING, Running="True", Failed="False")
FAILED = build_conditions(FrameworkState.COMPLETED, Failed="True", Succeeded="False")


@pytest.mark.parametrize(
    ("wanted", "status", "generation", "is_reached", "failure"),
    [
        ("condition=Running", RUNS, 1, True, ""),
        ("condition=running", RUNS, 1, True, ""),
        ("condition=Running=True", RUNS, 1, True, ""),
        ("condition=Failed=false", RUNS, 1, True, ""),
        ("condition=Running", RUNS, 2, False, ""),
        ("condition=Failed", RUNS, 1, False, ""),
        ("condition=Other", RUNS, 1, False, ""),
        ("condition=Failed", None, 1, False, ""),
        ("condition=Failed", FAILED, 2, True, ""),
        ("condition=Succeeded=False", FAILED, 1, True, ""),
        ("condition=Succeeded", FAILED, 1, False, "PodFailed: worker/1 failed"),
        ("condition=Running", FAILED, 1, False, "can never come"),
        ("condition=Failed", STOPPED, 1, True, ""),
        ("condition=Succeeded", STOPPED, 1, False, "Stopped"),
    ],
)
def test_condition_comes_or_can_never_come(
    wanted: str,
    status: FrameworkStatus | None,
    generation: int,
    *,
    is_reached: bool,
    failure: str,
) -> None:
    goal = parse_wanted(wanted).build_goal("gang", FRAMEWORK_UID)
    verdict = goal.judge(build_gang(None, status, generation=generation))
    assert verdict.is_reached is is_reached
    assert failure in verdict.failure
    assert bool(failure) == bool(verdict.failure)


@pytest.mark.parametrize(
    "text", ["", "Succeeded", "condition", "condition=", "condition=Running=maybe", "jsonpath=x"]
)
def test_wait_for_something_else_is_refused_with_what_there_is(text: str) -> None:
    with pytest.raises(CliError, match="condition=NAME") as caught:
        parse_wanted(text)
    assert caught.value.exit_code is ExitCode.USAGE


@pytest.mark.parametrize(
    ("name", "meant"), [("success", "Succeeded"), ("ready", "GangReady"), ("Fialed", "Failed")]
)
def test_wait_for_a_misspelt_condition_is_refused(name: str, meant: str) -> None:
    with pytest.raises(CliError, match=rf"no condition '{name}'; did you mean {meant}\?") as caught:
        parse_wanted(f"condition={name}")
    assert caught.value.exit_code is ExitCode.USAGE


def test_wait_for_delete_waits_for_the_deletion() -> None:
    assert parse_wanted("delete").build_goal("gang", "u") == Deleted("gang", "u")
