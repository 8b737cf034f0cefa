"""A hundred members, one of which fails every 5 s for 2 minutes, on a real API server.

The controller is killed meanwhile.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.resources import FRAMEWORKS
from tests.kube.largegang import Controller, LargeGang
from tests.kube.test_restart_in_place import (
    REPORT,
    ROSTER,
    STATUS,
    deploy,
    list_uids,
)
from tests.support.fakes.kubelet import FakeKubelet
from tests.support.servers.controlplane import Access
from tests.support.waiting import wait_until_async

MEMBERS, REAL = 100, 3
FAILURES, PERIOD_SECONDS = 24, 5.0
# The failures after which the controller is killed: before, while and after it acts on them.
OUTAGES = {6: 0.0, 12: 0.02, 18: 0.3}
SEED = 467


class Failure(NamedTuple):
    """The end of a process."""

    at: datetime
    index: int  # type: ignore[assignment]  # hides tuple.index
    epoch: int
    is_settled: bool
    """Whether all writes of the epochs before were done."""


class Failures:
    """Lets members fail, and the controller."""

    def __init__(self, gang: LargeGang, controller: Controller) -> None:
        self.made: list[Failure] = []
        self._controller = controller
        self._gang = gang
        self._random = random.Random(SEED)

    async def make_all(self) -> None:
        loop, clock = asyncio.get_running_loop(), SystemClock()
        begin, is_killed = loop.time(), False
        for number in range(FAILURES):
            await asyncio.sleep(max(0.0, begin + number * PERIOD_SECONDS - loop.time()))
            is_settled = not is_killed
            if is_settled:
                await self._gang.wait_for_epoch(self._find_newest_epoch())
            index, epoch = await self._choose()
            self.made.append(Failure(clock.now(), index, epoch, is_settled))
            self._gang.kill_member(index)
            is_killed = number in OUTAGES
            if is_killed:
                await asyncio.sleep(OUTAGES[number])
                self._controller.child.kill()
        await self._gang.wait_for_epoch(self.made[-1].epoch + 1)

    def _find_newest_epoch(self) -> int:
        return self.made[-1].epoch + 1 if self.made else 0

    async def _choose(self) -> tuple[int, int]:
        """Choose a member, when all processes run that have not been killed; give its epoch."""

        def find_running() -> list[int]:
            newest = max(gang.list_epochs(gang.count - 1), default=0)
            killed = {failure.index for failure in self.made if failure.epoch == newest}
            alive = [index for index in range(gang.count) if index not in killed]
            return alive if all(gang.is_running(index, newest) for index in alive) else []

        gang = self._gang
        running = await wait_until_async(find_running)
        # Real ones more often.
        real = [index for index in running if index < gang.real]
        chosen = self._random.choice([*running, *10 * real])
        return chosen, gang.list_epochs(chosen)[-1]

    def split(self, end: datetime) -> Iterator[tuple[datetime, datetime, list[int]]]:
        """Split into times of which all writes are known, with the epochs that failed in them."""
        begins = [n for n, failure in enumerate(self.made) if failure.is_settled]
        for begin, following in zip(begins, [*begins[1:], len(self.made)], strict=True):
            until = self.made[following].at if following < len(self.made) else end
            yield self.made[begin].at, until, [f.epoch for f in self.made[begin:following]]


async def test_hundred_members_of_which_one_fails_every_5_s_restart_in_constant_writes(
    policies: None, audited_plane: Access, kube: KubeClient, namespace: str, tmp_path: Path
) -> None:
    deployed, policed = deploy(audited_plane, namespace, tmp_path)
    gang = LargeGang(policed, kube, tmp_path, MEMBERS, REAL)
    clock = SystemClock()
    controller = Controller(deployed)
    failures = Failures(gang, controller)
    supervision = asyncio.create_task(controller.supervise())
    try:
        async with FakeKubelet(kube, clock, namespace, choose_script=lambda _: gang.run_pod):
            await kube.create(FRAMEWORKS, namespace, gang.build())
            await wait_until_async(lambda: len(gang.agents) + len(gang.members) == MEMBERS)
            await gang.wait_for_epoch(0)
            await gang.wait_until_settled()
            uids = await list_uids(kube, namespace)
            await failures.make_all()
            end = clock.now()
            assert await list_uids(kube, namespace) == uids
            recovery = gang.read_attempt("recovery")
    finally:
        supervision.cancel()
        controller.child.terminate()
    epochs = sorted({failure.epoch for failure in failures.made})
    assert epochs == list(range(len(epochs)))
    assert isinstance(recovery, dict)
    assert recovery["epoch"] == len(epochs)
    assert [len(role["times"]) for role in recovery["restarts"]] == [len(epochs)]
    for index in range(MEMBERS):
        assert gang.list_epochs(index) == [*epochs, len(epochs)]
    for begin, until, failed in failures.split(end):
        count = len(set(failed))
        expected = Counter({REPORT: count + len(failed), STATUS: 2 * count, ROSTER: count})
        writes = gang.writes.count_writes(begin, until)
        if len(failed) > 1:
            # The controller was killed. Then the start of an epoch and the next epoch may be one
            # write, and a status whose answer was lost may be written once more.
            assert writes <= expected + Counter({STATUS: 1})
        else:
            assert writes == expected
    assert gang.writes.read_refused() == set()
    assert controller.ends >= len(OUTAGES)
