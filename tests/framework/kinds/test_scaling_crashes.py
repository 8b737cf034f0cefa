"""The scalers of a job after a crash at each action, in random orders of steps, and at random."""

import random
from typing import Any

import pytest

from framework.api.states import TaskState
from framework.kinds.scaling.snapshot import (
    AddOwner,
    ClearRequest,
    SetWorkers,
    WriteRequest,
    WriteStatus,
)
from tests.framework.kinds.scalers import (
    IN,
    OUT,
    Simulation,
    build_job,
    build_scaler,
)

SCENES: dict[str, dict[str, Any]] = {
    "in": {"scalers": [build_scaler(script="/s")]},
    "in-by-name": {"scalers": [build_scaler(pod_names=("gang-worker-0",))]},
    "in-fails": {"scalers": [build_scaler(script="/s")], "script_codes": {"s": 1}},
    "out": {"scalers": [build_scaler(kind=OUT, count=2, script="/s")]},
    "out-fails": {"scalers": [build_scaler(kind=OUT, script="/s")], "script_codes": {"s": 9}},
    "out-late": {"scalers": [build_scaler(kind=OUT, count=2)], "broken": {3}},
    "both": {
        "scalers": [
            build_scaler("a", OUT, count=2, script="/a"),
            build_scaler("b", IN, seconds=1, script="/b"),
            build_scaler("c", IN, seconds=2, count=9),
        ]
    },
}


def build_scene(name: str) -> Simulation:
    fields = dict(SCENES[name])
    scalers = fields.pop("scalers")
    simulation = Simulation(**fields)
    simulation.add(*scalers)
    return simulation


def get_outcome(simulation: Simulation) -> tuple[object, ...]:
    """What must not depend on crashes and on the order of steps."""
    ends = {
        name: (simulation.list_conditions(name), simulation.get_last(name)[1])
        for name in simulation.scalers
    }
    running = {index for index, s in simulation.tasks.items() if s is TaskState.ATTEMPT_RUNNING}
    return ends, simulation.workers, running, simulation.request, sorted(simulation.scripts)


class CrashError(Exception):
    """The controller ends: before a request, or after it and before its answer."""


def run_with_crash(name: str, number: int, *, is_lost: bool) -> tuple[Simulation, bool]:
    """Run a scene; the controller crashes at its action of this number, and starts again."""
    simulation = build_scene(name)
    execute, count = simulation.execute, 0

    def crash(action: Any) -> None:
        nonlocal count
        count += 1
        if count != number + 1:
            execute(action)
            return
        if not is_lost:
            execute(action)
        raise CrashError

    simulation.execute = crash  # type: ignore[method-assign]  # stands in the way
    decide_and_execute = simulation.run_controller

    def run_controller() -> bool:
        try:
            return decide_and_execute()
        except CrashError:
            return True

    simulation.run_controller = run_controller  # type: ignore[method-assign]  # stands in the way
    simulation.run()
    return simulation, count > number


@pytest.mark.parametrize("is_lost", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("name", SCENES)
def test_crash_at_any_action_has_the_same_outcome(name: str, *, is_lost: bool) -> None:
    calm = build_scene(name)
    calm.run()
    number, is_reached = 0, True
    while is_reached:
        simulation, is_reached = run_with_crash(name, number, is_lost=is_lost)
        assert get_outcome(simulation) == get_outcome(calm), number
        assert simulation.pods == calm.pods, number
        number += 1
    assert number > 6


@pytest.mark.parametrize("name", SCENES)
def test_any_order_of_steps_has_the_same_outcome(name: str) -> None:
    calm = build_scene(name)
    calm.run()
    for seed in range(12):
        simulation = build_scene(name)
        simulation.run(random.Random(seed))
        assert get_outcome(simulation) == get_outcome(calm), seed
        assert simulation.overlaps == 0, seed


def test_random_scalers_run_each_script_once_and_keep_the_limits() -> None:
    for seed in range(30):
        rng = random.Random(seed)
        simulation = Simulation(job=build_job(min_workers=1, max_workers=4))
        names = [f"s{number}" for number in range(rng.randint(1, 5))]
        for name in names:
            script = rng.choice(["", "/s"])
            kind = rng.choice([IN, OUT])
            count = rng.randint(1, 3)
            simulation.add(build_scaler(name, kind, rng.randint(0, 3), count=count, script=script))
            simulation.script_codes[name] = rng.choice([0, 0, 1])
        simulation.run(rng)
        uids = [line.split()[0] for line in simulation.scripts]
        assert len(uids) == len(set(uids)), seed
        assert 1 <= len(simulation.workers) <= 4, seed
        assert simulation.least >= 1, seed
        for name in names:
            assert simulation.get_last(name)[0] in {"ScaleSucceeded", "ScaleFailed"}, seed


def test_actions_are_of_known_types() -> None:
    simulation = build_scene("both")
    seen: set[type] = set()
    for _ in range(100):
        actions = simulation.decide()
        seen.update(map(type, actions))
        for action in actions:
            simulation.execute(action)
        simulation.run_core()
        simulation.run_agent()
    assert seen == {AddOwner, WriteStatus, WriteRequest, ClearRequest, SetWorkers}
