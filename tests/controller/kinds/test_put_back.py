"""What other clients change of a job's objects is put back, in virtual time."""

import asyncio
import copy
from collections.abc import Callable
from typing import Any

import pytest

from controller.kinds.decide.services import plan_services
from framework.kube.resources import FRAMEWORKS, PODS, ROLE_BINDINGS, SERVICES, Object, Resource
from tests.controller.kinds.jobworlds import (
    KINDS,
    REST_SECONDS,
    SERVICE_NAMES,
    Jobs,
    edit,
    end,
    find_role,
    list_events,
    list_names,
    open_jobs,
    run,
)
from tests.controller.kinds.test_ownership import build_foreign
from tests.support.builders import NAMESPACE

pytestmark = pytest.mark.looptime


def add_worker(job: Object) -> None:
    job["spec"]["etReplicaSpecs"]["worker"]["replicas"] += 1


def list_requests(jobs: Jobs, resource: Resource) -> list[str]:
    """The verbs of all requests of the controller for a resource that write."""
    (program,) = jobs.world.programs
    return [request.verb for request in program.client.sent if request.resource == resource]


@pytest.mark.parametrize("kind", KINDS)
async def test_edit_of_a_service_is_put_back_by_one_write(kind: str) -> None:
    async with open_jobs(kind) as jobs:
        await run(jobs)
        name, other = list_names(jobs, SERVICES)[:2]
        before, rest = jobs.find(SERVICES, name), jobs.find(SERVICES, other)
        assert before is not None
        foreign = build_foreign(SERVICES, "foreign")
        foreign["metadata"]["labels"] = before["metadata"]["labels"]
        created = await jobs.world.user.create(SERVICES, NAMESPACE, foreign)
        count = len(list_requests(jobs, SERVICES))
        stored = copy.deepcopy(before)
        stored["spec"]["ports"][0]["port"] = 23
        stored["spec"]["selector"]["more"] = "x"
        await jobs.world.user.replace(SERVICES, NAMESPACE, name, stored)
        await asyncio.sleep(REST_SECONDS)
        after = jobs.find(SERVICES, name)
        assert after is not None
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert after["spec"] == {"publishNotReadyAddresses": False, **before["spec"]}
        assert jobs.find(SERVICES, other) == rest
        assert jobs.find(SERVICES, "foreign") == created
        assert list_requests(jobs, SERVICES)[count:] == ["patch"]
        await end(jobs)


@pytest.mark.parametrize("kind", KINDS)
async def test_service_that_was_given_an_address_is_created_again(kind: str) -> None:
    async with open_jobs(kind) as jobs:
        await run(jobs)
        name = list_names(jobs, SERVICES)[0]
        before = jobs.find(SERVICES, name)
        assert before is not None
        stored = copy.deepcopy(before)
        stored["spec"] |= {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]}
        await jobs.world.user.replace(SERVICES, NAMESPACE, name, stored)
        await asyncio.sleep(REST_SECONDS)
        after = jobs.find(SERVICES, name)
        assert after is not None
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        assert after["spec"] == before["spec"]
        await end(jobs)


async def test_change_of_the_account_of_a_job_changes_its_rolebinding() -> None:
    async with open_jobs("TrainingJob") as jobs:
        await run(jobs)
        binding = f"frameworkbarrier-{jobs.name}"
        before = jobs.find(ROLE_BINDINGS, binding)
        assert before is not None

        def change(job: Object) -> None:
            launcher = job["spec"]["etReplicaSpecs"]["launcher"]
            launcher["template"]["spec"]["serviceAccountName"] = "mine"

        await edit(jobs, jobs.resource, change)
        await asyncio.sleep(REST_SECONDS)
        after = jobs.find(ROLE_BINDINGS, binding)
        assert after is not None
        assert "mine" in {subject["name"] for subject in after["subjects"]}
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert after["roleRef"] == before["roleRef"]
        # A change of another kind does not write it again.
        count = list_requests(jobs, ROLE_BINDINGS).count("patch")
        assert count == len(list_names(jobs, ROLE_BINDINGS))
        await edit(jobs, jobs.resource, add_worker)
        await asyncio.sleep(REST_SECONDS)
        assert list_requests(jobs, ROLE_BINDINGS).count("patch") == count


async def test_rolebinding_to_another_role_gets_no_accounts() -> None:
    async with open_jobs("TrainingJob") as jobs:
        await run(jobs)
        name = f"frameworkbarrier-{jobs.name}"
        binding = jobs.find(ROLE_BINDINGS, name)
        assert binding is not None
        await jobs.world.user.delete(ROLE_BINDINGS, NAMESPACE, name)
        metadata = {key: binding["metadata"][key] for key in ("name", "labels", "ownerReferences")}
        role = {**binding["roleRef"], "name": "other"}
        forged = {**binding, "metadata": metadata, "roleRef": role, "subjects": []}
        await jobs.world.user.create(ROLE_BINDINGS, NAMESPACE, forged)
        await jobs.world.user.delete(FRAMEWORKS, NAMESPACE, jobs.name)
        await jobs.world.wait_for("Blocked", lambda: "Blocked" in jobs.read_conditions())
        stored = jobs.find(ROLE_BINDINGS, name)
        assert stored is not None
        assert not stored["subjects"]


@pytest.mark.parametrize("kind", KINDS)
async def test_services_of_a_job_at_rest_are_not_compiled_again(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []

    def plan(wanted: Any, stored: Any) -> Any:
        counts.append(1)
        return plan_services(wanted, stored)

    monkeypatch.setattr("controller.kinds.decide.plan.plan_services", plan)
    async with open_jobs(kind) as jobs:
        await run(jobs)
        await asyncio.sleep(REST_SECONDS)
        before = len(counts)
        number = jobs.read_framework()["metadata"]["resourceVersion"]
        await edit(jobs, FRAMEWORKS, lambda body: body["metadata"].update(annotations={"a": "b"}))
        await asyncio.sleep(REST_SECONDS)
        assert jobs.read_framework()["metadata"]["resourceVersion"] != number
        await jobs.world.set_pod(list_names(jobs, PODS)[-1], "Failed")
        await asyncio.sleep(REST_SECONDS)
        assert len(counts) <= before + 1
        await jobs.world.user.delete(SERVICES, NAMESPACE, list_names(jobs, SERVICES)[0])
        await asyncio.sleep(REST_SECONDS)
        assert len(counts) > before + 1
        await end(jobs)


def set_workers(number: int) -> Callable[[Object], None]:
    return lambda body: find_role(body, "worker").update(taskNumber=number)


@pytest.mark.parametrize("kind", KINDS)
async def test_edit_of_the_framework_is_put_back_with_a_condition_and_an_event(kind: str) -> None:
    async with open_jobs(kind) as jobs:
        await run(jobs)
        before = jobs.read_framework()["spec"]
        await edit(jobs, FRAMEWORKS, set_workers(5))
        await asyncio.sleep(REST_SECONDS)
        assert jobs.read_framework()["spec"] == before
        index = [role["name"] for role in before["taskRoles"]].index("worker")
        condition = jobs.read_status()["conditions"][0]
        assert condition["type"] == "FrameworkEdited"
        text = condition.get("message") or condition["reason"]
        assert (
            f"spec.taskRoles[{index}].taskNumber of the Framework {jobs.name} was changed" in text
        )
        assert f"change the {kind} {jobs.name} instead" in text
        assert [event["reason"] for event in list_events(jobs)] == ["FrameworkEdited"]
        # The edit may have created Pods; they are gone, and the job goes on.
        assert all("worker-4" not in name for name in list_names(jobs, PODS))
        await end(jobs)
        assert jobs.read_conditions()[0] == "FrameworkEdited"


@pytest.mark.parametrize("kind", KINDS)
async def test_label_that_was_removed_from_the_framework_is_put_back(kind: str) -> None:
    async with open_jobs(kind) as jobs:
        await run(jobs)
        await edit(jobs, FRAMEWORKS, lambda body: body["metadata"].pop("labels"))
        await asyncio.sleep(REST_SECONDS)
        assert jobs.read_framework()["metadata"]["labels"]["frameworkbarrier.io/job-kind"] == kind
        await end(jobs)


async def test_stop_of_the_framework_by_another_client_is_final() -> None:
    async with open_jobs("TrainingJob") as jobs:
        await run(jobs)
        await edit(jobs, FRAMEWORKS, lambda body: body["spec"].update(executionType="Stop"))
        await jobs.wait_for_phase("Failed")
        await asyncio.sleep(REST_SECONDS)
        assert jobs.read_framework()["spec"]["executionType"] == "Stop"
        assert list_events(jobs) == []


async def test_deleted_service_is_created_again() -> None:
    async with open_jobs("TfJob") as jobs:
        await run(jobs)
        await jobs.world.user.delete(SERVICES, NAMESPACE, "ps-76no-1")
        await asyncio.sleep(REST_SECONDS)
        assert list_names(jobs, SERVICES) == SERVICE_NAMES["TfJob"]


@pytest.mark.parametrize("kind", KINDS)
async def test_framework_that_another_client_deleted_is_created_again(kind: str) -> None:
    async with open_jobs(kind) as jobs:
        await run(jobs)
        uid = jobs.read_framework()["metadata"]["uid"]
        await jobs.world.user.delete(FRAMEWORKS, NAMESPACE, jobs.name)
        await asyncio.sleep(REST_SECONDS)
        assert jobs.read_framework()["metadata"]["uid"] != uid
        await jobs.wait_for_phase("Running")
        await end(jobs)
