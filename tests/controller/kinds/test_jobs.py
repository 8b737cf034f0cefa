"""Jobs of other kinds on a local API server, from their creation to their end, in virtual time."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from controller.reconcile import memory
from framework.kube.resources import (
    FRAMEWORKS,
    PODS,
    SERVICES,
    TFJOBS,
    TRAININGJOBS,
    Object,
)
from tests.controller.kinds.jobworlds import (
    ENDS,
    KINDS,
    REST_SECONDS,
    SERVICE_NAMES,
    Jobs,
    edit,
    end,
    list_names,
    open_jobs,
    run,
)
from tests.support.builders import NAMESPACE

pytestmark = pytest.mark.looptime

WORKERS = ("elastic-worker-0", "elastic-worker-1")


def read_uid(jobs: Jobs, pod: str) -> str:
    found = jobs.find(PODS, pod)
    assert found is not None
    return str(found["metadata"]["uid"])


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


@pytest.mark.parametrize("kind", KINDS)
async def test_job_whose_json_has_no_room_is_read_in_each_turn(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_OTHER_SHARES", 2**50)
    async with open_jobs(kind) as jobs:
        jobs.world.config = replace(jobs.world.config, memory_limit_bytes=2**40)
        await run(jobs)
        assert list_names(jobs, SERVICES) == SERVICE_NAMES[kind]
        await end(jobs)
        assert jobs.read_framework()["status"]["state"] == "Completed"
        gets = [r.resource for r in jobs.world.programs[0].client.sent if r.verb == "get"]
        assert jobs.resource in gets
        assert FRAMEWORKS in gets


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
        workers = [
            (name, read_phase(jobs, name)) for name in list_names(jobs, PODS) if "worker" in name
        ]
        assert workers == ([(name, "Running") for name in WORKERS] if policy == "None" else [])
        status = jobs.read_status()
        left = list(WORKERS) if policy == "None" else None
        assert status.get("currentWorkers") == left
        assert status["replicaStatuses"]["Worker"] == ({"active": 2} if left else {})


def read_phase(jobs: Jobs, name: str) -> str:
    pod = jobs.find(PODS, name)
    assert pod is not None
    return str(pod["status"]["phase"])


async def test_workers_that_were_left_running_end_with_the_job() -> None:
    async with open_jobs("TrainingJob") as jobs:
        jobs.world.start()
        await jobs.create(cleanPodPolicy="None")
        await jobs.wait_for_phase("Running")
        await end(jobs)
        await jobs.world.user.delete(jobs.resource, NAMESPACE, jobs.name, propagation="Foreground")
        await jobs.world.wait_for("deletion", lambda: jobs.find(jobs.resource, jobs.name) is None)
        await asyncio.sleep(REST_SECONDS)
        assert list(jobs.list_owned()) == []


async def test_scaling_of_a_finished_job_removes_no_service_of_a_worker_that_runs_on() -> None:
    """As a HorizontalPodAutoscaler does, which may not know that the job has ended."""
    async with open_jobs("TrainingJob") as jobs:
        jobs.world.start()
        await jobs.create(cleanPodPolicy="None")
        await jobs.wait_for_phase("Running")
        await end(jobs)
        await edit(
            jobs,
            TRAININGJOBS,
            lambda job: job["spec"]["etReplicaSpecs"]["worker"].update(replicas=1),
        )
        await asyncio.sleep(REST_SECONDS)
        assert [read_phase(jobs, name) for name in WORKERS] == ["Running", "Running"]
        assert list_names(jobs, SERVICES) == SERVICE_NAMES["TrainingJob"]


async def test_restart_of_a_job_ends_the_workers_before_the_new_attempt() -> None:
    async with open_jobs("TrainingJob") as jobs:
        jobs.world.start()
        await jobs.create(cleanPodPolicy="None", restartPolicy="OnFailure", backoffLimit=1)
        await jobs.wait_for_phase("Running")
        old = {read_uid(jobs, name) for name in WORKERS}
        await jobs.world.set_pod("elastic-launcher-0", "Failed")
        await jobs.world.wait_for("restart", lambda: jobs.read_status().get("restartCount") == 1)
        await jobs.wait_for_phase("Running")
        assert old.isdisjoint(read_uid(jobs, name) for name in WORKERS)
        await end(jobs)
        assert [read_phase(jobs, name) for name in WORKERS] == ["Running", "Running"]


async def test_finished_workers_stay_with_none_and_are_deleted_with_all() -> None:
    for policy, expected in (("None", list(WORKERS)), ("All", [])):
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


async def test_suspension_of_a_job_that_ran_is_final() -> None:
    suspend = {"job-supervisor.kube-ai.io/job-suspended": "true"}
    async with open_jobs("TrainingJob") as jobs:
        await run(jobs)
        await edit(jobs, jobs.resource, lambda job: job["metadata"].update(annotations=suspend))
        await jobs.wait_for_phase("Suspended")
        await asyncio.sleep(REST_SECONDS)
        before = jobs.read_status()
        await edit(jobs, jobs.resource, lambda job: job["metadata"].pop("annotations"))
        await asyncio.sleep(REST_SECONDS)
        assert jobs.read_status() == before
        assert before["phase"] == "Suspended"
        assert jobs.read_framework()["spec"]["executionType"] == "Stop"
        await jobs.world.user.delete(FRAMEWORKS, NAMESPACE, jobs.name)
        await asyncio.sleep(REST_SECONDS)
        assert jobs.find(FRAMEWORKS, jobs.name) is None
        assert jobs.read_status() == before


async def test_suspension_that_ends_before_the_framework_is_stopped_is_final() -> None:
    suspend = {"job-supervisor.kube-ai.io/job-suspended": "true"}
    async with open_jobs("TrainingJob") as jobs:
        await run(jobs)
        jobs.world.programs[0].kill()
        job = jobs.read()
        status = {**job["status"], "phase": "Suspended"}
        condition = {"type": "Suspended", "status": "True", "reason": "WaitingResourceTimeout"}
        status["conditions"] = [*status["conditions"], condition]
        await jobs.world.user.replace(
            jobs.resource, NAMESPACE, jobs.name, {**job, "status": status}, subresource="status"
        )
        assert suspend.keys().isdisjoint(jobs.read()["metadata"].get("annotations") or {})
        jobs.world.start("another")
        await asyncio.sleep(REST_SECONDS)
        assert jobs.read_framework()["spec"]["executionType"] == "Stop"
        assert jobs.read_status()["phase"] == "Suspended"


def replace_workers(policy: str) -> Callable[[Object], None]:
    return lambda job: job["spec"]["etReplicaSpecs"]["worker"].update(restartPolicy=policy)


@pytest.mark.parametrize("policy", ["OnFailure", "ExitCode"])
async def test_lost_worker_is_replaced_and_the_job_goes_on(policy: str) -> None:
    async with open_jobs("TrainingJob") as jobs:
        jobs.world.start()
        body = jobs.build()
        replace_workers(policy)(body)
        await jobs.world.user.create(jobs.resource, NAMESPACE, body)
        await jobs.wait_for_phase("Running")
        launcher, worker = "elastic-launcher-0", "elastic-worker-1"
        before = {name: read_uid(jobs, name) for name in (launcher, worker)}
        conditions = jobs.read_status()["conditions"]
        await jobs.world.user.delete(PODS, NAMESPACE, worker, grace_seconds=0)
        await asyncio.sleep(REST_SECONDS)
        assert read_uid(jobs, launcher) == before[launcher]
        assert read_uid(jobs, worker) != before[worker]
        status = jobs.read_status()
        assert status["conditions"] == conditions
        assert status["currentWorkers"] == SERVICE_NAMES["TrainingJob"]
        assert status["restartCount"] == 0
        await end(jobs)


async def test_job_whose_workers_are_all_lost_goes_on_with_its_launcher() -> None:
    """Not ``minReplicas`` but the launcher decides how many are enough."""
    async with open_jobs("TrainingJob") as jobs:
        await run(jobs)
        for name in SERVICE_NAMES["TrainingJob"]:
            await jobs.world.user.delete(PODS, NAMESPACE, name, grace_seconds=0)
        await asyncio.sleep(REST_SECONDS)
        assert list_names(jobs, PODS) == ["elastic-launcher-0"]
        assert jobs.read_status()["phase"] == "Running"
        await end(jobs)


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
