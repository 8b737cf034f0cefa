"""A TfJob that is changed after its Framework was created, in virtual time."""

import asyncio

import pytest

from framework.kube.resources import FRAMEWORKS, SERVICES, Object
from tests.controller.kinds.jobworlds import REST_SECONDS, edit, end, list_names, open_jobs, run
from tests.framework.kinds.jobs import Change, build_template, spell_snake
from tests.framework.kinds.jobs import edit as change
from tests.support.builders import NAMESPACE

pytestmark = pytest.mark.looptime

WORKER = ("spec", "replicaSpecs", 1)
CHANGES: dict[str, tuple[Change, str]] = {
    "runtime-id": (change("spec", runtimeId="zz99"), "spec.runtimeId"),
    "replicas": (change(*WORKER, replicas=3), "spec.replicaSpecs[WORKER].replicas"),
    "port": (change(*WORKER, tfPort=3333), "spec.replicaSpecs[WORKER].tfPort"),
    "template": (
        change(*WORKER, template=build_template(image="app:2")),
        "spec.replicaSpecs[WORKER].template",
    ),
    "type": (lambda job: job["spec"]["replicaSpecs"].pop(1), "spec.replicaSpecs[WORKER].replicas"),
    "board": (change("spec", tensorboard={"logDir": "/logs"}), "spec.tensorboard"),
    "logs": (
        change("metadata", annotations={"frameworkbarrier.io/json-logs": "true"}),
        "metadata.annotations[frameworkbarrier.io/json-logs]",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_changed_field_is_named_and_nothing_changes(name: str) -> None:
    make, path = CHANGES[name]
    async with open_jobs("TfJob") as jobs:
        await run(jobs)
        await asyncio.sleep(REST_SECONDS)
        before, owned = jobs.read_framework(), list(jobs.list_owned())
        services = jobs.world.list_objects(SERVICES)
        await edit(jobs, jobs.resource, make)
        await asyncio.sleep(REST_SECONDS)
        condition = jobs.read_status()["conditions"][0]
        assert condition["type"] == "SpecChanged"
        assert path in condition["reason"]
        assert "delete the TfJob job and create it again" in condition["reason"]
        assert jobs.read_framework()["spec"] == before["spec"]
        assert list(jobs.list_owned()) == owned
        assert jobs.world.list_objects(SERVICES) == services
        assert jobs.read_status()["phase"] == "Running"
        await end(jobs)


async def test_undone_change_ends_the_condition() -> None:
    async with open_jobs("TfJob") as jobs:
        await run(jobs)
        await edit(jobs, jobs.resource, change("spec", runtimeId="zz99"))
        await asyncio.sleep(REST_SECONDS)
        assert "SpecChanged" in jobs.read_conditions()
        await edit(jobs, jobs.resource, change("spec", runtimeId="76no"))
        await asyncio.sleep(REST_SECONDS)
        assert "SpecChanged" not in jobs.read_conditions()


async def test_other_spelling_and_written_default_are_no_change() -> None:
    def respell(job: Object) -> None:
        job["spec"] = spell_snake(job["spec"])
        job["spec"]["replica_specs"][0]["tf_port"] = 2222

    async with open_jobs("TfJob") as jobs:
        await run(jobs)
        await edit(jobs, jobs.resource, respell)
        await asyncio.sleep(REST_SECONDS)
        assert "SpecChanged" not in jobs.read_conditions()
        await end(jobs)


async def test_change_counts_for_a_framework_that_is_created_again() -> None:
    async with open_jobs("TfJob") as jobs:
        await run(jobs)
        await edit(jobs, jobs.resource, change("spec", runtimeId="zz99"))
        await asyncio.sleep(REST_SECONDS)
        await jobs.world.user.delete(FRAMEWORKS, NAMESPACE, jobs.name)
        await asyncio.sleep(REST_SECONDS)
        assert "SpecChanged" not in jobs.read_conditions()
        assert "master-zz99-0" in list_names(jobs, SERVICES)
