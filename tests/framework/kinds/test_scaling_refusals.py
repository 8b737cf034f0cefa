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
