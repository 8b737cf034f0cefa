"""A TrainingJob whose fixed fields are changed after its Framework was created, in virtual time."""

import asyncio

import pytest

from framework.kube.resources import FRAMEWORKS, SERVICES
from tests.controller.kinds.jobworlds import REST_SECONDS, Jobs, edit, end, open_jobs, run
from tests.framework.kinds.jobs import Change
from tests.framework.kinds.jobs import edit as change
from tests.support.builders import NAMESPACE

pytestmark = pytest.mark.looptime

SECRET = "arena.kubeflow.org/ssh-secret"
HOSTS = "frameworkbarrier.io/hosts"
CHANGES: dict[str, tuple[Change, str]] = {
    "mode": (change("spec", launcherAttachMode="kubexec"), "spec.launcherAttachMode"),
    "slots": (change("spec", slotsPerWorker=7), "spec.slotsPerWorker"),
    "secret": (
        change("metadata", annotations={SECRET: "other"}),
        f"metadata.annotations[{SECRET}]",
    ),
    "hosts": (change("metadata", annotations={HOSTS: "names"}), f"metadata.annotations[{HOSTS}]"),
}


def read_condition(jobs: Jobs) -> str:
    """The message of the condition SpecChanged; "" without it."""
    found = [c for c in jobs.read_status()["conditions"] if c["type"] == "SpecChanged"]
    return found[0]["message"] if found else ""


@pytest.mark.parametrize("name", CHANGES)
async def test_changed_field_is_named_and_the_old_value_stays_in_use(name: str) -> None:
    make, path = CHANGES[name]
    async with open_jobs("TrainingJob") as jobs:
        await run(jobs)
        await asyncio.sleep(REST_SECONDS)
        before, services = jobs.read_framework(), jobs.world.list_objects(SERVICES)
        await edit(jobs, jobs.resource, make)
        await asyncio.sleep(REST_SECONDS)
        assert read_condition(jobs).startswith(f"{path}: changed, but fixed")
        assert "undo the change, or delete the TrainingJob elastic" in read_condition(jobs)
        assert jobs.read_framework() == before
        assert jobs.world.list_objects(SERVICES) == services
        assert jobs.read_status()["phase"] == "Running"
        await end(jobs)


async def test_other_changes_are_applied_and_an_undone_one_ends_the_condition() -> None:
    async with open_jobs("TrainingJob") as jobs:
        await run(jobs)
        await edit(
            jobs,
            jobs.resource,
            change("spec", launcherAttachMode="kubexec", restartPolicy="OnFailure"),
        )
        await asyncio.sleep(REST_SECONDS)
        spec = jobs.read_framework()["spec"]
        assert spec["retryPolicy"]["maxRetryCount"] == 6
        volumes = spec["taskRoles"][1]["task"]["pod"]["spec"]["volumes"]
        assert [volume["name"] for volume in volumes] == ["training-job-ssh"]
        await edit(jobs, jobs.resource, change("spec", launcherAttachMode="ssh"))
        await asyncio.sleep(REST_SECONDS)
        assert read_condition(jobs) == ""


async def test_values_that_no_job_can_have_are_replaced_in_the_status() -> None:
    async with open_jobs("TrainingJob") as jobs:
        await run(jobs)
        await asyncio.sleep(REST_SECONDS)
        before, framework = jobs.read_status()["fixedFields"], jobs.read_framework()
        forged = {"spec.launcherAttachMode": "telnet", "spec.slotsPerWorker": -1}
        body = {"status": {"fixedFields": forged}}
        await jobs.world.user.patch(jobs.resource, NAMESPACE, jobs.name, body, subresource="status")
        await asyncio.sleep(REST_SECONDS)
        assert jobs.read_status()["fixedFields"] == before
        assert jobs.read_conditions()[0] == "Created"
        assert jobs.read_framework() == framework
        await end(jobs)


async def test_change_counts_for_a_framework_that_is_created_again() -> None:
    async with open_jobs("TrainingJob") as jobs:
        await run(jobs)
        await edit(jobs, jobs.resource, change("spec", slotsPerWorker=7))
        await asyncio.sleep(REST_SECONDS)
        await jobs.world.user.delete(FRAMEWORKS, NAMESPACE, jobs.name)
        await asyncio.sleep(REST_SECONDS)
        assert read_condition(jobs) == ""
        assert jobs.read_status()["fixedFields"]["spec.slotsPerWorker"] == 7
