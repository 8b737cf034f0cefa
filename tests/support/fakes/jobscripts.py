"""Scripts for the Pods of a TfJob or TrainingJob under a fake kubelet."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from framework.api import constants
from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.resources import Object
from tests.support.fakes.kubelet import FakeKubelet, FakePod, Script, run_until_deleted

ENDING_ROLES = ("master", "launcher")


class Ends:
    """The scripts of Pods: Pods that decide the end, or have an agent, end on request."""

    def __init__(self) -> None:
        self.is_told = asyncio.Event()
        self.codes: dict[str, list[int]] = {}
        """Exit codes of Pods, by name: for each of their attempts, in turn."""

    def choose(self, pod: Object) -> Script:
        metadata = pod["metadata"]
        is_ending = metadata["labels"]["FC_TASKROLE_NAME"] in ENDING_ROLES
        # The controller gives the agent in such a Pod 30 seconds to end it, before it is deleted.
        is_wrapped = constants.WRAPPER_ANNOTATION in (metadata.get("annotations") or {})
        return self.run_until_told if is_ending or is_wrapped else run_until_deleted

    async def run_until_told(self, pod: FakePod) -> None:
        await run_until_deleted(pod)
        await self.is_told.wait()
        codes = self.codes.get(pod.name)
        await pod.finish(codes.pop(0) if codes else 0)


@pytest.fixture
async def ends(kube: KubeClient, namespace: str) -> AsyncIterator[Ends]:
    """Run the Pods of the namespace by these scripts."""
    scripts = Ends()
    async with FakeKubelet(kube, SystemClock(), namespace, choose_script=scripts.choose):
        yield scripts
