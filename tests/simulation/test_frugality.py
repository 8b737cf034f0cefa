"""Counts the writes of a Framework's status in its life, and checks that none is a conflict.

The Pods change one by one, at several paces. A plain gang is like those of the benchmarks: a Pod
has its address and is Running soon after it was created. In a slow gang each step takes long.
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

# From the change of one Pod to the next one's.
PACES = (0.0, 0.003, 0.02, 0.05)
START_SECONDS = 0.1
RUN_SECONDS = 1.0
STEP_SECONDS = 10.0
ENDING_STEPS = 20


class PlainGang(Simulation):
    """A gang that comes up, runs and succeeds; the network answers in a few milliseconds."""

    def __init__(self, tasks: int, pace: float) -> None:
        super().__init__(0)
        self.tasks, self.pace = tasks, pace
        self.requests: Counter[tuple[str, str]] = Counter()
        self.conflicts = 0
        self.network.draw_fate = self._draw_fate  # type: ignore[method-assign]  # as this gang wants it
        self.network.note = self._count_answer  # type: ignore[method-assign]  # as this gang wants it

    @property
    def status_writes(self) -> int:
        return self.requests["replace", "frameworks"]

    async def run_all(self) -> Object:
        """Run the gang; return the Framework at its end."""
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

    def _count_answer(self, request: Request, outcome: str) -> None:
        self.conflicts += "onflict" in outcome
        self.note(f"  {request}: {outcome}")


class SlowGang(PlainGang):
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
    gang = PlainGang(tasks, pace)
    framework = await gang.run_all()
    assert framework["status"]["state"] == FrameworkState.COMPLETED
    assert gang.status_writes <= most, "\n".join(gang.trace)
    assert gang.conflicts == 0


@pytest.mark.looptime
@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("tasks", [1, 4])
async def test_slow_gang_takes_a_few_more_status_writes(tasks: int, pace: float) -> None:
    gang = SlowGang(tasks, pace)
    framework = await gang.run_all()
    assert framework["status"]["state"] == FrameworkState.COMPLETED
    assert gang.status_writes <= 12, "\n".join(gang.trace)
    assert gang.conflicts == 0


@pytest.mark.looptime
async def test_configmap_without_pods_is_deleted_without_the_garbage_collector() -> None:
    gang = PlainGang(2, 0.0)
    gang.collect_garbage = lambda: None  # type: ignore[method-assign]  # as this gang wants it
    framework = await gang.run_all()
    assert framework["status"]["state"] == FrameworkState.COMPLETED
    assert not gang.storage.list(gang._type(CONFIGMAPS), NAMESPACE).items
