"""Steps of scalers that the API server refuses: what is stored, and that nothing is changed."""

from dataclasses import replace
from typing import Any

import pytest

from framework.kinds.scaling.decide import refuse
from framework.kinds.scaling.snapshot import (
    AddOwner,
    ClearRequest,
    SetWorkers,
    WriteRequest,
    WriteStatus,
)
from framework.kinds.scaling.types import Failure
from framework.kinds.scaling.workers import build_wanted
from tests.framework.kinds.scalers import IN, OUT, Simulation, build_scaler
from tests.support.builders import at


@pytest.mark.parametrize("kind", [IN, OUT])
@pytest.mark.parametrize("refused", [AddOwner, WriteRequest, SetWorkers])
def test_refused_step_fails_the_scaler_and_leaves_the_workers(kind: Any, refused: type) -> None:
    simulation = Simulation()
    simulation.add(build_scaler(kind=kind, script="/s.sh"))
    for _ in range(20):
        for action in simulation.decide():
            scaler = simulation.scalers["s"]
            step = refuse(scaler, action, Failure("Refused", "too large"), at(simulation.seconds))
            simulation.execute(step if isinstance(action, refused) and step else action)
        simulation.run_core()
        simulation.run_agent()
    assert simulation.get_last() == ("ScaleFailed", "Refused", "too large")
    assert simulation.workers == {0, 1}
    assert simulation.request == ""
    assert simulation.scripts == []
    assert simulation.seconds == 0


def test_refusal_is_not_stored_for_a_status_nor_over_the_reason_of_a_failure() -> None:
    failing = build_scaler()
    failing = replace(failing, status=replace(failing.status, failure=Failure("Timeout", "late")))
    refusal = Failure("Refused", "too large")
    assert refuse(failing, SetWorkers(build_wanted(frozenset({0}), 0)), refusal, at(0)) is None
    assert refuse(failing, ClearRequest("u"), refusal, at(0)) is None
    assert refuse(failing, WriteStatus(failing, failing.status), refusal, at(0)) is None


@pytest.mark.parametrize("kind", [IN, OUT])
def test_agent_that_cannot_acknowledge_is_asked_for_no_script(kind: Any) -> None:
    simulation = Simulation(has_agent=False)
    simulation.add(build_scaler(kind=kind, script="/s.sh"))
    requests = []
    while simulation.list_conditions()[-1:] != ["ScaleFailed"]:
        if not simulation.run_controller():
            simulation.wait()
        simulation.run_core()
        requests.append(simulation.request)
    assert simulation.get_last()[1] == "NoAgent"
    assert set(requests) == {""}
    assert simulation.workers == {0, 1}
    assert simulation.least >= 2


@pytest.mark.parametrize("kind", [IN, OUT])
@pytest.mark.parametrize("launcher", ["", "launcher-1"])
def test_launcher_that_ends_while_the_script_runs_is_no_lack_of_an_agent(
    kind: Any, launcher: str
) -> None:
    simulation = Simulation()
    simulation.add(build_scaler(kind=kind, script="/s.sh"))
    while not simulation.request:
        simulation.run_controller()
        simulation.run_core()
    simulation.launcher_uid, simulation.has_agent = launcher, False
    simulation.seconds = 20
    simulation.run()
    reason = "LauncherReplaced" if launcher else "Timeout"
    assert simulation.get_last()[:2] == ("ScaleFailed", reason)


def test_script_without_an_answer_is_not_taken_for_one_that_has_run() -> None:
    simulation = Simulation()
    simulation.add(build_scaler(kind=OUT, script="/s.sh"))
    while not simulation.request:
        simulation.run_controller()
        simulation.run_core()
    simulation.has_agent = False  # its annotation was removed
    simulation.run()
    assert simulation.get_last()[:2] == ("ScaleFailed", "Timeout")
