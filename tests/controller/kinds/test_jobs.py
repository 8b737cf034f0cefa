"""Jobs of other kinds on a local API server, from their creation to their end, in virtual time."""

import asyncio
import base64
import json
import logging
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from framework.kube.resources import (
    EVENTS,
    FRAMEWORKS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    TFJOBS,
    TRAININGJOBS,
    Object,
    Resource,
)
from tests.controller.kinds.jobworlds import KINDS, Jobs, open_jobs
from tests.framework.kinds.jobs import build_template, build_trainingjob
from tests.support.builders import NAMESPACE, build_role_wire, build_submission

pytestmark = pytest.mark.looptime

ENDS = {"TfJob": "Done", "TrainingJob": "Succeeded"}
SERVICE_NAMES = {
    "TfJob": ["master-76no-0", "ps-76no-0", "ps-76no-1", "worker-76no-0", "worker-76no-1"],
    "TrainingJob": ["elastic-worker-0", "elastic-worker-1"],
}
REST_SECONDS = 5


def list_names(jobs: Jobs, resource: Resource) -> list[str]:
    return sorted(body["metadata"]["name"] for body in jobs.world.list_objects(resource))


def list_events(jobs: Jobs) -> list[Object]:
    found = jobs.world.list_objects(EVENTS)
    return [event for event in found if event["involvedObject"]["kind"] == jobs.kind]


async def run(jobs: Jobs) -> None:
    jobs.world.start()
    await jobs.create()
    await jobs.wait_for_phase("Running")


async def end(jobs: Jobs) -> None:
    jobs.is_ending = True
    await jobs.wait_for_phase(ENDS[jobs.kind])
    await asyncio.sleep(REST_SECONDS)


async def edit(jobs: Jobs, resource: Resource, change: Callable[[Object], None]) -> None:
    body = jobs.find(resource, jobs.name)
    assert body is not None
    change(body)
    await jobs.world.user.replace(resource, NAMESPACE, jobs.name, body)


def find_role(body: Object, name: str) -> Object:
    (role,) = [role for role in body["spec"]["taskRoles"] if role["name"] == name]
    return role  # type: ignore[no-any-return]  # JSON


def set_workers(number: int) -> Callable[[Object], None]:
    return lambda body: find_role(body, "worker").update(taskNumber=number)


@pytest.mark.parametrize("kind", KINDS)
async def test_job_has_services_and_a_framework_that_it_owns_and_runs_to_its_end(kind: str) -> None:
    async with open_jobs(kind) as jobs:
        await run(jobs)
        assert list_names(jobs, SERVICES) == SERVICE_NAMES[kind]
        uid = jobs.read()["metadata"]["uid"]
        for body in (jobs.read_framework(), *jobs.world.list_objects(SERVICES)):
            (owner,) = body["metadata"]["ownerReferences"]
            assert (owner["kind"], owner["name"], owner["uid"]) == (kind, jobs.name, uid)
            assert owner["controller"] is owner["blockOwnerDeletion"] is True
        await end(jobs)
        status = jobs.read_status()
    if kind == "TfJob":
        assert status["state"] == "Succeeded"
        assert jobs.read_conditions() == ["RestartPolicyTranslated", "Ready"]
        states = {r["tf_replica_type"]: r["state"] for r in status["replicaStatuses"]}
        assert states["MASTER"] == "Succeeded"
    else:
        reached = ["Created", "WorkersCreated", "WorkersReady", "LauncherCreated", "Running"]
        assert jobs.read_conditions() == [*reached, "Succeeded"]
        assert status["replicaStatuses"]["Launcher"] == {"succeeded": 1}
        assert status["startTime"] <= status["completionTime"]


@pytest.mark.parametrize("policy", ["All", "Running", "None"])
async def test_clean_pod_policy_decides_whether_workers_stay(policy: str) -> None:
    async with open_jobs("TrainingJob") as jobs:
        jobs.world.start()
        await jobs.create(cleanPodPolicy=policy)
        await jobs.wait_for_phase("Running")
        await end(jobs)
        assert "elastic-launcher-0" in list_names(jobs, PODS)
        expected = SERVICE_NAMES["TrainingJob"] if policy == "None" else []
        assert list_names(jobs, SERVICES) == expected
        workers = [name for name in list_names(jobs, PODS) if "worker" in name]
        assert policy == "None" or not workers


async def test_finished_workers_stay_with_none_and_are_deleted_with_all() -> None:
    for policy, expected in (("None", ["elastic-worker-0"]), ("All", [])):
        async with open_jobs("TrainingJob") as jobs:
            jobs.world.start()
            await jobs.create(cleanPodPolicy=policy)
            await jobs.wait_for_phase("Running")
            await jobs.world.set_pod("elastic-worker-0", "Succeeded")
            await asyncio.sleep(1)
            await end(jobs)
            assert [n for n in list_names(jobs, PODS) if "worker" in n] == expected


@pytest.mark.parametrize("kind", KINDS)
async def test_deletion_in_the_foreground_removes_all_that_the_job_owns(kind: str) -> None:
    async with open_jobs(kind) as jobs:
        await run(jobs)
        user = jobs.world.user
        await user.delete(jobs.resource, NAMESPACE, jobs.name, propagation="Foreground")
        phases = set()

        def is_gone() -> bool:
            job = jobs.find(jobs.resource, jobs.name)
            if job is not None:
                phases.add(job["status"]["phase"])
                return False
            assert jobs.find(FRAMEWORKS, jobs.name) is None
            return True

        await jobs.world.wait_for("deletion", is_gone)
        await asyncio.sleep(REST_SECONDS)
        assert list(jobs.list_owned()) == []
    assert ("CleanUp" in phases) == (kind == "TfJob")


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


async def test_suspended_job_has_no_framework_and_one_that_runs_is_stopped() -> None:
    suspend = {"job-supervisor.kube-ai.io/job-suspended": "true"}
    async with open_jobs("TrainingJob") as jobs:
        jobs.world.start()
        body = jobs.build()
        body["metadata"]["annotations"] = suspend
        await jobs.world.user.create(jobs.resource, NAMESPACE, body)
        await jobs.wait_for_phase("Suspended")
        assert list(jobs.list_owned()) == []
        await edit(jobs, jobs.resource, lambda job: job["metadata"].pop("annotations"))
        await jobs.wait_for_phase("Running")
        await edit(jobs, jobs.resource, lambda job: job["metadata"].update(annotations=suspend))
        await jobs.wait_for_phase("Suspended")
        await asyncio.sleep(REST_SECONDS)
        assert jobs.read_framework()["status"]["state"] == "Completed"
        assert jobs.read_status()["phase"] == "Suspended"


async def test_scale_subresource_field_changes_workers_and_services() -> None:
    def scale(number: int) -> Callable[[Object], None]:
        return lambda job: job["spec"]["etReplicaSpecs"]["worker"].update(replicas=number)

    async with open_jobs("TrainingJob") as jobs:
        await run(jobs)
        for number in (4, 1):
            await edit(jobs, TRAININGJOBS, scale(number))
            await asyncio.sleep(REST_SECONDS)
            names = [f"elastic-worker-{index}" for index in range(number)]
            assert [n for n in list_names(jobs, PODS) if "worker" in n] == names
            assert list_names(jobs, SERVICES) == names
            assert jobs.read_status()["currentWorkers"] == names
        assert "FrameworkEdited" not in jobs.read_conditions()


async def test_deleted_service_is_created_again() -> None:
    async with open_jobs("TfJob") as jobs:
        await run(jobs)
        await jobs.world.user.delete(SERVICES, NAMESPACE, "ps-76no-1")
        await asyncio.sleep(REST_SECONDS)
        assert list_names(jobs, SERVICES) == SERVICE_NAMES["TfJob"]


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


@pytest.mark.parametrize("kind", KINDS)
async def test_job_that_has_ended_does_not_run_again_without_its_framework(kind: str) -> None:
    async with open_jobs(kind) as jobs:
        await run(jobs)
        await end(jobs)
        status = jobs.read_status()
        await jobs.world.user.delete(FRAMEWORKS, NAMESPACE, jobs.name)
        await asyncio.sleep(2 * REST_SECONDS)
        jobs.world.programs[0].kill()
        jobs.world.start("b")
        await asyncio.sleep(2 * REST_SECONDS)
        assert jobs.find(FRAMEWORKS, jobs.name) is None
        assert jobs.read_status() == status


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


async def test_key_is_made_once_and_only_the_secret_has_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    async with open_jobs("TrainingJob") as jobs:
        await run(jobs)
        (secret,) = jobs.world.list_objects(SECRETS)
        await end(jobs)
        assert jobs.world.list_objects(SECRETS) == [secret]
        shown = json.dumps([list_events(jobs), jobs.read(), jobs.read_framework()])
        requests = [str(request) for request in jobs.world.programs[0].client.sent]
    assert secret["metadata"]["name"] == "elastic-ssh"
    assert set(secret["data"]) == {"id_rsa", "id_rsa.pub", "config"}
    data = {name: base64.b64decode(text) for name, text in secret["data"].items()}
    private = load_ssh_private_key(data["id_rsa"], None)
    assert isinstance(private, Ed25519PrivateKey)
    assert load_ssh_public_key(data["id_rsa.pub"]) == private.public_key()
    assert b"StrictHostKeyChecking no" in data["config"]
    text = " ".join([shown, caplog.text, *requests, *(str(vars(r)) for r in caplog.records)])
    assert secret["data"]["id_rsa"][60:120] not in text
    assert "PRIVATE KEY" not in text


async def test_key_that_an_annotation_names_is_used_and_none_is_made() -> None:
    async with open_jobs("TrainingJob") as jobs:
        jobs.world.start()
        body = jobs.build()
        body["metadata"]["annotations"] = {"arena.kubeflow.org/ssh-secret": "mine"}
        await jobs.world.user.create(jobs.resource, NAMESPACE, body)
        await jobs.wait_for_phase("Running")
        assert jobs.world.list_objects(SECRETS) == []
        pods = find_role(jobs.read_framework(), "worker")["task"]["pod"]["spec"]
        assert [v["secret"]["secretName"] for v in pods["volumes"] if "secret" in v] == ["mine"]


async def test_controller_without_kinds_sends_no_request_about_them() -> None:
    async with open_jobs("TfJob") as jobs:
        jobs.world.config = type(jobs.world.config)()
        program = jobs.world.start()
        await jobs.create()
        await asyncio.sleep(REST_SECONDS)
        assert "status" not in jobs.read()
        asked = {request.resource.plural for request in program.client.sent}
        assert not asked & {TFJOBS.plural, TRAININGJOBS.plural, SERVICES.plural}


@pytest.mark.parametrize("kind", KINDS)
async def test_job_at_rest_causes_no_write(kind: str) -> None:
    async with open_jobs(kind) as jobs:
        await run(jobs)
        await asyncio.sleep(REST_SECONDS)
        (program,) = jobs.world.programs
        before = len(program.list_writes())
        await asyncio.sleep(120)
        assert program.list_writes()[before:] == []


@pytest.mark.parametrize("kind", KINDS)
async def test_standby_does_nothing_for_a_job_until_it_leads(kind: str) -> None:
    async with open_jobs(kind) as jobs:
        first, second = await jobs.world.start_pair()
        await jobs.create()
        await jobs.wait_for_phase("Running")
        assert second.list_writes() == []
        first.kill()
        jobs.is_ending = True
        await jobs.wait_for_phase(ENDS[kind])
        assert jobs.resource in {request.resource for request in second.list_writes()}


@pytest.mark.slow
async def test_job_of_hundreds_of_replicas_gets_all_services_and_its_end() -> None:
    async with open_jobs("TfJob") as jobs:
        jobs.world.start()
        body = jobs.build()
        body["spec"]["replicaSpecs"][1]["replicas"] = 300
        await jobs.world.user.create(jobs.resource, NAMESPACE, body)
        await jobs.wait_for_phase("Running", seconds=300)
        assert len(list_names(jobs, SERVICES)) == 303
        (program,) = jobs.world.programs
        creates = [r for r in program.client.sent if (r.verb, r.resource) == ("create", SERVICES)]
        assert len(creates) == 303
