"""Which controller leads, and from which state the next leader continues: in virtual time."""

import asyncio

import pytest

from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, LEASES, PODS
from tests.support.builders import FRAMEWORK, NAMESPACE
from tests.support.fakes.storageclient import Fate, Request, find_type
from tests.support.simulator.controllers import TICK_SECONDS, Program, World, open_world

pytestmark = pytest.mark.looptime


def delay(program: Program, seconds: float, *, uplink: bool = False, **request: object) -> None:
    """Delay the requests with these attributes, or their answers."""

    def draw(sent: Request) -> Fate:
        is_delayed = all(getattr(sent, name) == value for name, value in request.items())
        late = seconds if is_delayed else 0
        return Fate(uplink_seconds=late) if uplink else Fate(downlink_seconds=late)

    program.link.draw = draw


async def wait_for_leader(world: World, name: str, seconds: float) -> None:
    await world.wait_for(f"leader {name}", lambda: world.read_holder() == name, seconds=seconds)


async def test_standby_is_ready_and_writes_nothing() -> None:
    async with open_world() as world:
        leader, standby = await world.start_pair()
        await world.create_gang()
        await asyncio.sleep(20)
        assert leader.list_unready() == standby.list_unready() == []
        assert standby.list_writes() == []
        assert (leader.read_metric("leader"), standby.read_metric("leader")) == (1, 0)
        assert leader.read_metric("frameworks") == standby.read_metric("frameworks") == 1


async def test_gang_of_a_killed_leader_is_continued_within_8_seconds() -> None:
    async with open_world() as world:
        leader, standby = await world.start_pair()
        await world.create_gang()
        leader.kill()
        await world.set_pods("Running")
        assert await world.wait_for_state("AttemptRunning") <= 8
        assert standby.read_metric("leader") == 1
        assert world.read_states() == [(0, "AttemptRunning")] * 2
        # The gang that it took over needs no further write.
        writes = len(standby.list_writes())
        await asyncio.sleep(60)
        assert len(standby.list_writes()) == writes


async def test_gang_of_a_stopped_leader_is_continued_within_a_second() -> None:
    async with open_world() as world:
        leader, standby = await world.start_pair()
        await world.create_gang()
        await asyncio.sleep(1)
        leader.stop.set()
        await asyncio.wait_for(leader.task, 0.2)
        await world.set_pods("Running")
        assert await world.wait_for_state("AttemptRunning") <= 0.8
        assert standby.read_metric("leader") == 1


async def test_stopped_leader_awaits_its_requests_and_releases_the_lease_last() -> None:
    async with open_world() as world:
        leader, standby = await world.start_pair()
        delay(leader, 2, resource=PODS)
        await world.create_gang()
        await world.set_pods("Pending")
        leader.stop.set()
        await asyncio.sleep(1.5)
        assert world.read_holder() == "a"
        assert standby.list_writes() == []
        await asyncio.wait_for(leader.task, 2)
        # It recorded the answers, so the next leader finds every Pod in the status.
        assert world.read_states() == [(0, "AttemptPreparing")] * 2
        await wait_for_leader(world, "b", 0.5)


async def test_stopped_leader_writes_the_status_that_it_had_put_off() -> None:
    async with open_world() as world:
        leader = world.start(is_elected=True)
        await world.create_gang(count=3)
        await asyncio.sleep(1)
        # The gang is not complete, so an address waits 0.1 s for others to be written with it.
        for number, pod in enumerate(world.list_pods()[:2]):
            await world.set_pod(pod, "Pending", number)
            await asyncio.sleep(0.01)
        addresses = [task["attemptStatus"]["podIP"] or "" for task in world.walk_tasks()]
        assert addresses == ["", "", ""]
        leader.stop.set()
        await asyncio.wait_for(leader.task, 0.05)
        addresses = [task["attemptStatus"]["podIP"] or "" for task in world.walk_tasks()]
        assert addresses == ["10.0.0.1", "10.0.0.2", ""]


async def test_leader_whose_lease_is_over_decides_nothing_until_it_is_renewed() -> None:
    async with open_world() as world:
        leader, _ = await world.start_pair()
        # Stopped between two lines; then its renewals take two seconds, and no other leads.
        leader.clock.stopped_seconds = 40
        delay(leader, 2, resource=LEASES)
        writes = len(leader.list_writes())
        decisions = leader.read_metric("decision_seconds_count")
        await world.create()
        await asyncio.sleep(1)
        assert len(leader.list_writes()) == writes
        assert leader.read_metric("decision_seconds_count") == decisions
        delay(leader, 0)
        await world.wait_for_pods(seconds=4)


async def test_leader_that_lost_its_lease_sends_nothing_more_and_fails() -> None:
    async with open_world() as world:
        leader, standby = await world.start_pair()
        await world.create_gang()
        leader.link.is_cut = True
        await wait_for_leader(world, "b", 8)
        leader.link.is_cut = False
        before = len(leader.list_writes())
        await world.create("other")
        with pytest.raises(BaseExceptionGroup, match="unhandled errors") as caught:
            await leader.task
        assert "was not renewed" in str(caught.value.exceptions[0])
        await world.wait_for_pods("other", seconds=5)
        assert len(leader.list_writes()) == before
        assert standby.read_metric("leader") == 1


async def test_new_leader_with_an_old_cache_restores_no_older_state() -> None:
    """Its watches show nothing of a whole attempt, from the creation of the Pods to the end."""
    async with open_world() as world:
        leader, standby = await world.start_pair()
        delay(leader, 1, uplink=True, resource=PODS)
        await world.create()
        await asyncio.sleep(0.5)
        assert world.read_states() == [(0, "AttemptCreationPending")] * 2
        standby.link.held_seconds = {"frameworks": 30.0, "pods": 30.0, "configmaps": 30.0}
        await world.wait_for_pods(seconds=2)
        await world.set_pods("Running")
        await asyncio.sleep(1)
        await world.set_pods("Failed")
        await world.wait_for_state("Completed", seconds=8)
        ended = world.read_status()
        leader.stop.set()
        await leader.task
        await asyncio.sleep(60)
        assert world.read_holder() == "b"
        assert not standby.task.done()
        assert world.read_status() == ended
        assert ("create", PODS) not in {(r.verb, r.resource) for r in standby.list_writes()}


async def test_status_write_of_the_last_leader_that_arrives_late_is_kept() -> None:
    async with open_world() as world:
        leader, standby = await world.start_pair()
        await world.create_gang()
        await asyncio.sleep(1)
        delay(leader, 12, uplink=True, subresource="status")
        await world.set_pods("Running")
        await asyncio.sleep(0.2)
        standby.link.held_seconds = {"pods": 12.0}
        leader.kill()
        await wait_for_leader(world, "b", 8)
        await world.wait_for_state("AttemptRunning", seconds=10)
        for _ in range(500):
            await asyncio.sleep(TICK_SECONDS)
            assert world.read_status()["state"] == "AttemptRunning"


async def test_status_write_of_a_killed_controller_without_election_is_kept() -> None:
    async with open_world() as world:
        first = world.start("a")
        await asyncio.sleep(2)
        slow: list[Request] = []

        def draw(request: Request) -> Fate:
            # The second status is that of the ConfigMap, which is recorded in it.
            slow.extend([request] if request.subresource == "status" else [])
            return Fate(uplink_seconds=9.0 if len(slow) > 1 else 0.0)

        first.link.draw = draw
        await world.create()
        await world.wait_for("a write in flight", lambda: len(slow) > 1)
        first.kill()
        await asyncio.sleep(8.9)
        # A controller that does not know the UID of the ConfigMap waits until it is gone.
        await world.user.delete(CONFIGMAPS, NAMESPACE, f"{FRAMEWORK}-attempt")
        watch = world.storage.watch_from(find_type(world.storage, FRAMEWORKS), NAMESPACE)
        world.start("b")
        await world.wait_for_state("Completed")
        states = [event.object["status"]["state"] for event in watch.pop()]
        assert "AttemptPreparing" in states
        assert "AttemptCreationPending" not in states[states.index("AttemptPreparing") :]
        assert world.read_status()["attemptStatus"]["completionStatus"]["code"] == -100
