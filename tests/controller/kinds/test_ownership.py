"""Objects of others that have the names of a job's own, in virtual time."""

import asyncio
import json

import pytest

from controller.kinds.decide.ownership import mark
from controller.kinds.proofs import sign
from controller.store.creation_proofs import KeyPair
from framework.kube.resources import (
    DEPLOYMENTS,
    FRAMEWORKS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    TRAININGJOBS,
    Object,
    Resource,
)
from tests.controller.kinds.jobworlds import (
    KINDS,
    REST_SECONDS,
    edit,
    end,
    list_events,
    list_names,
    open_jobs,
    run,
)
from tests.framework.kinds.jobs import build_template, build_trainingjob
from tests.support.builders import NAMESPACE, build_role_wire, build_submission
from tests.support.fakes.storageclient import SeededKeys

pytestmark = pytest.mark.looptime


def build_foreign(resource: Resource, name: str) -> Object:
    if resource is FRAMEWORKS:
        return build_submission(name, build_role_wire(number=1))
    body: Object = {"apiVersion": "v1", "kind": resource.kind, "metadata": {"name": name}}
    if resource is SERVICES:
        body["spec"] = {"clusterIP": "None", "selector": {"a": "b"}}
    return body


TAKEN = {
    "TfJob": [
        (FRAMEWORKS, "job"),
        (SERVICES, "ps-76no-0"),
        (SERVICE_ACCOUNTS, "frameworkbarrier-job"),
    ],
    "TrainingJob": [
        (FRAMEWORKS, "elastic"),
        (SERVICES, "elastic-worker-1"),
        (SECRETS, "elastic-ssh"),
    ],
}


@pytest.mark.parametrize(
    ("kind", "resource", "name"), [(kind, *item) for kind in KINDS for item in TAKEN[kind]]
)
async def test_object_of_others_is_not_touched_and_the_job_waits_until_it_is_gone(
    kind: str, resource: Resource, name: str
) -> None:
    async with open_jobs(kind) as jobs:
        user = jobs.world.user
        foreign = await user.create(resource, NAMESPACE, build_foreign(resource, name))
        jobs.world.start()
        await jobs.create()
        await jobs.world.wait_for("Blocked", lambda: "Blocked" in jobs.read_conditions())
        version = jobs.read()["metadata"]["resourceVersion"]
        await asyncio.sleep(REST_SECONDS)
        assert jobs.read()["metadata"]["resourceVersion"] == version
        found = jobs.find(resource, name)
        assert found is not None
        assert found["metadata"]["uid"] == foreign["metadata"]["uid"]
        assert found.get("spec") == foreign.get("spec")
        assert "ownerReferences" not in found["metadata"]
        text = json.dumps(jobs.read_status()["conditions"])
        assert f"the {resource.kind} {name} exists and does not belong to this job" in text
        assert "delete it, or give the job another name" in text
        (event,) = list_events(jobs)
        assert event["reason"] == "Blocked"
        await user.delete(resource, NAMESPACE, name)
        await jobs.wait_for_phase("Running")
        assert "Blocked" not in jobs.read_conditions()


FORGED = {
    "TfJob": [
        (SERVICES, "ps-76no-0"),
        (SERVICES, "tensorboard-76no"),
        (DEPLOYMENTS, "tensorboard-76no"),
        (SERVICE_ACCOUNTS, "frameworkbarrier-job"),
        (ROLES, "frameworkbarrier-job"),
        (ROLE_BINDINGS, "frameworkbarrier-job"),
    ],
    "TrainingJob": [
        (SERVICES, "elastic-worker-1"),
        (SECRETS, "elastic-ssh"),
        (ROLES, "frameworkbarrier-elastic"),
    ],
}


def build_forged(resource: Resource, name: str, job: Object) -> Object:
    """Build an object with all the marks of one of the job, signed by a key of the forger."""
    body = build_foreign(resource, name)
    body |= {"apiVersion": resource.api_version, "kind": resource.kind}
    body["metadata"]["namespace"] = NAMESPACE
    if resource is ROLE_BINDINGS:
        role = {"apiGroup": ROLES.group, "kind": "Role", "name": name}
        body |= {"roleRef": role, "subjects": [{"kind": "ServiceAccount", "name": "forger"}]}
    elif resource is DEPLOYMENTS:
        template = {"metadata": {"labels": {"a": "b"}}, "spec": build_template()["spec"]}
        body["spec"] = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    return sign(mark(body, job), NAMESPACE, KeyPair(SeededKeys("forger")))


def build_options(kind: str) -> Object:
    return {"tensorboard": {"logDir": "/logs"}} if kind == "TfJob" else {}


@pytest.mark.parametrize(
    ("kind", "resource", "name"), [(kind, *item) for kind in KINDS for item in FORGED[kind]]
)
async def test_object_with_a_forged_owner_is_not_touched_and_the_job_waits_until_it_is_gone(
    kind: str, resource: Resource, name: str
) -> None:
    async with open_jobs(kind) as jobs:
        job = await jobs.create(**build_options(kind))
        user = jobs.world.user
        forged = await user.create(resource, NAMESPACE, build_forged(resource, name, job))
        jobs.world.start()
        await jobs.world.wait_for("Blocked", lambda: "Blocked" in jobs.read_conditions())
        version = jobs.read()["metadata"]["resourceVersion"]
        await asyncio.sleep(60)
        assert jobs.read()["metadata"]["resourceVersion"] == version
        assert jobs.find(resource, name) == forged
        assert jobs.find(FRAMEWORKS, jobs.name) is None
        text = json.dumps(jobs.read_status()["conditions"])
        assert "NameTaken" in text
        assert f"the {resource.kind} {name} has this job as its owner" in text
        assert "the controller did not create it" in text
        (event,) = list_events(jobs)
        assert event["reason"] == "Blocked"
        await user.delete(resource, NAMESPACE, name)
        await jobs.wait_for_phase("Running")
        assert "Blocked" not in jobs.read_conditions()
        own = jobs.find(resource, name)
        assert own is not None
        assert own["metadata"]["uid"] != forged["metadata"]["uid"]


@pytest.mark.parametrize("kind", KINDS)
async def test_proof_that_was_copied_from_another_object_of_the_job_proves_nothing(
    kind: str,
) -> None:
    async with open_jobs(kind) as jobs:
        await run(jobs)
        name, other = list_names(jobs, SERVICES)[:2]
        copied = jobs.find(SERVICES, other)
        assert copied is not None
        (program,) = jobs.world.programs
        program.kill()
        user = jobs.world.user
        await user.delete(SERVICES, NAMESPACE, name)
        forged = build_forged(SERVICES, name, jobs.read())
        forged["metadata"]["annotations"] = copied["metadata"]["annotations"]
        stored = await user.create(SERVICES, NAMESPACE, forged)
        jobs.world.start("b")
        await jobs.world.wait_for("Blocked", lambda: "Blocked" in jobs.read_conditions())
        await asyncio.sleep(REST_SECONDS)
        assert jobs.find(SERVICES, name) == stored


@pytest.mark.parametrize("kind", KINDS)
async def test_forged_service_that_no_job_wants_is_not_deleted(kind: str) -> None:
    async with open_jobs(kind) as jobs:
        await run(jobs)
        body = build_forged(SERVICES, "unwanted", jobs.read())
        forged = await jobs.world.user.create(SERVICES, NAMESPACE, body)
        await end(jobs)
        assert jobs.find(SERVICES, "unwanted") == forged


@pytest.mark.parametrize("kind", KINDS)
async def test_job_gets_no_rights_on_a_framework_of_another_owner(kind: str) -> None:
    async with open_jobs(kind) as jobs:
        await jobs.world.user.create(FRAMEWORKS, NAMESPACE, build_foreign(FRAMEWORKS, jobs.name))
        jobs.world.start()
        await jobs.create()
        await jobs.world.wait_for("Blocked", lambda: "Blocked" in jobs.read_conditions())
        await asyncio.sleep(REST_SECONDS)
        for resource in (ROLES, ROLE_BINDINGS, SERVICE_ACCOUNTS, SERVICES, SECRETS):
            assert list_names(jobs, resource) == []


@pytest.mark.parametrize("kind", KINDS)
async def test_role_of_another_owner_is_not_bound_to_the_accounts_of_a_job(kind: str) -> None:
    async with open_jobs(kind) as jobs:
        name = f"frameworkbarrier-{jobs.name}"
        role = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": name},
            "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}],
        }
        await jobs.world.user.create(ROLES, NAMESPACE, role)
        jobs.world.start()
        await jobs.create()
        await jobs.world.wait_for("Blocked", lambda: "Blocked" in jobs.read_conditions())
        await asyncio.sleep(REST_SECONDS)
        assert list_names(jobs, ROLE_BINDINGS) == []


async def test_second_kind_of_the_same_name_is_blocked_by_the_framework_of_the_first() -> None:
    async with open_jobs("TfJob") as jobs:
        await run(jobs)
        body = build_trainingjob()
        body["metadata"] = {"name": jobs.name, "namespace": NAMESPACE}
        await jobs.world.user.create(TRAININGJOBS, NAMESPACE, body)
        await asyncio.sleep(REST_SECONDS)
        other = jobs.find(TRAININGJOBS, jobs.name)
        assert other is not None
        assert [c["type"] for c in other["status"]["conditions"]] == ["Blocked", "Created"]
        assert jobs.read_framework()["metadata"]["ownerReferences"][0]["kind"] == "TfJob"


async def test_secret_and_role_are_recognized_after_many_controllers() -> None:
    """None of the Services is of the first controller any more, as those of removed workers."""
    async with open_jobs("TrainingJob") as jobs:
        await run(jobs)
        jobs.world.programs[-1].kill()
        job = jobs.read()
        job["status"]["creatorKeys"] += [f"key-{number}" for number in range(127)]
        user = jobs.world.user
        await user.replace(jobs.resource, NAMESPACE, jobs.name, job, subresource="status")
        for name in list_names(jobs, SERVICES):
            await user.delete(SERVICES, NAMESPACE, name)
        before = [jobs.world.list_objects(resource) for resource in (SECRETS, ROLES)]
        jobs.world.start("b")
        await edit(
            jobs,
            jobs.resource,
            lambda job: job["spec"]["etReplicaSpecs"]["worker"].update(replicas=3),
        )
        await asyncio.sleep(REST_SECONDS)
        assert "Blocked" not in jobs.read_conditions()
        assert "elastic-worker-2" in list_names(jobs, SERVICES)
        assert [jobs.world.list_objects(resource) for resource in (SECRETS, ROLES)] == before
