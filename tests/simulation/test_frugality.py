"""How often a Framework's status is written in one life, and that no write meets its own cache.

The Pods' news come one by one, at several paces. A plain life is like that of the benchmarks: a
Pod has its address and is Running soon after it was created. In a slow one every step of a Pod
takes long and is news of its own.
"""

import asyncio
from collections import Counter
from functools import partial

import pytest

from framework.api.states import FrameworkState
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS, Object
from tests.support.builders import FRAMEWORK, NAMESPACE, build_role_wire, build_submission
from tests.support.fakes.storageclient import Fate, Request
from tests.support.simulator.simulation import Simulation

# From one Pod's news to the next one's.
PACES = (0.0, 0.003, 0.02, 0.05)
START_SECONDS = 0.1
RUN_SECONDS = 1.0
STEP_SECONDS = 10.0
ENDING_STEPS = 20


class PlainLife(Simulation):
    """A gang that comes up, runs and succeeds; the network answers in a few milliseconds."""

    def __init__(self, tasks: int, pace: float) -> None:
        super().__init__(0)
        self.tasks, self.pace = tasks, pace
        self.requests: Counter[tuple[str, str]] = Counter()
        self.conflicts = 0
        self.network.draw_fate = self._draw_fate  # type: ignore[method-assign]  # as this life wants it
        self.network.note = self._note_answer  # type: ignore[method-assign]  # as this life wants it

    @property
    def status_writes(self) -> int:
        return self.requests["replace", "frameworks"]

    async def live(self) -> Object:
        """Live; return the Framework as it is left."""
        try:
            self._create_gang()
            self.start()
            await self._come_up()
            for index in range(self.tasks):
                self._end(f"{FRAMEWORK}-worker-{index}", 0)
                await asyncio.sleep(self.pace)
            for _ in range(ENDING_STEPS):
                await asyncio.sleep(RUN_SECONDS)
                await self._advance_each()
                self.collect_garbage()
            self.check()
            self.check_rest()
            return self.storage.get(self._type(FRAMEWORKS), NAMESPACE, FRAMEWORK)
        finally:
            await self._end_all()

    async def _come_up(self) -> None:
        await asyncio.sleep(START_SECONDS)
        for index in range(self.tasks):
            ip = f"10.0.0.{index + 1}"
            self._patch_status(f"{FRAMEWORK}-worker-{index}", {"podIP": ip, "podIPs": [{"ip": ip}]})
            await asyncio.sleep(self.pace)
            self._patch_status(f"{FRAMEWORK}-worker-{index}", {"phase": "Running"})
        await asyncio.sleep(RUN_SECONDS)

    async def _advance_each(self) -> None:
        for pod in self.storage.list(self._type(PODS), NAMESPACE).items:
            self._attempt(partial(self._advance, pod, is_ending=False), quiet=True)
            await asyncio.sleep(self.pace)

    def _create_gang(self) -> None:
        body = build_submission(FRAMEWORK, build_role_wire("worker", self.tasks))
        self.storage.create(self._type(FRAMEWORKS), NAMESPACE, body)

    def _draw_fate(self, request: Request) -> Fate:
        self._check_request(request)
        self.requests[request.verb, request.resource.plural] += 1
        return Fate(0.002, 0.002)

    def _note_answer(self, request: Request, outcome: str) -> None:
        self.conflicts += "onflict" in outcome
        self.note(f"  {request}: {outcome}")


class SlowLife(PlainLife):
    """Each Pod is bound, addressed and started, with a long time before each step."""

    async def _come_up(self) -> None:
        for _ in ("bound", "addressed", "started"):
            await asyncio.sleep(STEP_SECONDS)
            await self._advance_each()
        await asyncio.sleep(STEP_SECONDS)


@pytest.mark.looptime
@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize(("tasks", "most"), [(1, 6), (4, 8)])
async def test_small_gang_takes_few_status_writes_and_no_conflict(
    tasks: int, most: int, pace: float
) -> None:
    life = PlainLife(tasks, pace)
    framework = await life.live()
    assert framework["status"]["state"] == FrameworkState.COMPLETED
    assert life.status_writes <= most, "\n".join(life.trace)
    assert life.conflicts == 0


@pytest.mark.looptime
@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("tasks", [1, 4])
async def test_slow_gang_takes_a_few_more_status_writes(tasks: int, pace: float) -> None:
    life = SlowLife(tasks, pace)
    framework = await life.live()
    assert framework["status"]["state"] == FrameworkState.COMPLETED
    assert life.status_writes <= 12, "\n".join(life.trace)
    assert life.conflicts == 0


@pytest.mark.looptime
async def test_configmap_without_pods_goes_without_the_garbage_collector() -> None:
    life = PlainLife(2, 0.0)
    life.collect_garbage = lambda: None  # type: ignore[method-assign]  # as this life wants it
    framework = await life.live()
    assert framework["status"]["state"] == FrameworkState.COMPLETED
    assert not life.storage.list(life._type(CONFIGMAPS), NAMESPACE).items
