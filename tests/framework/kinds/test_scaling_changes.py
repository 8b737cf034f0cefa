"""Scalers whose job, spec or result changes while they wait or are in progress."""

from dataclasses import replace
from typing import Any

import pytest

from framework.api.scalerequest import ScaleResult, decode_result, encode_result
from framework.api.states import TaskState
from framework.kinds.scaling.snapshot import WriteStatus
from framework.kinds.scaling.types import Scaler, ScalerKind
from tests.framework.kinds.scalers import (
    IN,
    LAUNCHER_UID,
    OUT,
    Simulation,
    build_job,
    build_scaler,
)


def start(kind: ScalerKind = IN) -> Simulation:
    """A job of four workers with a scaler of two, whose plan is stored and not carried out."""
    simulation = Simulation(workers={0, 1, 2, 3})
    simulation.add(build_scaler(kind=kind, count=2, script="/s.sh"))
    for _ in range(3):
        simulation.run_controller()
    assert simulation.list_conditions() == ["Created", "Scaling"]
    return simulation


def read_failure(simulation: Simulation) -> tuple[str, str]:
    (action,) = simulation.decide()
    assert isinstance(action, WriteStatus)
    assert action.status.failure is not None
    return action.status.failure.reason, action.status.failure.message


def test_no_scaler_starts_while_replicas_change_the_workers() -> None:
    simulation = Simulation(job=build_job(is_resizing=True))
    simulation.add(build_scaler())
    for _ in range(4):
        simulation.run_controller()
    assert simulation.list_conditions() == ["Created"]
    simulation.job = build_job()
    simulation.run()
    assert simulation.list_conditions()[-1] == "ScaleSucceeded"


def test_limits_are_checked_again_before_the_workers_change() -> None:
    simulation = start()
    simulation.workers = {2, 3}
    expected = (
        "0 workers would be left, and a job keeps one worker: create a ScaleIn of fewer workers, "
        "or delete the job"
    )
    assert read_failure(simulation) == ("BelowMinReplicas", expected)
    simulation = start(OUT)
    simulation.job = build_job(max_workers=5)
    expected = (
        "there would be 6 workers, and maxReplicas of gang is 5: raise it, or create a ScaleOut "
        "of fewer workers"
    )
    assert read_failure(simulation) == ("AboveMaxReplicas", expected)


def test_limit_that_changes_after_the_workers_have_left_does_not_matter() -> None:
    simulation = start()
    simulation.workers = {0, 1}
    simulation.job = build_job(min_workers=4)
    assert all(not isinstance(action, WriteStatus) for action in simulation.decide())


def test_job_never_gets_no_workers_when_a_scale_out_is_undone() -> None:
    simulation = start(OUT)
    simulation.workers = {4, 5}
    simulation.job = build_job(end="has faults in its spec", is_faulty=True)
    for _ in range(3):
        simulation.run_controller()
    assert simulation.list_conditions()[-1] == "ScaleFailed"
    assert simulation.workers == {4, 5}


def test_scaler_of_an_earlier_job_ends_and_changes_nothing() -> None:
    simulation = start()
    simulation.job = build_job(uid="another")
    simulation.run()
    assert simulation.get_last()[1:] == (
        "JobNotFound",
        (
            "the TrainingJob gang that it was created for is gone: for the present one, create "
            "another scaler"
        ),
    )
    assert simulation.workers == {0, 1, 2, 3}


@pytest.mark.parametrize(
    "seconds", [1, 1000, 100_000], ids=["in time", "after its limits", "a day later"]
)
def test_result_counts_whenever_it_is_seen(seconds: float) -> None:
    simulation = start()
    simulation.workers = {0, 1}
    simulation.result = encode_result(ScaleResult("uid-s", 0))
    simulation.seconds += seconds
    assert simulation.launcher_uid == LAUNCHER_UID
    simulation.run()
    assert simulation.list_conditions()[-1] == "ScaleSucceeded"


def test_scale_in_whose_pods_stay_succeeds_after_its_timeout() -> None:
    simulation = start()
    simulation.workers = {0, 1}
    simulation.result = encode_result(ScaleResult("uid-s", 0))
    while simulation.list_conditions()[-1] != "ScaleSucceeded":
        if not simulation.run_controller():
            simulation.wait()
    assert simulation.seconds == 60
    message = simulation.get_last()[2]
    assert message.endswith("Pods that are not deleted yet: gang-worker-2, gang-worker-3")


def test_step_of_the_scaler_in_progress_comes_before_new_ones() -> None:
    simulation = start()
    simulation.add(build_scaler("new"))
    titles = [type(action).__name__ for action in simulation.decide()]
    assert titles == ["WriteRequest", "AddOwner"]


def test_faulty_scaler_in_progress_is_undone() -> None:
    simulation = start()
    simulation.run_controller()
    simulation.run_controller()
    assert simulation.workers == {0, 1}
    scaler: Scaler = simulation.scalers["s"]
    simulation.add(replace(scaler, spec=None))
    simulation.run()
    assert simulation.get_last()[:2] == ("ScaleFailed", "InvalidSpec")
    assert simulation.workers == {0, 1, 2, 3}


@pytest.mark.parametrize("text", ["\\ud800", "\\u001b[31m", "\\u202e"])
def test_message_of_a_result_is_printable(text: str) -> None:
    result = decode_result(f'{{"uid":"u","code":3,"message":"{text}"}}')
    assert result.message.isprintable()
    assert decode_result(encode_result(result)) == result
    hostile = ScaleResult("u", 3, "a\x1b\udfff\u202e")
    assert "\x1b" not in encode_result(hostile)
    assert decode_result(encode_result(hostile)).message == "a\\x1b\\udfff\\u202e"


def lose_worker(**job: int) -> Simulation:
    """A job of the workers 0 and 1, of which 1 has ended."""
    simulation = Simulation(job=build_job(**job))
    simulation.tasks[1] = TaskState.COMPLETED
    return simulation


@pytest.mark.parametrize("order", [(IN, OUT), (OUT, IN)])
def test_lost_worker_is_replaced_in_a_job_of_one_size(
    order: tuple[ScalerKind, ScalerKind],
) -> None:
    simulation = lose_worker(min_workers=2, max_workers=2)
    for seconds, kind in enumerate(order):
        names = {"pod_names": ("gang-worker-1",)} if kind is IN else {}
        simulation.add(build_scaler(kind, kind, seconds, script="/s.sh", **names))
    simulation.run()
    assert [simulation.get_last(kind)[0] for kind in order] == ["ScaleSucceeded"] * 2
    assert len(simulation.workers) == 2
    assert TaskState.COMPLETED not in {simulation.tasks[index] for index in simulation.workers}


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"kind": IN, "pod_names": ("gang-worker-0", "gang-worker-1")}, "BelowMinReplicas"),
        ({"kind": IN, "pod_names": ("gang-worker-0",)}, "BelowMinReplicas"),
        ({"kind": IN, "count": 2}, "BelowMinReplicas"),
        ({"kind": OUT, "count": 2}, "AboveMaxReplicas"),
    ],
)
def test_living_workers_keep_the_limits_beside_a_lost_one(
    spec: dict[str, Any], reason: str
) -> None:
    simulation = lose_worker(min_workers=1, max_workers=2)
    simulation.add(build_scaler(**spec))
    simulation.run()
    assert simulation.get_last()[:2] == ("ScaleFailed", reason)
    assert simulation.workers == {0, 1}


def test_last_worker_is_kept_even_if_it_has_ended() -> None:
    simulation = Simulation(workers={1})
    simulation.tasks[1] = TaskState.COMPLETED
    simulation.add(build_scaler(pod_names=("gang-worker-1",)))
    simulation.run()
    expected = (
        "0 workers would be left, and a job keeps one worker: create a ScaleIn of fewer workers, "
        "or delete the job"
    )
    assert simulation.get_last() == ("ScaleFailed", "BelowMinReplicas", expected)
