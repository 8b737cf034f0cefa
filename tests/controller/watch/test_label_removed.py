"""A user takes our label away: the watch says DELETED, but nothing has died. With real sockets."""

import asyncio

import pytest

from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS, Object
from tests.controller.test_outages import NAMESPACE, Site, open_site
from tests.support.waiting import HANG_SECONDS

pytestmark = pytest.mark.local

NAME = "gang"
POD = f"{NAME}-worker-0"
UNLABELLED = {"metadata": {"labels": {"FC_FRAMEWORK_NAME": None}}}


async def read_status(site: Site) -> Object:
    found = await site.user.get(FRAMEWORKS, NAMESPACE, NAME)
    status: Object = found.get("status") or {}
    return status


async def wait_for_state(site: Site, state: str) -> Object:
    async with asyncio.timeout(HANG_SECONDS):
        while (status := await read_status(site)).get("state") != state:
            site.storage.collect_garbage()
            await asyncio.sleep(0.05)
    return status


async def set_pod(site: Site, phase: str) -> None:
    body = {"status": {"phase": phase, "podIP": "10.0.0.1"}}
    await site.user.patch(PODS, NAMESPACE, POD, body, subresource="status")


async def test_pod_and_configmap_without_our_label_are_not_declared_dead() -> None:
    async with open_site() as site:
        await site.create(NAME)
        await site.wait_for_pods(1)
        await set_pod(site, "Running")
        before = await wait_for_state(site, "AttemptRunning")
        (pod,) = await site.list_pods()
        for resource, name in ((PODS, POD), (CONFIGMAPS, f"{NAME}-attempt")):
            await site.user.patch(resource, NAMESPACE, name, UNLABELLED)
        # Longer than until the live GETs that tell.
        await asyncio.sleep(6.5)
        assert (await read_status(site))["attemptStatus"] == before["attemptStatus"]
        assert [p["metadata"]["uid"] for p in await site.list_pods()] == [pod["metadata"]["uid"]]

        await set_pod(site, "Succeeded")
        done = await wait_for_state(site, "Completed")
        (role,) = done["attemptStatus"]["taskRoleStatuses"]
        attempt = role["taskStatuses"][0]["attemptStatus"]
        assert attempt["podUID"] == pod["metadata"]["uid"]
        assert attempt["completionStatus"]["code"] == 0
        assert done["retryPolicyStatus"]["totalRetriedCount"] == 0
        assert await site.list_pods() == []
