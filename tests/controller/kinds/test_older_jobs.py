"""Jobs that began under a version whose objects have no creation proofs, in virtual time."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from framework.api.constants import CREATION_PROOF_ANNOTATION
from framework.kube.resources import (
    DEPLOYMENTS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from tests.controller.kinds.jobworlds import (
    KINDS,
    REST_SECONDS,
    Jobs,
    edit,
    list_names,
    open_jobs,
)
from tests.controller.kinds.test_ownership import build_forged, build_options
from tests.controller.kinds.test_put_back import add_worker
from tests.support.builders import NAMESPACE

pytestmark = pytest.mark.looptime

SIGNED = (SERVICES, SECRETS, SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, DEPLOYMENTS)
BOARD = "tensorboard-76no"
# More than the difference of clocks that is allowed for.
LATER_SECONDS = 90


async def remove_proofs(jobs: Jobs) -> None:
    """Give a job the state in which a controller of an older version leaves it."""
    user = jobs.world.user
    change = {"metadata": {"annotations": {CREATION_PROOF_ANNOTATION: None}}}
    for resource in SIGNED:
        for name in list_names(jobs, resource):
            await user.patch(resource, NAMESPACE, name, change)
    board = jobs.find(SERVICES, BOARD)
    if board is not None:
        del board["spec"]["selector"]["job_uid"]
        await user.replace(SERVICES, NAMESPACE, BOARD, board)
    job = jobs.read()
    del job["status"]["creatorKeys"]
    await user.replace(jobs.resource, NAMESPACE, jobs.name, job, subresource="status")


@asynccontextmanager
async def open_older_job(kind: str) -> AsyncGenerator[Jobs]:
    """A running job of an older version, which this version has taken over."""
    async with open_jobs(kind) as jobs:
        older = jobs.world.start("older")
        await jobs.create(**build_options(kind))
        await jobs.wait_for_phase("Running")
        older.kill()
        await remove_proofs(jobs)
        jobs.world.start("newer")
        await asyncio.sleep(REST_SECONDS)
        yield jobs


@pytest.mark.parametrize("kind", KINDS)
async def test_objects_of_an_older_version_stay_as_they_are(kind: str) -> None:
    async with open_older_job(kind) as jobs:
        newer = jobs.world.programs[-1]
        assert {str(r) for r in newer.list_writes() if r.resource in SIGNED} == set()
        status = jobs.read_status()
        assert status["creatorKeys"] == []
        assert status["unsignedUntil"]
        assert "Blocked" not in jobs.read_conditions()


@pytest.mark.parametrize("kind", KINDS)
async def test_objects_of_an_older_job_are_created_again(kind: str) -> None:
    async with open_older_job(kind) as jobs:
        before = jobs.read_status()["unsignedUntil"]
        names = list_names(jobs, SERVICES)
        await asyncio.sleep(LATER_SECONDS)
        for name in names:
            await jobs.world.user.delete(SERVICES, NAMESPACE, name)
        await asyncio.sleep(REST_SECONDS)
        assert list_names(jobs, SERVICES) == names
        assert "Blocked" not in jobs.read_conditions()
        assert len(jobs.read_status()["creatorKeys"]) == 1
        assert jobs.read_status()["unsignedUntil"] == before


async def test_spec_of_an_older_job_can_change() -> None:
    async with open_older_job("TrainingJob") as jobs:
        await asyncio.sleep(LATER_SECONDS)
        before = [jobs.world.list_objects(resource) for resource in (SECRETS, ROLES)]
        await edit(jobs, jobs.resource, add_worker)
        await asyncio.sleep(REST_SECONDS)
        assert "Blocked" not in jobs.read_conditions()
        assert "elastic-worker-2" in list_names(jobs, SERVICES)
        assert [jobs.world.list_objects(resource) for resource in (SECRETS, ROLES)] == before


async def test_tensorboard_of_an_older_job_is_still_selected() -> None:
    async with open_older_job("TfJob") as jobs:
        await jobs.world.user.delete(SERVICES, NAMESPACE, BOARD)
        await asyncio.sleep(REST_SECONDS)
        board = jobs.find(SERVICES, BOARD)
        assert board is not None
        labels = {"mlkube.io": "", "runtime_id": "76no", "app": "tensorboard"}
        assert board["spec"]["selector"] == labels


@pytest.mark.parametrize("kind", KINDS)
async def test_object_that_was_forged_after_the_update_does_not_count(kind: str) -> None:
    async with open_older_job(kind) as jobs:
        await asyncio.sleep(LATER_SECONDS)
        jobs.world.programs[-1].kill()
        name = list_names(jobs, SERVICES)[0]
        await jobs.world.user.delete(SERVICES, NAMESPACE, name)
        body = build_forged(SERVICES, name, jobs.read())
        del body["metadata"]["annotations"]
        forged = await jobs.world.user.create(SERVICES, NAMESPACE, body)
        jobs.world.start("newest")
        await jobs.world.wait_for("Blocked", lambda: "Blocked" in jobs.read_conditions())
        await asyncio.sleep(REST_SECONDS)
        assert jobs.find(SERVICES, name) == forged
