import asyncio
import random
from collections.abc import AsyncGenerator, Callable

import pytest

from controller.gate.leader import LeaderElector, LeadershipLostError, LeaseTimes
from framework.kube.resources import LEASES, Object
from localcluster.apiserver.model.errors import StatusError
from tests.support.fakes.storageclient import (
    Fate,
    LoopClock,
    Network,
    Request,
    StorageClient,
    open_storage,
)
from tests.support.slow import keep_first

pytestmark = pytest.mark.looptime

NAMESPACE = "default"
NAME = "frameworkcontroller"
TIMES = LeaseTimes()
TICK_SECONDS = 0.05


class UnkindNetwork(Network):
    def __init__(self) -> None:
        self.draw: Callable[[Request], Fate] = lambda _: Fate()

    def draw_fate(self, request: Request) -> Fate:
        return self.draw(request)


class Candidate:
    """An elector with a machine and a network of its own, and how it ended."""

    def __init__(self, election: "Hall", name: str) -> None:
        self.name = name
        self.clock = LoopClock()
        self.network = UnkindNetwork()
        self.client = StorageClient(election.storage, self.network)
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


class Hall:
    """Where candidates meet: one server."""

    def __init__(self) -> None:
        self.storage = open_storage(LoopClock())
        self.candidates: list[Candidate] = []

    def enter(self, name: str) -> Candidate:
        candidate = Candidate(self, name)
        self.candidates.append(candidate)
        return candidate

    async def read(self) -> Object:
        spec: Object = (await StorageClient(self.storage).get(LEASES, NAMESPACE, NAME))["spec"]
        return spec

    async def wait_for_leader(self, candidate: Candidate) -> float:
        """Wait until a candidate leads; return how long that took."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        while not candidate.elector.may_write():
            assert loop.time() - started < 30, f"{candidate.name} never leads"
            await asyncio.sleep(TICK_SECONDS)
        return loop.time() - started


@pytest.fixture
async def hall() -> AsyncGenerator[Hall]:
    hall = Hall()
    yield hall
    for candidate in hall.candidates:
        candidate.task.cancel()
    await asyncio.gather(*(c.task for c in hall.candidates), return_exceptions=True)


async def open_with_standby(hall: Hall) -> tuple[Candidate, Candidate]:
    leader, standby = hall.enter("a"), hall.enter("b")
    await hall.wait_for_leader(leader)
    await asyncio.sleep(10)
    assert leader.elector.may_write()
    assert not standby.elector.may_write()
    return leader, standby


async def test_first_candidate_creates_the_lease_and_renews_it(hall: Hall) -> None:
    leader = hall.enter("a")
    assert await hall.wait_for_leader(leader) <= TICK_SECONDS
    first = await hall.read()
    await asyncio.sleep(60)
    last = await hall.read()
    assert leader.elector.may_write()
    assert leader.changes == [True]
    assert first["holderIdentity"] == last["holderIdentity"] == "a"
    assert first["leaseDurationSeconds"] == 6
    assert first["acquireTime"] == last["acquireTime"] < last["renewTime"]
    assert last["leaseTransitions"] == 1
    renewals = sum(request.verb == "replace" for request in leader.client.sent)
    assert 55 <= renewals <= 60


async def test_leader_killed_is_followed_within_8_seconds(hall: Hall) -> None:
    leader, standby = await open_with_standby(hall)
    leader.kill()
    waited = await hall.wait_for_leader(standby)
    assert TIMES.lease_seconds - TIMES.retry_seconds <= waited <= 7.5
    spec = await hall.read()
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("b", 2)


async def test_lease_handed_back_is_taken_within_half_a_second(hall: Hall) -> None:
    leader, standby = await open_with_standby(hall)
    await leader.stop()
    assert not leader.elector.may_write()
    assert leader.changes == [True, False]
    assert await hall.wait_for_leader(standby) <= 0.5


async def test_candidate_stopped_before_it_leads_leaves_the_lease_alone(hall: Hall) -> None:
    leader, standby = await open_with_standby(hall)
    await standby.stop()
    assert (await hall.read())["holderIdentity"] == "a"
    assert leader.elector.may_write()


async def test_leader_without_a_server_stops_acting_before_another_may_begin(hall: Hall) -> None:
    leader, standby = await open_with_standby(hall)
    leader.network.draw = lambda _: Fate(is_lost=True)
    loop = asyncio.get_running_loop()
    cut_at = loop.time()
    while leader.elector.may_write():
        assert not standby.elector.may_write()
        await asyncio.sleep(TICK_SECONDS)
    assert loop.time() - cut_at <= TIMES.renew_seconds + TICK_SECONDS
    with pytest.raises(LeadershipLostError, match="was not renewed for 4 s"):
        await leader.task
    assert loop.time() - cut_at <= TIMES.renew_seconds + TIMES.retry_seconds + TICK_SECONDS
    assert leader.changes == [True, False]
    await hall.wait_for_leader(standby)
    assert loop.time() - cut_at <= 8


async def test_leader_whose_answers_are_lost_stays_leader(hall: Hall) -> None:
    leader, standby = await open_with_standby(hall)
    fates = iter([Fate(is_answer_lost=True), Fate(is_answer_lost=True)])
    leader.network.draw = lambda _: next(fates, Fate())
    await asyncio.sleep(30)
    assert leader.elector.may_write()
    assert not leader.task.done()
    assert standby.changes == []


async def test_leader_of_a_slow_server_keeps_the_lease(hall: Hall) -> None:
    leader, standby = await open_with_standby(hall)
    leader.network.draw = lambda _: Fate(uplink_seconds=1.8, downlink_seconds=1.8)
    for _ in range(600):
        await asyncio.sleep(TICK_SECONDS)
        assert not standby.elector.may_write()
    assert not leader.task.done()
    assert (await hall.read())["holderIdentity"] == "a"


async def test_stopped_leader_finds_its_time_over_in_its_first_step(hall: Hall) -> None:
    leader, standby = await open_with_standby(hall)
    # SIGSTOP and SIGCONT, between two lines of the program: no timer has fired yet.
    leader.clock.stopped_seconds = 40
    assert not leader.elector.may_write()
    # Nobody took it over, so the next renewal proves that the Lease was ours all the time.
    await asyncio.sleep(2)
    assert leader.elector.may_write()
    assert leader.changes == [True, True]
    assert not standby.elector.may_write()


async def test_leader_that_was_followed_is_lost_at_its_next_renewal(hall: Hall) -> None:
    leader, standby = await open_with_standby(hall)
    spec = await hall.read() | {"holderIdentity": "b"}
    lease = await standby.client.get(LEASES, NAMESPACE, NAME)
    await standby.client.replace(LEASES, NAMESPACE, NAME, lease | {"spec": spec})
    with pytest.raises(LeadershipLostError, match="is held by b"):
        await leader.task
    assert not leader.elector.may_write()


async def test_answer_read_after_a_stop_gives_no_time_to_act(hall: Hall) -> None:
    leader = hall.enter("a")
    leader.network.draw = lambda _: Fate(downlink_seconds=0.1)
    # The answer to the first write is read 40 s after it was sent.
    await asyncio.sleep(0.15)
    leader.clock.stopped_seconds = 40
    await asyncio.sleep(0.06)
    assert not leader.elector.may_write()
    await hall.wait_for_leader(leader)


async def test_lease_deleted_by_hand_is_made_again_by_its_holder(hall: Hall) -> None:
    leader, standby = await open_with_standby(hall)
    await StorageClient(hall.storage).delete(LEASES, NAMESPACE, NAME)
    for _ in range(100):
        await asyncio.sleep(TICK_SECONDS)
        assert not standby.elector.may_write()
    assert leader.elector.may_write()
    assert (await hall.read())["holderIdentity"] == "a"


async def test_lease_edited_by_hand_is_renewed_all_the_same(hall: Hall) -> None:
    leader, _ = await open_with_standby(hall)
    await StorageClient(hall.storage).patch(
        LEASES, NAMESPACE, NAME, {"metadata": {"labels": {"seen": "yes"}}}
    )
    await asyncio.sleep(10)
    assert leader.elector.may_write()
    lease = await leader.client.get(LEASES, NAMESPACE, NAME)
    assert lease["metadata"]["labels"] == {"seen": "yes"}


def draw_fault(draw: random.Random) -> Fate:
    kind = draw.choices(("none", "lost", "answer", "slow", "error"), (70, 8, 8, 10, 4))[0]
    if kind == "lost":
        return Fate(is_lost=True)
    if kind == "answer":
        return Fate(is_answer_lost=True)
    if kind == "slow":
        return Fate(uplink_seconds=draw.uniform(0, 6), downlink_seconds=draw.uniform(0, 6))
    if kind == "error":
        return Fate(error=StatusError(503, "ServiceUnavailable", "not now"))
    return Fate(uplink_seconds=draw.uniform(0, 0.2), downlink_seconds=draw.uniform(0, 0.2))


@pytest.mark.parametrize("seed", keep_first(range(6), 2))
async def test_never_do_two_lead_whatever_the_network_and_the_machines_do(
    hall: Hall, seed: int
) -> None:
    draw = random.Random(seed)
    names = iter(range(1000))

    def enter() -> None:
        candidate = hall.enter(f"c{next(names)}")
        candidate.network.draw = lambda _: draw_fault(draw)

    for _ in range(3):
        enter()
    led_ticks = 0
    for _ in range(1500):
        await asyncio.sleep(TICK_SECONDS)
        holders = [c.name for c in hall.candidates if c.elector.may_write()]
        assert len(holders) <= 1, holders
        led_ticks += len(holders)
        victim = draw.choice(hall.candidates)
        # Only a leader's clock may run ahead of the loop: a candidate would see time pass in which
        # the leader, whose machine has the same time, did not run.
        if draw.random() < 0.01 and victim.elector.may_write():
            victim.clock.stopped_seconds += draw.uniform(0, 20)
        if draw.random() < 0.003 or victim.task.done():
            victim.kill()
            hall.candidates.remove(victim)
            await asyncio.gather(victim.task, return_exceptions=True)
            enter()
    # A network so bad costs time, but most of the time somebody leads.
    assert led_ticks > 500
