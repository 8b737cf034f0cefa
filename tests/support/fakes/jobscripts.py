"""What the Pods of a TfJob or TrainingJob do under a fake kubelet."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.resources import Object
from tests.support.fakes.kubelet import FakeKubelet, FakePod, Script, run_until_deleted

ENDING_ROLES = ("master", "launcher")


class Ends:
    """The scripts of Pods: the one that decides the end ends when it is told to."""

    def __init__(self) -> None:
        self.is_told = asyncio.Event()

    def choose(self, pod: Object) -> Script:
        role = pod["metadata"]["labels"]["FC_TASKROLE_NAME"]
        return self.run_until_told if role in ENDING_ROLES else run_until_deleted

    async def run_until_told(self, pod: FakePod) -> None:
        await run_until_deleted(pod)
        await self.is_told.wait()
        await pod.finish(0)


@pytest.fixture
async def ends(kube: KubeClient, namespace: str) -> AsyncIterator[Ends]:
    """Run the Pods of the namespace by these scripts."""
    scripts = Ends()
    async with FakeKubelet(kube, SystemClock(), namespace, choose_script=scripts.choose):
        yield scripts
