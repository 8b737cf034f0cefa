"""The workers of a TrainingJob leave nodes that are about to go: docs/trainingjob.md."""

import asyncio
from typing import Any

import pytest

from framework.kube.resources import PODS
from tests.controller.kinds.leaveworlds import (
    ANNOTATION,
    TIMEOUT_SECONDS,
    PlacedJob,
    open_placed_job,
)
from tests.controller.kinds.test_scalers import check_calm
from tests.support.builders import NAMESPACE

pytestmark = pytest.mark.looptime
REST_SECONDS = 10


async def start(placed: PlacedJob, **worker: Any) -> tuple[str, str, str]:
    """Run a job with a controller; return the UIDs of launcher and workers."""
    placed.jobs.world.start()
    await placed.run(**worker)
    return read_uids(placed)


def read_uids(placed: PlacedJob) -> tuple[str, str, str]:
    launcher, first, second = map(placed.read_uid, ("launcher-0", "worker-0", "worker-1"))
    return launcher, first, second


async def test_worker_leaves_host_files_then_its_processes_end_then_its_pod_goes() -> None:
    async with open_placed_job() as placed:
        launcher, first, second = await start(placed)
        placed.agent.is_busy = True
        await placed.cordon("n2")
        await placed.wait_for_hosts(0, seconds=2)
        assert placed.read_roster().complete
        await asyncio.sleep(REST_SECONDS)
        assert read_uids(placed) == (launcher, first, second)
        assert placed.list_hosts() == [0]
        placed.agent.is_busy = False
        await placed.wait_for_new_pod("worker-1", second, seconds=5)
        await placed.wait_for_hosts(0, 1, seconds=5)
        assert placed.read_node("worker-1") == "spare"
        assert read_uids(placed)[:2] == (launcher, first)
        assert placed.read_retries(1) == (1, 0, 1)
        assert placed.jobs.read_status()["restartCount"] == 0
        await check_calm(placed.scaled, [0, 1])


@pytest.mark.slow
async def test_pod_of_a_worker_whose_processes_do_not_end_goes_at_the_deadline() -> None:
    async with open_placed_job() as placed:
        _, _, second = await start(placed)
        placed.agent.is_busy = True
        await placed.cordon("n2")
        waited = await placed.wait_for_new_pod("worker-1", second)
        assert TIMEOUT_SECONDS <= waited < TIMEOUT_SECONDS + 3
        await check_calm(placed.scaled, [0, 1])


async def test_host_files_stay_when_fewer_than_min_replicas_would_be_left() -> None:
    """The Pod goes at once: the gang is not complete without it, so nobody acknowledges."""
    async with open_placed_job() as placed:
        launcher, first, second = await start(placed, minReplicas=2)
        placed.agent.is_busy = True
        await placed.cordon("n2")
        await placed.wait_for_new_pod("worker-1", second, seconds=3)
        await placed.wait_for_hosts(0, 1, seconds=3)
        assert read_uids(placed)[:2] == (launcher, first)
        await check_calm(placed.scaled, [0, 1])


async def test_all_workers_leave_and_are_replaced() -> None:
    async with open_placed_job() as placed:
        launcher, first, second = await start(placed)
        await placed.cordon("n1", "n2")
        await placed.wait_for_new_pod("worker-0", first, seconds=5)
        await placed.wait_for_new_pod("worker-1", second, seconds=5)
        assert placed.read_uid("launcher-0") == launcher
        await check_calm(placed.scaled, [0, 1])


@pytest.mark.slow
async def test_launcher_stays_on_a_cordoned_node() -> None:
    async with open_placed_job() as placed:
        before = await start(placed)
        await placed.cordon("n0")
        await asyncio.sleep(3 * TIMEOUT_SECONDS)
        assert read_uids(placed) == before


@pytest.mark.slow
async def test_workers_without_the_annotation_stay_and_keep_the_gang_as_it_is() -> None:
    async with open_placed_job() as placed:
        placed.annotation = None
        before = await start(placed)
        await placed.cordon("n1", "n2")
        await asyncio.sleep(3 * TIMEOUT_SECONDS)
        assert read_uids(placed) == before
        assert placed.read_retries(1) == (0, 0, 0)


async def test_annotation_of_a_running_job_is_in_effect_at_once_and_can_be_removed() -> None:
    def annotate(job: dict[str, Any]) -> None:
        job["metadata"]["annotations"] = {ANNOTATION: "timeoutSeconds=20,maxLeaves=5"}

    def clear(job: dict[str, Any]) -> None:
        del job["metadata"]["annotations"]

    async with open_placed_job() as placed:
        placed.annotation = None
        _, first, second = await start(placed)
        await placed.cordon("n2")
        await placed.scaled.edit(annotate)
        await placed.wait_for_new_pod("worker-1", second, seconds=5)
        await placed.scaled.edit(clear)
        await asyncio.sleep(REST_SECONDS)
        await placed.cordon("n1")
        await asyncio.sleep(REST_SECONDS)
        assert placed.read_uid("worker-0") == first
        await check_calm(placed.scaled, [0, 1])


async def test_worker_leaves_while_a_scale_out_is_in_progress() -> None:
    async with open_placed_job() as placed:
        _, first, _ = await start(placed)
        placed.agent.is_silent = True
        await placed.scaled.create("ScaleOut", "more", script="/s.sh")
        await placed.wait_for_hosts(0, 1, 2, seconds=10)
        placed.agent.is_silent = False
        await placed.cordon("n1")
        assert await placed.scaled.wait_for_end("ScaleOut", "more") == "ScaleSucceeded"
        await placed.wait_for_new_pod("worker-0", first, seconds=TIMEOUT_SECONDS + 5)
        await check_calm(placed.scaled, [0, 1, 2])
        assert len(placed.agent.scripts) == 1


@pytest.mark.slow
async def test_scale_in_of_a_worker_that_leaves_removes_it() -> None:
    async with open_placed_job() as placed:
        _, first, _ = await start(placed)
        placed.agent.is_busy = True
        await placed.cordon("n2")
        await placed.wait_for_hosts(0, seconds=2)
        names = {"podNames": ["elastic-worker-1"]}
        await placed.scaled.create("ScaleIn", "less", toDelete=names)
        assert await placed.scaled.wait_for_end("ScaleIn", "less") == "ScaleSucceeded"
        await placed.jobs.world.wait_for("its end", lambda: placed.find_pod("worker-1") is None)
        await check_calm(placed.scaled, [0])
        assert placed.read_uid("worker-0") == first


async def test_evicted_worker_is_replaced_with_any_restart_policy_and_not_counted() -> None:
    async with open_placed_job() as placed:
        _, _, second = await start(placed, restartPolicy="Never")
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
        }
        user, name = placed.jobs.world.user, "elastic-worker-1"
        status = {"status": {"conditions": [condition]}}
        await user.patch(PODS, NAMESPACE, name, status, subresource="status")
        await user.delete(PODS, NAMESPACE, name)
        await placed.wait_for_new_pod("worker-1", second, seconds=5)
        assert placed.read_retries(1) == (1, 0, 1)
        await check_calm(placed.scaled, [0, 1])


@pytest.mark.parametrize("is_annotated", [True, False], ids=["annotated", "not annotated"])
async def test_worker_that_fails_leaves_the_host_files_before_it_is_replaced_if_annotated(
    *, is_annotated: bool
) -> None:
    async with open_placed_job() as placed:
        if not is_annotated:
            placed.annotation = None
        _, _, second = await start(placed, restartPolicy="OnFailure")
        shown: list[list[int]] = []
        watching = asyncio.create_task(watch_shown(placed, shown))
        await placed.jobs.world.set_pod("elastic-worker-1", "Failed")
        await placed.wait_for_new_pod("worker-1", second)
        await placed.wait_for_hosts(0, 1)
        await asyncio.sleep(REST_SECONDS)
        watching.cancel()
        assert ([0] in shown) is is_annotated
        assert shown[-1] == [0, 1]


async def watch_shown(placed: PlacedJob, shown: list[list[int]]) -> None:
    """Note the workers of each complete roster, which are those in the host files."""
    while True:
        if placed.read_roster().complete:
            shown.append(placed.list_hosts())
        await asyncio.sleep(0.01)
