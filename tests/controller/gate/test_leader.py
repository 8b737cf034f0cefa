"""The election: at most one candidate leads at a time, and a Lease is renewed whatever happens.

How soon a standby follows a leader that was killed or stopped is in test_handover.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest

from controller.gate.leader import LeaderElector, LeadershipLostError, LeaseTimes
from framework.kube.resources import LEASES, Object
from localcluster.apiserver.model.errors import StatusError
from tests.support.builders import NAMESPACE
from tests.support.builders.cases import cases
from tests.support.fakes.storageclient import Fate, LoopClock, StorageClient, open_storage
from tests.support.simulator.controllers import Link
from tests.support.slow import keep_first

pytestmark = pytest.mark.looptime

NAME = "frameworkcontroller"
TIMES = LeaseTimes()
TICK_SECONDS = 0.05


class Candidate:
    """An elector with a machine and a network of its own, and its result."""

    def __init__(self, server: "Server", name: str) -> None:
        self.name = name
        self.clock = LoopClock()
        self.link = Link()
        self.client = StorageClient(server.storage, self.link)
        self.changes: list[bool] = []
        self.elector = LeaderElector(
            self.client,
            self.clock,
            namespace=NAMESPACE,
            name=NAME,
            identity=name,
            on_change=self.changes.append,
        )
        self.task = asyncio.create_task(self._run(), name=name)

    def leads(self) -> bool:
        return self.elector.may_write()

    async def _run(self) -> None:
        await self.elector.acquire()
        await self.elector.keep()

    def kill(self) -> None:
        self.client.is_dead = True
        self.task.cancel()

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])
        await self.elector.release()


class Server:
    """One server and its candidates."""

    def __init__(self) -> None:
        self.storage = open_storage(LoopClock())
        self.client = StorageClient(self.storage)
        self.candidates: list[Candidate] = []

    def enter(self, name: str) -> Candidate:
        candidate = Candidate(self, name)
        self.candidates.append(candidate)
        return candidate

    async def read(self) -> Object:
        spec: Object = (await self.client.get(LEASES, NAMESPACE, NAME))["spec"]
        return spec

    async def wait_for_leader(self, candidate: Candidate) -> float:
        """Wait until a candidate leads; return how long that took."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        while not candidate.leads():
            assert loop.time() - started < 30, f"{candidate.name} never leads"
            await asyncio.sleep(TICK_SECONDS)
        return loop.time() - started


@asynccontextmanager
async def open_server() -> AsyncGenerator[Server]:
    server = Server()
    try:
        yield server
    finally:
        for candidate in server.candidates:
            candidate.task.cancel()
        await asyncio.gather(*(c.task for c in server.candidates), return_exceptions=True)


@asynccontextmanager
async def open_pair() -> AsyncGenerator[tuple[Server, Candidate, Candidate]]:
    """A server, a leader ``a`` and a standby ``b``."""
    async with open_server() as server:
        leader, standby = server.enter("a"), server.enter("b")
        await server.wait_for_leader(leader)
        await asyncio.sleep(10)
        assert (leader.leads(), standby.leads()) == (True, False)
        yield server, leader, standby


async def test_first_candidate_creates_the_lease_and_renews_it() -> None:
    async with open_server() as server:
        leader = server.enter("a")
        assert await server.wait_for_leader(leader) <= TICK_SECONDS
        first = await server.read()
        await asyncio.sleep(60)
        last = await server.read()
        assert leader.leads()
        assert leader.changes == [True]
        assert first["holderIdentity"] == last["holderIdentity"] == "a"
        assert first["leaseDurationSeconds"] == 6
        assert first["acquireTime"] == last["acquireTime"] < last["renewTime"]
        assert last["leaseTransitions"] == 1
        renewals = sum(request.verb == "replace" for request in leader.client.sent)
        assert 55 <= renewals <= 60


async def test_standby_waits_for_the_end_of_the_lease_of_a_killed_leader() -> None:
    async with open_pair() as (server, leader, standby):
        leader.kill()
        waited = await server.wait_for_leader(standby)
        assert TIMES.lease_seconds - TIMES.retry_seconds <= waited <= 7.5
        spec = await server.read()
        assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("b", 2)


async def test_lease_that_was_released_is_acquired_within_half_a_second() -> None:
    async with open_pair() as (server, leader, standby):
        await leader.stop()
        assert leader.changes == [True, False]
        assert await server.wait_for_leader(standby) <= 0.5


async def test_candidate_stopped_before_it_leads_leaves_the_lease_alone() -> None:
    async with open_pair() as (server, leader, standby):
        await standby.stop()
        assert (await server.read())["holderIdentity"] == "a"
        assert leader.leads()


async def test_leader_without_a_server_stops_acting_before_another_may_begin() -> None:
    async with open_pair() as (server, leader, standby):
        leader.link.is_cut = True
        loop = asyncio.get_running_loop()
        cut_at = loop.time()
        while leader.leads():
            assert not standby.leads()
            await asyncio.sleep(TICK_SECONDS)
        assert loop.time() - cut_at <= TIMES.renew_seconds + TICK_SECONDS
        with pytest.raises(LeadershipLostError, match="was not renewed for 4 s"):
            await leader.task
        assert loop.time() - cut_at <= TIMES.renew_seconds + TIMES.retry_seconds + TICK_SECONDS
        assert leader.changes == [True, False]
        await server.wait_for_leader(standby)
        assert loop.time() - cut_at <= 8


@cases(
    "fates following",
    answers_are_lost=([Fate(is_answer_lost=True)] * 2, Fate()),
    server_is_slow=([], Fate(uplink_seconds=1.8, downlink_seconds=1.8)),
)
async def test_leader_keeps_the_lease_though(fates: list[Fate], following: Fate) -> None:
    async with open_pair() as (server, leader, standby):
        first = iter(fates)
        leader.link.draw = lambda _: next(first, following)
        for _ in range(600):
            await asyncio.sleep(TICK_SECONDS)
            assert not standby.leads()
        assert not leader.task.done()
        assert (await server.read())["holderIdentity"] == "a"


async def test_leader_whose_process_was_stopped_does_not_act_before_its_next_renewal() -> None:
    async with open_pair() as (_, leader, standby):
        # SIGSTOP and SIGCONT, between two lines of the program: no timer has fired yet.
        leader.clock.stopped_seconds = 40
        assert not leader.leads()
        # No other candidate acquired it: the next renewal proves that it was held all the time.
        await asyncio.sleep(2)
        assert leader.leads()
        assert leader.changes == [True, True]
        assert not standby.leads()


async def test_leader_whose_lease_another_holds_is_lost_at_its_next_renewal() -> None:
    async with open_pair() as (server, leader, _):
        lease = await server.client.get(LEASES, NAMESPACE, NAME)
        lease["spec"]["holderIdentity"] = "b"
        await server.client.replace(LEASES, NAMESPACE, NAME, lease)
        with pytest.raises(LeadershipLostError, match="is held by b"):
            await leader.task
        assert not leader.leads()


async def test_answer_read_after_a_stop_of_the_process_does_not_count_as_new() -> None:
    async with open_server() as server:
        leader = server.enter("a")
        leader.link.draw = lambda _: Fate(downlink_seconds=0.1)
        # The answer to the first write is read 40 s after it was sent.
        await asyncio.sleep(0.15)
        leader.clock.stopped_seconds = 40
        await asyncio.sleep(0.06)
        assert not leader.leads()
        await server.wait_for_leader(leader)


async def test_lease_that_a_user_deleted_is_created_again_by_its_holder() -> None:
    async with open_pair() as (server, leader, standby):
        await server.client.delete(LEASES, NAMESPACE, NAME)
        for _ in range(100):
            await asyncio.sleep(TICK_SECONDS)
            assert not standby.leads()
        assert leader.leads()
        assert (await server.read())["holderIdentity"] == "a"


async def test_lease_that_a_user_edited_is_renewed_and_keeps_the_edit() -> None:
    async with open_pair() as (server, leader, _):
        edit = {"metadata": {"labels": {"seen": "yes"}}}
        await server.client.patch(LEASES, NAMESPACE, NAME, edit)
        await asyncio.sleep(10)
        assert leader.leads()
        lease = await server.client.get(LEASES, NAMESPACE, NAME)
        assert lease["metadata"]["labels"] == {"seen": "yes"}


def draw_fault(draw: random.Random) -> Fate:
    def delay(most: float) -> Fate:
        return Fate(uplink_seconds=draw.uniform(0, most), downlink_seconds=draw.uniform(0, most))

    faults: dict[str, tuple[int, Callable[[], Fate]]] = {
        "none": (70, lambda: delay(0.2)),
        "lost": (8, lambda: Fate(is_lost=True)),
        "answer lost": (8, lambda: Fate(is_answer_lost=True)),
        "slow": (10, lambda: delay(6)),
        "error": (4, lambda: Fate(error=StatusError(503, "ServiceUnavailable", "not now"))),
    }
    (name,) = draw.choices(list(faults), [weight for weight, _ in faults.values()])
    return faults[name][1]()


@pytest.mark.parametrize("seed", keep_first(range(6), 2))
async def test_at_most_one_leads_whatever_the_network_and_the_machines_do(seed: int) -> None:
    draw = random.Random(seed)
    names = iter(range(1000))
    async with open_server() as server:

        def enter() -> None:
            server.enter(f"c{next(names)}").link.draw = lambda _: draw_fault(draw)

        for _ in range(3):
            enter()
        led_ticks = 0
        for _ in range(1500):
            await asyncio.sleep(TICK_SECONDS)
            leaders = [c.name for c in server.candidates if c.leads()]
            assert len(leaders) <= 1, leaders
            led_ticks += len(leaders)
            victim = draw.choice(server.candidates)
            # Only a leader's clock may be ahead of the loop: a candidate would see time pass in
            # which the leader, whose machine has the same time, did not run.
            if draw.random() < 0.01 and victim.leads():
                victim.clock.stopped_seconds += draw.uniform(0, 20)
            if draw.random() < 0.003 or victim.task.done():
                victim.kill()
                server.candidates.remove(victim)
                await asyncio.gather(victim.task, return_exceptions=True)
                enter()
    # Such a network costs time, but most of the time a candidate leads.
    assert led_ticks > 500
