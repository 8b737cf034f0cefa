"""Names and labels that two jobs share: no Service of one selects Pods of others. Virtual time."""

import asyncio
import json

import pytest

from framework.kube.resources import FRAMEWORKS, PODS, SERVICES, TFJOBS, Object
from tests.controller.kinds.jobworlds import KINDS, REST_SECONDS, Jobs, list_events, open_jobs, run
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
