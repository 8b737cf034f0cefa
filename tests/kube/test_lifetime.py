"""Suspend, resume, deadline and TTL on a real API server and its garbage collector.

The controller has its shipped rights only. Requires FRAMEWORKBARRIER_SERVER, see
tests/support/servers/controlplane.py.
"""

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS, Object, Resource
from tests.support.builders import FAIL_FAST, build_role_wire, build_submission, build_template_wire
from tests.support.fakes.kubelet import FakeKubelet, FakePod, Script, run_until_deleted
from tests.support.servers.controlplane import Access
from tests.support.servers.deployed import Deployed, apply_role
from tests.support.servers.watching import wait_for_event, watch_until

pytestmark = pytest.mark.kube

NAME = "limited"
DEADLINE_SECONDS = 3


async def fail_at_once(pod: FakePod) -> None:
    """The script of a Pod that fails when it has started."""
    await pod.initialize()
    await pod.start()
    await pod.finish(1)


class Gang:
    """A Framework of two Tasks, which the tests edit and watch."""

    def __init__(self, kube: KubeClient, namespace: str) -> None:
        self.kube = kube
        self.namespace = namespace
        self._version: str | None = None

    async def create(self, **spec: Any) -> Object:
        # The garbage collector and the kubelet are as quick as they can be.
        pod = build_template_wire(terminationGracePeriodSeconds=1)
        role = build_role_wire(
            number=2, frameworkAttemptCompletionPolicy=FAIL_FAST, task={"pod": pod}
        )
        body = build_submission(NAME, role, **spec)
        created = await self.kube.create(FRAMEWORKS, self.namespace, body)
        self._version = created["metadata"]["resourceVersion"]
        return created

    async def edit(self, **spec: Any) -> None:
        await self.kube.patch(FRAMEWORKS, self.namespace, NAME, {"spec": spec})

    async def wait(
        self, is_met: Callable[[str, Object], bool], version: str | None = None
    ) -> Object:
        """Watch the Framework until an event meets a condition; return the object."""
        return await watch_until(
            self.kube,
            FRAMEWORKS,
            self.namespace,
            lambda event, body: body if is_met(event, body) else None,
            resource_version=version,
            field_selector=f"metadata.name={NAME}",
        )

    async def wait_until_deleted(self) -> Object:
        """Watch the Framework from its creation on, because it may be gone already."""
        return await self.wait(lambda event, _: event == "DELETED", self._version)

    async def wait_for_state(self, state: str, attempt: int) -> Object:
        def is_met(_event: str, body: Object) -> bool:
            status = body.get("status") or {}
            found = (status.get("state"), (status.get("attemptStatus") or {}).get("id"))
            return found == (state, attempt)

        return await self.wait(is_met)

    async def wait_until_suspended(self) -> Object:
        def is_met(_event: str, body: Object) -> bool:
            conditions = (body.get("status") or {}).get("conditions") or ()
            return any((c["type"], c["status"]) == ("Suspended", "True") for c in conditions)

        return await self.wait(is_met)

    async def list_names(self, resource: Resource) -> list[str]:
        found = (await self.kube.list(resource, self.namespace))["items"]
        names = (str(body["metadata"]["name"]) for body in found)
        return sorted(name for name in names if name.startswith(NAME))


@pytest.fixture
def deployed(
    framework_crd: None, audited_plane: Access, namespace: str, tmp_path: Path
) -> Deployed:
    objects = apply_role(audited_plane, "namespaced", namespace, tmp_path)
    return Deployed(audited_plane, objects, tmp_path)


@contextlib.asynccontextmanager
async def run_all(
    deployed: Deployed, kube: KubeClient, namespace: str, script: Script = run_until_deleted
) -> AsyncIterator[Gang]:
    """Run the controller and a fake kubelet; at the end, no request was refused."""
    child = deployed.launch()
    try:
        async with FakeKubelet(kube, SystemClock(), namespace, choose_script=lambda _: script):
            yield Gang(kube, namespace)
    finally:
        assert child.terminate() == 0
    assert deployed.audit.read_refused() == set()


async def test_gang_is_suspended_and_resumed_without_counting_a_retry(
    deployed: Deployed, kube: KubeClient, namespace: str
) -> None:
    async with run_all(deployed, kube, namespace) as gang:
        await gang.create(suspend=True)
        await gang.wait_until_suspended()
        assert await gang.list_names(CONFIGMAPS) == []
        await gang.edit(suspend=False)
        await gang.wait_for_state("AttemptRunning", 0)
        await gang.edit(suspend=True)
        suspended = await gang.wait_until_suspended()
        assert suspended["status"]["attemptStatus"]["completionStatus"]["code"] == -250
        assert await gang.list_names(PODS) == await gang.list_names(CONFIGMAPS) == []
        await gang.edit(suspend=False)
        resumed = await gang.wait_for_state("AttemptRunning", 1)
        counts = resumed["status"]["retryPolicyStatus"]
        assert (counts["totalRetriedCount"], counts["accountableRetriedCount"]) == (1, 0)
        for reason in ("Suspending", "Suspended", "Resumed"):
            await wait_for_event(kube, namespace, reason)


async def test_next_controller_resumes_what_was_suspended_under_the_one_before(
    deployed: Deployed, kube: KubeClient, namespace: str
) -> None:
    async with run_all(deployed, kube, namespace) as gang:
        await gang.create()
        await gang.wait_for_state("AttemptRunning", 0)
    gang = Gang(kube, namespace)
    await gang.edit(suspend=True)
    async with run_all(deployed, kube, namespace) as gang:
        await gang.wait_until_suspended()
    await gang.edit(suspend=False)
    async with run_all(deployed, kube, namespace) as gang:
        await gang.wait_for_state("AttemptRunning", 1)


async def test_deadline_ends_the_gang_and_a_ttl_of_zero_deletes_it(
    deployed: Deployed, kube: KubeClient, namespace: str
) -> None:
    async with run_all(deployed, kube, namespace) as gang:
        created = await gang.create(
            activeDeadlineSeconds=DEADLINE_SECONDS,
            ttlSecondsAfterFinished=0,
            retryPolicy={"fancyRetryPolicy": False, "maxRetryCount": -2},
        )
        deleted = await gang.wait_until_deleted()
        assert deleted["metadata"]["uid"] == created["metadata"]["uid"]
        assert deleted["status"]["state"] == "Completed"
        assert deleted["status"]["attemptStatus"]["completionStatus"]["code"] == -240
        # In the foreground: the Framework is gone after its objects.
        assert await gang.list_names(PODS) == await gang.list_names(CONFIGMAPS) == []
        for reason in ("DeadlineExceeded", "Expired"):
            await wait_for_event(kube, namespace, reason)


async def test_ttl_that_is_set_after_the_end_deletes_the_framework_and_its_retained_pods(
    deployed: Deployed, kube: KubeClient, namespace: str
) -> None:
    async with run_all(deployed, kube, namespace, fail_at_once) as gang:
        await gang.create(completedPodPolicy="Retain", ttlSecondsAfterFinished=100_000)
        await gang.wait_for_state("Completed", 0)
        assert await gang.list_names(PODS) != []
        await gang.edit(ttlSecondsAfterFinished=1)
        await gang.wait_until_deleted()
        assert await gang.list_names(PODS) == await gang.list_names(CONFIGMAPS) == []
