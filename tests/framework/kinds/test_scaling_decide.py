"""The scalers of a job: each transition, and the reason of each refusal and failure."""

from dataclasses import replace
from typing import Any

import pytest

from framework.api.fielderrors import FieldError
from framework.api.scalerequest import ScaleResult, encode_result
from framework.api.states import TaskState
from framework.kinds.scaling.decide import decide
from framework.kinds.scaling.snapshot import (
    ClearRequest,
    WriteStatus,
)
from framework.kinds.scaling.types import Scaler
from tests.framework.kinds.scalers import (
    IN,
    OUT,
    Simulation,
    build_job,
    build_scaler,
)
from tests.support.builders import at

SUCCESS = ["Created", "Scaling", "ScriptExecuted", "ScaleSucceeded"]
FAILURE = ["Created", "Scaling", "ScaleFailed"]
REFUSED = ["Created", "ScaleFailed"]


def run(*scalers: Scaler, **world: Any) -> Simulation:
    simulation = Simulation(**world)
    simulation.add(*scalers)
    simulation.run()
    return simulation


def list_steps(simulation: Simulation) -> list[str]:
    """The controller's actions until the scaler has ended, with the condition of a status."""
    steps = []
    for _ in range(40):
        for action in simulation.decide():
            step = type(action).__name__
            if isinstance(action, WriteStatus):
                failure, step = action.status.failure, action.status.conditions[-1].type
                if failure is not None and step != "ScaleFailed":
                    step = f"failure {failure.reason}"
            steps.append(step)
            simulation.execute(action)
        simulation.run_core()
        simulation.run_agent()
        if simulation.list_conditions()[-1:] in (["ScaleSucceeded"], ["ScaleFailed"]):
            return steps
    raise AssertionError(steps)


def test_scale_in_tells_the_agent_before_workers_leave() -> None:
    simulation = Simulation()
    simulation.add(build_scaler(script="/leave.sh"))
    assert list_steps(simulation) == [
        "AddOwner",
        "Created",
        "Scaling",
        "WriteRequest",
        "SetWorkers",
        "ScriptExecuted",
        "ClearRequest",
        "ScaleSucceeded",
    ]
    assert simulation.workers == {0}
    assert simulation.pods == [("deleted", 1)]
    assert simulation.scripts == ["uid-s /leave.sh gang-worker-1:1"]


def test_scale_out_tells_the_agent_when_its_workers_run() -> None:
    simulation = Simulation()
    simulation.add(build_scaler(kind=OUT, count=2))
    assert list_steps(simulation) == [
        "AddOwner",
        "Created",
        "Scaling",
        "SetWorkers",
        "WriteRequest",
        "ScriptExecuted",
        "ClearRequest",
        "ScaleSucceeded",
    ]
    assert simulation.workers == {0, 1, 2, 3}
    assert simulation.scalers["s"].status.pods == ("gang-worker-2", "gang-worker-3")


def test_failure_is_stored_before_the_workers_are_put_back() -> None:
    simulation = Simulation(script_codes={"s": 3})
    simulation.add(build_scaler(script="/leave.sh"))
    assert list_steps(simulation)[3:] == [
        "WriteRequest",
        "SetWorkers",
        "failure ScriptFailed",
        "ClearRequest",
        "SetWorkers",
        "ScaleFailed",
    ]
    assert simulation.get_last() == ("ScaleFailed", "ScriptFailed", "the script ended with 3")
    assert simulation.workers == {0, 1}


@pytest.mark.parametrize(
    ("workers", "scaler", "left", "pods"),
    [
        ({0, 1, 2}, build_scaler(count=2), {0}, ["1", "2"]),
        ({0, 1, 2}, build_scaler(pod_names=("gang-worker-0",)), {1, 2}, ["0"]),
        ({0, 2}, build_scaler(pod_names=("gang-worker-2",)), {0}, ["2"]),
        ({0, 1}, build_scaler(kind=OUT), {0, 1, 2}, ["2"]),
        # As in the original, a gap is not filled, and an index above all workers is used again.
        ({0, 2}, build_scaler(kind=OUT), {0, 2, 3}, ["3"]),
        ({1}, build_scaler(kind=OUT, count=2), {1, 2, 3}, ["2", "3"]),
        # No index above is left.
        ({0, 9999}, build_scaler(kind=OUT), {0, 1, 9999}, ["1"]),
    ],
    ids=["count", "name", "name-at-end", "add", "gap", "first-gap", "no-index-above"],
)
def test_workers_of_a_scaler(
    workers: set[int], scaler: Scaler, left: set[int], pods: list[str]
) -> None:
    simulation = run(scaler, workers=workers)
    assert simulation.list_conditions() == SUCCESS
    assert simulation.workers == left
    assert list(simulation.scalers["s"].status.pods) == [f"gang-worker-{pod}" for pod in pods]


@pytest.mark.parametrize(
    ("scaler", "job", "reason", "message"),
    [
        (build_scaler(count=2), {}, "BelowMinReplicas", "keeps one worker: create a ScaleIn"),
        (build_scaler(count=9), {}, "BelowMinReplicas", "of fewer workers"),
        (build_scaler(), {"min_workers": 2}, "BelowMinReplicas", "gang is 2: lower it, or create"),
        (
            build_scaler(kind=OUT, count=2),
            {"max_workers": 3},
            "AboveMaxReplicas",
            (
                "there would be 4 workers, and maxReplicas of gang is 3: raise it, or create a "
                "ScaleOut of fewer workers"
            ),
        ),
        (build_scaler(kind=OUT, count=9998), {}, "AboveMaxReplicas", "at most 9999: create"),
        (
            build_scaler(pod_names=("gang-worker-1", "gang-worker-7", "x")),
            {},
            "UnknownWorker",
            (
                "gang-worker-7, x: no worker of gang; create a ScaleIn with names of its workers: "
                "gang-worker-0, gang-worker-1"
            ),
        ),
        (build_scaler(), {"end": "has succeeded"}, "JobFinished", "gang has succeeded"),
    ],
    ids=["all", "more", "min", "max", "tasks", "names", "finished"],
)
def test_refused_scaler_changes_nothing(
    scaler: Scaler, job: dict[str, Any], reason: str, message: str
) -> None:
    simulation = run(scaler, job=build_job(**job))
    assert simulation.list_conditions() == REFUSED
    assert simulation.get_last()[1] == reason
    assert message in simulation.get_last()[2]
    assert (simulation.workers, simulation.pods, simulation.done) == ({0, 1}, [], {})


def test_scaler_with_faults_ends_with_all_of_them() -> None:
    faults = (FieldError("spec.timeout", "is 0"), FieldError("spec.toAdd", "is required"))
    simulation = run(replace(build_scaler(), spec=None, faults=faults))
    assert simulation.get_last() == (
        "ScaleFailed",
        "InvalidSpec",
        "spec.timeout: is 0; spec.toAdd: is required",
    )


def test_scaler_waits_half_a_minute_for_its_job() -> None:
    simulation = Simulation(job=None)
    simulation.add(build_scaler())
    assert simulation.decide() == ()
    simulation.wait()
    assert simulation.seconds == 30
    simulation.run()
    assert simulation.get_last()[1:] == (
        "JobNotFound",
        (
            "there is no TrainingJob gang in the namespace default: correct spec.selector.name, or "
            "create the job first, and create the scaler again"
        ),
    )


def test_scaler_waits_until_the_launcher_runs() -> None:
    simulation = run(build_scaler(), launcher_uid="")
    assert simulation.list_conditions() == ["Created"]
    simulation.launcher_uid = "launcher-0"
    simulation.run()
    assert simulation.list_conditions() == SUCCESS


def test_one_scaler_at_a_time_in_the_order_of_creation() -> None:
    simulation = run(
        build_scaler("c", OUT, seconds=0, count=3),
        build_scaler("b", IN, seconds=2, count=2),
        build_scaler("a", IN, seconds=2, pod_names=("gang-worker-0",)),
    )
    starts = {name: simulation.scalers[name].status.conditions[1].since for name in ("a", "b", "c")}
    assert starts["c"] <= starts["a"] <= starts["b"]
    # `a` removed worker 0, then `b` the highest two of 1, 2, 3 and 4.
    assert simulation.workers == {1, 2}
    assert simulation.overlaps == 0


@pytest.mark.parametrize("has_crashed", [False, True])
def test_scalers_of_one_second_start_in_the_order_of_their_creation(*, has_crashed: bool) -> None:
    simulation = Simulation()
    simulation.add(
        replace(build_scaler("b", OUT), first_version=7),
        replace(build_scaler("a", IN), first_version=9),
    )
    for _ in range(2):
        simulation.run_controller()
    assert [s.status.order for s in simulation.scalers.values()] == [7, 9]
    if has_crashed:  # the next controller sees later versions, in another order
        for name, version in (("b", 20), ("a", 11)):
            simulation.add(replace(simulation.scalers[name], first_version=version))
    simulation.run()
    starts = {name: simulation.scalers[name].status.conditions[1].since for name in ("a", "b")}
    assert starts["b"] <= starts["a"]
    assert simulation.pods == [("created", 2), ("deleted", 2)]


def test_worker_that_never_runs_is_removed_again() -> None:
    simulation = run(build_scaler(kind=OUT, timeout_seconds=300), broken={2})
    assert simulation.list_conditions() == FAILURE
    assert simulation.get_last()[1:] == (
        "Timeout",
        "1 of the new workers do not run after 300 s: gang-worker-2",
    )
    assert simulation.workers == set(simulation.tasks) == {0, 1}


def test_new_worker_that_ends_fails_the_scaler_at_once() -> None:
    simulation = Simulation(broken={2})
    simulation.add(build_scaler(kind=OUT))
    for _ in range(6):
        simulation.run_controller()
        simulation.run_core()
    simulation.tasks[2] = TaskState.COMPLETED
    simulation.run()
    assert simulation.get_last()[1] == "WorkerEnded"
    assert simulation.workers == {0, 1}


def test_agent_that_does_not_answer_is_a_timeout() -> None:
    simulation = Simulation()
    simulation.add(build_scaler(timeout_seconds=60))
    for _ in range(9):
        simulation.run_controller()
    simulation.seconds = 149
    assert simulation.decide() == ()
    simulation.seconds = 150
    while simulation.run_controller():
        pass
    assert simulation.get_last()[1:] == (
        "Timeout",
        "the launcher's agent has not answered for 150 s",
    )
    assert simulation.workers == {0, 1}


@pytest.mark.parametrize(
    ("script", "conditions", "left"), [("", SUCCESS, {0}), ("/s.sh", FAILURE, {0, 1})]
)
def test_launcher_without_an_agent_runs_no_script(
    script: str, conditions: list[str], left: set[int]
) -> None:
    simulation = run(build_scaler(script=script), has_agent=False)
    assert simulation.list_conditions() == conditions
    assert simulation.workers == left
    assert not script or simulation.get_last()[1] == "NoAgent"


@pytest.mark.parametrize(
    ("script", "conditions"), [("", SUCCESS), ("/s.sh", FAILURE)], ids=["plain", "script"]
)
def test_new_launcher_never_runs_the_script_again(script: str, conditions: list[str]) -> None:
    simulation = Simulation()
    simulation.add(build_scaler(script=script))
    for _ in range(5):
        simulation.run_controller()
    simulation.launcher_uid, simulation.request, simulation.result = "launcher-1", "", ""
    simulation.run()
    assert simulation.list_conditions() == conditions
    assert simulation.scripts == []
    assert not script or simulation.get_last()[1] == "LauncherReplaced"


@pytest.mark.parametrize("kind", [IN, OUT])
def test_job_that_ends_meanwhile_ends_the_scaler_and_changes_no_worker(kind: Any) -> None:
    simulation = Simulation(broken={2})
    simulation.add(build_scaler(kind=kind))
    for _ in range(5):
        simulation.run_controller()
    changed = set(simulation.workers)
    simulation.job = build_job(end="has succeeded", is_final=True)
    simulation.run()
    assert simulation.get_last()[1:] == ("JobFinished", "the TrainingJob gang has succeeded")
    assert simulation.workers == changed
    assert not simulation.request


@pytest.mark.parametrize("kind", [IN, OUT])
def test_job_that_gets_faults_meanwhile_ends_the_scaler_and_gets_its_workers_back(
    kind: Any,
) -> None:
    simulation = Simulation(broken={2})
    simulation.add(build_scaler(kind=kind))
    for _ in range(5):
        simulation.run_controller()
    assert simulation.workers != {0, 1}
    simulation.job = build_job(end="has faults in its spec")
    simulation.run()
    assert simulation.get_last()[1:] == (
        "JobFinished",
        "the TrainingJob gang has faults in its spec",
    )
    assert simulation.workers == {0, 1}
    assert not simulation.request


def test_request_of_a_deleted_scaler_is_cleared() -> None:
    simulation = Simulation()
    simulation.add(build_scaler(kind=IN))
    while not simulation.request:
        simulation.run_controller()
    simulation.scalers.clear()
    assert simulation.decide() == (ClearRequest("uid-s"),)


def test_result_of_another_scaler_is_no_answer() -> None:
    simulation = Simulation(has_agent=True)
    simulation.add(build_scaler())
    simulation.result = encode_result(ScaleResult("uid-before", 7, "x"))
    for _ in range(9):
        simulation.run_controller()
    assert simulation.list_conditions() == ["Created", "Scaling"]


def test_worker_that_is_wanted_again_does_not_block_the_scaler() -> None:
    simulation = Simulation()
    simulation.add(build_scaler())
    while "ScriptExecuted" not in simulation.list_conditions():
        simulation.run_controller()
        simulation.run_agent()
    simulation.workers.add(1)  # by an edit of the Framework
    simulation.run()
    assert simulation.list_conditions() == SUCCESS


def test_decision_says_which_scaler_is_in_progress_and_when_to_look_again() -> None:
    simulation = Simulation()
    simulation.add(build_scaler(timeout_seconds=60))
    assert decide(simulation.build_snapshot()).current == ""
    for _ in range(3):
        simulation.run_controller()
    decision = decide(simulation.build_snapshot())
    assert decision.current == "ScaleIn:default/s"
    assert decision.wake_at is not None


def test_created_scaler_whose_job_is_gone_is_decided_again_when_it_ends() -> None:
    simulation = Simulation()
    simulation.add(build_scaler())
    while "Created" not in simulation.list_conditions():
        simulation.run_controller()
    simulation.job = None
    assert decide(simulation.build_snapshot()).wake_at == at(30)
    simulation.seconds = 30
    simulation.run_controller()
    assert simulation.list_conditions() == ["Created", "ScaleFailed"]


@pytest.mark.parametrize("kind", [IN, OUT])
def test_scaler_in_progress_that_is_moved_to_another_job_changes_nothing_there(kind: Any) -> None:
    simulation = Simulation(has_agent=False)
    simulation.add(build_scaler(kind=kind))
    while simulation.list_conditions()[-1:] != ["Scaling"]:
        simulation.run_controller()
    moved = simulation.scalers["s"]
    simulation.add(replace(moved, status=replace(moved.status, pods=("other-worker-1",))))
    simulation.run()
    assert simulation.get_last()[:2] == ("ScaleFailed", "InvalidSpec")
    assert "do not change the selector" in simulation.get_last()[2]
    assert (simulation.workers, simulation.pods, simulation.request) == ({0, 1}, [], "")
