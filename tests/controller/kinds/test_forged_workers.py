"""The annotation that keeps the workers of scalers, written by another client, in virtual time."""

import asyncio
import json

import pytest

from framework.api import constants
from framework.kube.resources import FRAMEWORKS
from tests.controller.kinds.jobworlds import find_role
from tests.controller.kinds.scalerworlds import ScaledJob, open_scaled_job
from tests.support.builders import NAMESPACE

pytestmark = pytest.mark.looptime

NAME = constants.SCALED_WORKERS_ANNOTATION
FORGED = {"count": 30, "absent": [], "drainSeconds": 0, "replicas": 2}


async def forge(scaled: ScaledJob) -> None:
    """Write more workers than maxReplicas, which is 9."""
    patch = {"metadata": {"annotations": {NAME: json.dumps(FORGED)}}}
    await scaled.jobs.world.user.patch(FRAMEWORKS, NAMESPACE, "elastic", patch)
    await asyncio.sleep(10)


async def test_more_workers_than_max_replicas_are_put_back() -> None:
    async with open_scaled_job() as scaled:
        scaled.jobs.world.start()
        await scaled.run()
        before = scaled.jobs.read_framework()
        await forge(scaled)
        assert scaled.list_workers() == [0, 1]
        assert scaled.jobs.read_framework()["spec"] == before["spec"]
        assert NAME not in scaled.read_annotations()
        condition = scaled.jobs.read_status()["conditions"][0]
        assert condition["type"] == "FrameworkEdited"
        assert f"metadata.annotations[{NAME}]" in condition["message"]


async def test_workers_of_scalers_come_back() -> None:
    async with open_scaled_job() as scaled:
        scaled.jobs.world.start()
        await scaled.run()
        await scaled.create("ScaleOut", "more")
        assert await scaled.wait_for_end("ScaleOut", "more") == "ScaleSucceeded"
        before = scaled.read_annotations()[NAME]
        await forge(scaled)
        assert scaled.list_workers() == [0, 1, 2]
        assert scaled.read_annotations()[NAME] == before
        assert "FrameworkEdited" in scaled.jobs.read_conditions()


async def test_lower_max_replicas_removes_no_worker_of_a_scaler() -> None:
    async with open_scaled_job() as scaled:
        scaled.jobs.world.start()
        await scaled.run()
        await scaled.create("ScaleOut", "more")
        assert await scaled.wait_for_end("ScaleOut", "more") == "ScaleSucceeded"
        await scaled.edit(lambda job: job["spec"]["etReplicaSpecs"]["worker"].update(maxReplicas=2))
        await asyncio.sleep(10)
        assert scaled.list_workers() == [0, 1, 2]
        assert find_role(scaled.jobs.read_framework(), "worker")["taskNumber"] == 3
        assert "FrameworkEdited" not in scaled.jobs.read_conditions()
