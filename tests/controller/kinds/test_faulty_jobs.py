"""Faults of a job: what the status says, and that nothing is created, in virtual time."""

import asyncio
import json

import pytest

from framework.kube.resources import (
    Object,
)
from tests.controller.kinds.jobworlds import (
    KINDS,
    REST_SECONDS,
    edit,
    end,
    open_jobs,
    run,
)
from tests.framework.kinds.jobs import build_template

pytestmark = pytest.mark.looptime

FAULTY: dict[str, tuple[Object, str]] = {
    "TfJob": ({"replicaSpecs": [{"template": build_template("other")}]}, "spec.replicaSpecs[0]"),
    "TrainingJob": ({"backoffLimit": -3}, "spec.backoffLimit"),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_faulty_spec_is_explained_and_nothing_created_until_it_is_corrected(
    kind: str,
) -> None:
    spec, field = FAULTY[kind]
    async with open_jobs(kind) as jobs:
        jobs.world.start()
        await jobs.create(**spec)
        await jobs.wait_for_phase("Failed")
        await asyncio.sleep(REST_SECONDS)
        assert list(jobs.list_owned()) == []
        assert field in json.dumps(jobs.read_status())
        await edit(jobs, jobs.resource, lambda job: job.update(spec=jobs.build()["spec"]))
        await jobs.wait_for_phase("Running")
        assert "Failed" not in jobs.read_conditions()


@pytest.mark.parametrize("kind", KINDS)
async def test_faulty_change_of_a_running_job_is_explained_and_it_goes_on(kind: str) -> None:
    spec, field = FAULTY[kind]
    async with open_jobs(kind) as jobs:
        await run(jobs)
        before = jobs.read_framework()["spec"]
        await edit(jobs, jobs.resource, lambda job: job["spec"].update(spec))
        await asyncio.sleep(REST_SECONDS)
        condition = jobs.read_status()["conditions"][0]
        assert condition["type"] == "InvalidSpec"
        assert field in (condition.get("message") or condition["reason"])
        assert jobs.read_status()["phase"] == "Running"
        assert jobs.read_framework()["spec"] == before
        await edit(jobs, jobs.resource, lambda job: job.update(spec=jobs.build()["spec"]))
        await asyncio.sleep(REST_SECONDS)
        assert "InvalidSpec" not in jobs.read_conditions()
        await end(jobs)


async def test_service_type_that_opens_ports_of_nodes_is_refused() -> None:
    board = {"logDir": "/logs", "serviceType": "NodePort"}
    async with open_jobs("TfJob") as jobs:
        jobs.world.start()
        await jobs.create(tensorboard=board)
        await jobs.wait_for_phase("Failed")
        assert "spec.tensorboard.serviceType: NodePort" in jobs.read_status()["reason"]
        assert list(jobs.list_owned()) == []


async def test_directory_of_the_node_for_tensorboard_is_refused() -> None:
    volumes = [{"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": {"path": "/"}}]
    async with open_jobs("TfJob") as jobs:
        jobs.world.start()
        await jobs.create(tensorboard={"logDir": "/logs", "volumes": volumes})
        await jobs.wait_for_phase("Failed")
        assert "spec.tensorboard.volumes[1].hostPath" in jobs.read_status()["reason"]
        assert list(jobs.list_owned()) == []
