"""A Framework beside a namespace of hot Frameworks, on a real API server and in real time.

``FRAMEWORKBARRIER_HOT_FRAMEWORKS`` sets how many are hot; the virtual-time tests of
``test_fair_shares`` have ten thousand. What counts is the ratio to the time in peace, measured in
turns, because machine and API server are shared with the programs that keep the Frameworks hot.
"""

import asyncio
import itertools
import os
import statistics
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.resources import FRAMEWORKS, NAMESPACES, Object
from tests.support.builders import build_role_wire, build_submission
from tests.support.fakes.kubelet import FakeKubelet, run_for
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkserver import start_controller
from tests.support.waiting import HANG_SECONDS

HOT_ENV = "FRAMEWORKBARRIER_HOT_FRAMEWORKS"
DEFAULT_HOT = 300
HOT = int(os.environ.get(HOT_ENV) or DEFAULT_HOT)
# A busy machine creates ten of them in a second.
# More Frameworks take longer.
pytestmark = [pytest.mark.kube, pytest.mark.timeout(max(900, HOT / 5))]

CREATORS = 16
# Edits a second of each editor: each makes the controller decide and write a status.
EDITS_PER_SECOND = 25
EDITORS = 4
LIVES = 10
RUN_SECONDS = 0.5


def build_body(name: str, execution_type: str) -> Object:
    return build_submission(name, build_role_wire("worker", 1), executionType=execution_type)


async def live(kube: KubeClient, namespace: str, name: str) -> float:
    """Create a Framework of one Task; give the seconds until it is Completed."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    await kube.create(FRAMEWORKS, namespace, build_body(name, "Start"))
    async with asyncio.timeout(HANG_SECONDS):
        while True:
            wire = await kube.get(FRAMEWORKS, namespace, name)
            if (wire.get("status") or {}).get("state") == "Completed":
                return loop.time() - started
            await asyncio.sleep(0.02)


async def create_all(kube: KubeClient, namespace: str, names: list[str]) -> None:
    left = iter(names)

    async def create_some() -> None:
        for name in left:
            await kube.create(FRAMEWORKS, namespace, build_body(name, "Create"))

    async with asyncio.TaskGroup() as tasks:
        for _ in range(CREATORS):
            tasks.create_task(create_some())


class Editor:
    """Edits one Framework after the other while it is switched on."""

    def __init__(self, kube: KubeClient, namespace: str, names: list[str]) -> None:
        self._kube = kube
        self._namespace = namespace
        self._names = names
        self.is_on = asyncio.Event()
        self.edits = 0

    async def run(self) -> None:
        for name in itertools.cycle(self._names):
            await self.is_on.wait()
            self.edits += 1
            edit = {"spec": {"description": f"edit {self.edits}"}}
            await self._kube.patch(FRAMEWORKS, self._namespace, name, edit)
            await asyncio.sleep(1 / EDITS_PER_SECOND)


async def measure(
    kube: KubeClient, namespace: str, editors: list[Editor]
) -> tuple[list[float], list[float]]:
    """Live in turns without and with the edits, so that both see the same machine."""
    peace, beside = [], []
    for number in range(LIVES):
        peace.append(await live(kube, namespace, f"peace-{number}"))
        for editor in editors:
            editor.is_on.set()
        beside.append(await live(kube, namespace, f"beside-{number}"))
        for editor in editors:
            editor.is_on.clear()
    return peace, beside


async def wait_for_statuses(kube: KubeClient, namespace: str) -> None:
    """Wait until the controller has written a status for each Framework."""
    while True:
        listed = await kube.list(FRAMEWORKS, namespace)
        if all(item.get("status") for item in listed["items"]):
            return
        # Ten thousand are many megabytes, which the server reads and writes each time.
        await asyncio.sleep(0.5 + HOT / 1000)


@pytest.fixture
async def hot_namespace(kube: KubeClient, namespace: str) -> AsyncIterator[str]:
    name = f"{namespace}-hot"
    await kube.create(NAMESPACES, None, {"metadata": {"name": name}})
    yield name
    await kube.delete(NAMESPACES, None, name)


async def test_framework_beside_hot_ones_of_another_namespace_is_hardly_delayed(
    kube: KubeClient,
    control_plane: Access,
    framework_crd: None,
    namespace: str,
    hot_namespace: str,
    tmp_path: Path,
) -> None:
    names = [f"hot-{n}" for n in range(HOT)]
    editors = [Editor(kube, hot_namespace, names[place::EDITORS]) for place in range(EDITORS)]
    kubelet = FakeKubelet(
        kube, SystemClock(), namespace, choose_script=lambda _: run_for(RUN_SECONDS)
    )
    with start_controller(control_plane, tmp_path):
        async with kubelet, asyncio.TaskGroup() as tasks:
            await create_all(kube, hot_namespace, names)
            await wait_for_statuses(kube, hot_namespace)
            running = [tasks.create_task(editor.run()) for editor in editors]
            peace, beside = await measure(kube, namespace, editors)
            for task in running:
                task.cancel()
    edits = sum(editor.edits for editor in editors)
    print(f"in peace {peace}, beside {len(names)} hot Frameworks with {edits} edits {beside}")
    # The API server and the machine are shared, and on a busy one they slow every request down.
    assert statistics.median(beside) < 3 * statistics.median(peace) + 1
