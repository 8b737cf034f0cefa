import re
from dataclasses import replace

from cli.see.description import describe
from cli.see.observation import ObservedFramework
from framework.api import constants
from framework.api.completion import POD_EXTERNAL_DELETED
from framework.api.gangreadiness import GangReadiness, Missing, encode_readiness
from framework.api.naming import TaskKey
from framework.api.recovery import RESTARTED, FailedProcess, RecoveryStatus
from framework.api.states import FrameworkState, TaskState
from framework.api.trainingstatus import TrainingStatus
from framework.api.types import Condition, RetryPolicyStatus
from tests.support.builders import (
    address,
    at,
    build_configmap_wire,
    build_role_status,
    build_status,
    end_attempt,
)
from tests.support.builders.observedframeworks import (
    build_event,
    build_failed_task,
    build_observed,
    build_running,
)

NOW = at(600)


def show(observed: ObservedFramework, *, shows_all: bool = False) -> str:
    return "\n".join(describe(observed, NOW, shows_all=shows_all))


def get_section(text: str, title: str) -> list[str]:
    """Return the rows below the header of a section."""
    lines = text.split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith(title)) + 2
    rows = []
    for line in lines[start:]:
        if not line.startswith("  "):
            break
        rows.append(line.strip())
    return rows


def test_head_has_state_retries_and_policy() -> None:
    observed = build_observed(
        build_role_status(number=2),
        spec={"retryPolicy": {"maxRetryCount": 3}, "description": "night run"},
        retry_policy_status=RetryPolicyStatus(2, 1),
        ready_tasks="2/2",
    )
    assert [line.split(maxsplit=1) for line in show(observed).split("\n")[:7]] == [
        ["Name:", "gang"],
        ["Namespace:", "default"],
        ["Created:", "2026-01-01T00:00:00Z (10m ago)"],
        ["State:", "Running for 10m, attempt 0 (AttemptRunning)"],
        ["Tasks:", "2/2 run or have succeeded"],
        ["Description:", "night run"],
        ["Retries:", "2 so far, 1 of them not counted; allowed: up to 3"],
    ]


def test_training_says_how_far_it_is_and_since_when() -> None:
    training = TrainingStatus(40, 1000, "2.5", 384, "worker/1", update_time=at(590))
    status = build_status(build_role_status(number=2))
    attempt = replace(status.attempt_status, training=training)
    shown = show(build_observed(build_role_status(number=2), attempt_status=attempt))
    (line,) = [line for line in shown.split("\n") if line.startswith("Training:")]
    assert line.split(maxsplit=1)[1] == (
        "step 40 of 1000, 2.5 steps/s, 6 min left; slowest: worker/1 (10s ago)"
    )


def test_training_that_has_ended_says_its_last_step_only() -> None:
    training = TrainingStatus(70, 100, "2.5", 25, "worker/1", 1, ("worker/1",), update_time=at(590))
    status = end_attempt(build_status(build_role_status(number=2)), 0, training=training)
    shown = show(build_observed(build_role_status(number=2), attempt_status=status.attempt_status))
    (line,) = [line for line in shown.split("\n") if line.startswith("Training:")]
    assert line.split(maxsplit=1)[1] == "last step 70 of 100"


def test_epoch_says_since_when_and_why() -> None:
    failed = FailedProcess("worker", 1, "89abcdef", 2, 137)
    recovery = RecoveryStatus(3, at(540), RESTARTED, failed)
    status = build_status(build_role_status(number=2))
    attempt = replace(status.attempt_status, recovery=recovery)
    (line,) = [
        line
        for line in show(build_observed(build_role_status(number=2), attempt_status=attempt)).split(
            "\n"
        )
        if line.startswith("Epoch:")
    ]
    assert line.split(maxsplit=1)[1] == (
        "3 (processes have failed 3 times in this attempt, last 60s ago): the process of worker/1 "
        "was killed by SIGKILL (exit code 137); all processes start again in their Pods"
    )


def test_conditions_without_news_are_shown_with_all_only() -> None:
    conditions = (
        Condition("GangReady", "False", None, at(0), "NoGang", "1 Task is missing"),
        Condition("Running", "True", None, at(540), "AttemptRunning"),
        Condition("Blocked", "False", None, at(0), "NotBlocked"),
    )
    observed = build_observed(build_role_status(), conditions=conditions)
    rows = get_section(show(observed), "Conditions")
    assert [" ".join(row.split()) for row in rows] == [
        "GangReady False 10m NoGang: 1 Task is missing",
        "Running True 60s AttemptRunning",
    ]
    assert len(get_section(show(observed, shows_all=True), "Conditions")) == 3


def test_failed_task_comes_first_and_equal_tasks_fold() -> None:
    observed = build_observed(
        build_running(1000, build_failed_task(7, POD_EXTERNAL_DELETED)), pods=0
    )
    text = show(observed)
    assert get_section(text, "Roles")[0].split()[:6] == [
        "worker", "1000", "1", "Failed,", "999", "Running"]  # fmt: skip
    (urgent,) = get_section(text, "Tasks that need attention")
    assert urgent.split()[:2] == ["worker/7", "Failed"]
    (quiet,) = get_section(text, "Tasks:")
    assert quiet.split()[:2] == ["worker/0-6,8-999", "Running"]


def test_many_different_tasks_end_with_their_number_and_all_shows_each() -> None:
    failed = [build_failed_task(index, POD_EXTERNAL_DELETED, attempt=index) for index in range(40)]
    observed = build_observed(build_running(50, *failed))
    text = show(observed)
    assert len(get_section(text, "Tasks that need attention")) == 13
    assert "... and 28 more Tasks: --all shows them" in text
    assert len(text.split("\n")) < 40
    rows = get_section(show(observed, shows_all=True), "Tasks:")
    assert len(rows) == 50
    assert rows[-1].split() == ["worker/49", "Running", "0", "node", address(49)]


def test_missing_members_are_those_of_the_barrier_report() -> None:
    readiness = GangReadiness(1, 3, (Missing("worker", 2, "0/8 nodes are available"),))
    annotations = {constants.READINESS_ANNOTATION: encode_readiness(readiness)}
    waiting = build_role_status(number=3, state=TaskState.ATTEMPT_PREPARING)
    observed = build_observed(waiting, state=FrameworkState.ATTEMPT_PREPARING)
    text = show(replace(observed, configmap=build_configmap_wire(annotations)))
    (row,) = get_section(text, "The gang of 3 is not complete; its barriers wait for")
    assert row.split(maxsplit=1) == [str(TaskKey("worker", 2)), "0/8 nodes are available"]


def test_missing_members_with_the_same_reason_share_a_row() -> None:
    pull = "ImagePullBackOff: " + "x" * 200
    missing = [Missing("worker", n, "0/8 nodes" if n == 1 else pull) for n in range(4)]
    readiness = GangReadiness(1, 5, (Missing("ps", 0, pull), *missing))
    annotations = {constants.READINESS_ANNOTATION: encode_readiness(readiness)}
    waiting = build_role_status(number=4, state=TaskState.ATTEMPT_PREPARING)
    observed = build_observed(waiting, state=FrameworkState.ATTEMPT_PREPARING)
    text = show(replace(observed, configmap=build_configmap_wire(annotations)))
    rows = get_section(text, "The gang of 5 is not complete; its barriers wait for")
    assert [row.split(maxsplit=1)[0] for row in rows] == ["ps/0", "worker/0,2-3", "worker/1"]


def test_failures_and_last_events_are_told_apart() -> None:
    failures = [
        build_event("TaskFailed", f"worker/{n} exited with 7", type="Warning", seconds=n)
        for n in range(1, 9)
    ]
    started = build_event("Started", "Started container main", kind="Pod", name="gang-worker-0",
                          seconds=60)  # fmt: skip
    text = show(build_observed(build_role_status(), events=[*failures, started]))
    assert [row.split()[4] for row in get_section(text, "Failures so far (the last 5 of 8")] == [
        f"worker/{n}" for n in range(4, 9)
    ]
    assert get_section(text, "Events (the last 8 of 9")[-1].split()[3] == "worker/0"


def test_framework_that_no_controller_has_seen_shows_its_roles() -> None:
    observed = build_observed(build_role_status(number=2))
    framework = {key: value for key, value in observed.framework.items() if key != "status"}
    text = show(replace(observed, framework=framework))
    assert re.search(r"^State: +New$", text, re.MULTILINE)
    assert "check that framework-controller runs" in text
    assert get_section(text, "Roles")[0].split()[:3] == ["worker", "2", "-"]


def test_framework_that_cannot_be_read_shows_why() -> None:
    observed = build_observed(build_role_status())
    framework = {**observed.framework, "spec": {"taskRoles": 7}, "status": {"state": 7}}
    text = show(replace(observed, framework=framework))
    assert "Unreadable" in text
    assert "its status cannot be read" in text


def test_hostile_texts_control_no_terminal() -> None:
    hostile = "\x1b[2J\u202e\nfake: line"
    observed = build_observed(
        build_running(2),
        spec={"description": hostile},
        events=[build_event(hostile, hostile, type="Warning")],
        conditions=(Condition(hostile, "True", None, at(0), hostile, hostile),),
    )
    for shows_all in (False, True):
        lines = describe(observed, NOW, shows_all=shows_all)
        assert all(line.isprintable() for line in lines)
        assert not any(line.startswith("fake") for line in lines)


def test_terminal_of_80_columns_wraps_the_last_column_and_cuts_nothing() -> None:
    reason = "0/8 nodes are available: " + "1 node has not enough memory, " * 8
    readiness = GangReadiness(1, 3, (Missing("worker", 2, reason[:150]),))
    annotations = {constants.READINESS_ANNOTATION: encode_readiness(readiness)}
    event = build_event("FailedScheduling", reason, kind="Pod", name="gang-worker-2")
    conditions = (Condition("GangReady", "False", None, at(0), "TasksMissing", "1; waiting for x"),)
    waiting = build_role_status(number=3, state=TaskState.ATTEMPT_PREPARING)
    observed = build_observed(
        waiting, state=FrameworkState.ATTEMPT_PREPARING, events=[event], conditions=conditions
    )
    observed = replace(observed, configmap=build_configmap_wire(annotations))
    lines = describe(observed, NOW, width=80)
    assert max(map(len, lines)) <= 80
    words = " ".join(" ".join(lines).split())
    assert reason.strip() in words
    assert "waiting for x" not in words


def test_events_that_the_cluster_has_deleted_are_told() -> None:
    gone = "Older Events are gone: a cluster keeps them for one hour by default."
    observed = build_observed(build_running(1), events=[])
    assert gone in describe(observed, at(3601))
    assert gone not in describe(observed, at(3599))
    assert gone not in describe(replace(observed, events=None), at(3601))
    kept = build_observed(build_running(1), events=[build_event("Started", "It runs.")])
    assert gone not in describe(kept, at(100_000))


def test_remark_of_the_local_cluster_is_no_reason_why_a_task_waits() -> None:
    found = (("FailedMount", 'secret "key" not found'), ("SecurityContextIgnored", "no seccomp"))
    events = [
        build_event(reason, text, kind="Pod", name="gang-worker-0", seconds=second, type="Warning")
        for second, (reason, text) in enumerate(found)
    ]
    for event in events:
        event["involvedObject"]["uid"] = "p0"
    observed = build_observed(build_role_status(), events=events)
    assert observed.collect_objects().warnings == {"p0": 'secret "key" not found'}


def test_nodes_that_tasks_avoid_are_named() -> None:
    role = build_role_status(number=20)
    tasks = tuple(
        replace(task, attempt_status=replace(task.attempt_status, avoided_nodes=("n1", "n2")))
        if task.index
        else task
        for task in role.tasks
    )
    observed = build_observed(replace(role, tasks=tasks), pods=0)
    title = "Nodes that Tasks avoid"
    rows = get_section(show(observed), title)
    assert rows[0].split() == ["worker/1", "n1,", "n2"]
    assert rows[-1] == "... and 7 more Tasks: --all shows them"
    assert len(get_section(show(observed, shows_all=True), title)) == 19
    assert title not in show(build_observed(build_role_status(), pods=0))
