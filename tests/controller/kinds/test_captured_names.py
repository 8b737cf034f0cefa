"""Names and labels that two jobs share: no Service of one selects Pods of others. Virtual time."""

import asyncio
import json

import pytest

from framework.kube.resources import (
    DEPLOYMENTS,
    FRAMEWORKS,
    PODS,
    SERVICES,
    TFJOBS,
    TRAININGJOBS,
    Object,
)
from tests.controller.kinds.jobworlds import KINDS, REST_SECONDS, Jobs, list_events, open_jobs, run
from tests.framework.kinds.jobs import build_trainingjob
from tests.support.builders import NAMESPACE, build_role_wire, build_submission

pytestmark = pytest.mark.looptime


def select_pods(jobs: Jobs, service: Object) -> list[str]:
    wanted = service["spec"]["selector"].items()
    return [
        pod["metadata"]["name"]
        for pod in jobs.world.list_objects(PODS)
        if wanted <= (pod["metadata"].get("labels") or {}).items()
    ]


@pytest.mark.parametrize("kind", KINDS)
async def test_services_of_a_job_select_no_pod_of_a_framework_with_the_same_labels(
    kind: str,
) -> None:
    async with open_jobs(kind) as jobs:
        await run(jobs)
        services = jobs.world.list_objects(SERVICES)
        before = {s["metadata"]["name"]: select_pods(jobs, s) for s in services}
        assert all(len(names) == 1 for names in before.values())
        role = build_role_wire(number=1)
        labels = {**services[0]["spec"]["selector"], "more": "x"}
        role["task"]["pod"]["metadata"] = {"labels": labels}
        await jobs.world.user.create(FRAMEWORKS, NAMESPACE, build_submission("other", role))
        await jobs.world.wait_for(
            "its Pod",
            lambda: any(
                (pod["metadata"].get("labels") or {}).get("more")
                for pod in jobs.world.list_objects(PODS)
            ),
        )
        assert {s["metadata"]["name"]: select_pods(jobs, s) for s in services} == before


async def test_second_job_with_the_runtime_id_of_another_waits_until_that_is_gone() -> None:
    async with open_jobs("TfJob") as jobs:
        await run(jobs)
        services = {s["metadata"]["name"]: s for s in jobs.world.list_objects(SERVICES)}
        second = jobs.build()
        second["metadata"]["name"] = "second"
        await jobs.world.user.create(TFJOBS, NAMESPACE, second)
        await asyncio.sleep(REST_SECONDS)
        found = jobs.find(TFJOBS, "second")
        assert found is not None
        blocked = found["status"]["conditions"][0]
        assert blocked["type"] == "Blocked"
        assert "exists and does not belong to this job" in json.dumps(blocked)
        assert "another name, and another runtimeId if its spec has one" in json.dumps(blocked)
        assert jobs.find(FRAMEWORKS, "second") is None
        first_version = jobs.read()["metadata"]["resourceVersion"]
        await asyncio.sleep(60)
        again = jobs.find(TFJOBS, "second")
        assert again is not None
        assert again["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]
        assert jobs.read()["metadata"]["resourceVersion"] == first_version
        assert {s["metadata"]["name"]: s for s in jobs.world.list_objects(SERVICES)} == services
        assert len(list_events(jobs)) == 1
        assert "Blocked" not in jobs.read_conditions()


async def test_second_job_whose_service_has_the_name_of_one_of_another_kind_is_blocked() -> None:
    async with open_jobs("TfJob") as jobs:
        jobs.world.start()
        await jobs.create(runtimeId="x-worker")
        await jobs.wait_for_phase("Running")
        service = jobs.find(SERVICES, "worker-x-worker-0")
        assert service is not None
        second = build_trainingjob()
        second["metadata"] = {"name": "worker-x", "namespace": NAMESPACE}
        await jobs.world.user.create(TRAININGJOBS, NAMESPACE, second)
        await asyncio.sleep(REST_SECONDS)
        found = jobs.find(TRAININGJOBS, "worker-x")
        assert found is not None
        blocked = found["status"]["conditions"][0]
        assert (blocked["type"], blocked["reason"]) == ("Blocked", "NameTaken")
        text = "the Service worker-x-worker-0 exists and does not belong to this job"
        assert text in blocked["message"]
        assert jobs.find(FRAMEWORKS, "worker-x") is None
        assert jobs.find(SERVICES, "worker-x-worker-0") == service
        assert "Blocked" not in jobs.read_conditions()
        await jobs.world.user.delete(TFJOBS, NAMESPACE, jobs.name)
        await jobs.world.wait_for(
            "the second one", lambda: jobs.find(FRAMEWORKS, "worker-x") is not None, seconds=120
        )


async def test_service_of_tensorboard_selects_no_pod_with_the_labels_of_the_original_only() -> None:
    async with open_jobs("TfJob") as jobs:
        jobs.world.start()
        await jobs.create(tensorboard={"logDir": "/logs"})
        await jobs.wait_for_phase("Running")
        service = jobs.find(SERVICES, "tensorboard-76no")
        deployment = jobs.find(DEPLOYMENTS, "tensorboard-76no")
        assert service is not None
        assert deployment is not None
        selector = service["spec"]["selector"]
        assert selector["job_uid"] == jobs.read()["metadata"]["uid"]
        assert selector == deployment["spec"]["selector"]["matchLabels"]
        assert selector == deployment["spec"]["template"]["metadata"]["labels"]
        guessed = {"mlkube.io": "", "runtime_id": "76no", "app": "tensorboard", "job_uid": "x"}
        assert guessed.keys() == selector.keys()
        role = build_role_wire(number=1)
        role["task"]["pod"]["metadata"] = {"labels": guessed}
        await jobs.world.user.create(FRAMEWORKS, NAMESPACE, build_submission("other", role))
        await asyncio.sleep(REST_SECONDS)
        pods = jobs.world.list_objects(PODS)
        assert "other" in {pod["metadata"]["labels"]["FC_FRAMEWORK_NAME"] for pod in pods}
        assert select_pods(jobs, service) == []
