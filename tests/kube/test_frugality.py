"""How often the status of a small Framework is written on a real API server, and with no conflict.

The numbers are those of tests/simulation/test_frugality.py, where time is virtual. Here a busy
machine may tear apart what happens at once, so the best of a few lives counts; a conflict counts
in every one.
"""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from framework.api.states import FrameworkState
from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.resources import FRAMEWORKS
from tests.support.builders import build_role_wire, build_submission
from tests.support.fakes.kubelet import FakeKubelet, run_for
from tests.support.servers.childprocess import ChildProcess, find_free_ports
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkserver import build_env
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.waiting import HANG_SECONDS

LIVES = 4
RUN_SECONDS = 1.0
CONFLICTS = "frameworkcontroller_conflicts_total"


@pytest.fixture
def metrics(framework_crd: None, control_plane: Access, tmp_path: Path) -> Iterator[JsonHttp]:
    """Our controller, by its metrics."""
    port = find_free_ports(1)[0]
    command = [sys.executable, "-m", "controller", "--kubeconfig", control_plane.kubeconfig]
    command += ["--health-port", str(port)]
    child = ChildProcess("controller", command, log=tmp_path / "controller.log", env=build_env())
    try:
        yield JsonHttp(f"http://127.0.0.1:{port}", "", None)
        child.raise_if_ended()
    finally:
        child.terminate()


async def live(kube: KubeClient, namespace: str, name: str, tasks: int) -> int:
    """Let a gang come up, run and succeed; return how often its status was written."""
    gang = build_submission(name, build_role_wire("worker", tasks))
    created = await kube.create(FRAMEWORKS, namespace, gang)
    writes = 0
    version = created["metadata"]["resourceVersion"]
    async with asyncio.timeout(HANG_SECONDS):
        while True:
            events = kube.watch(
                FRAMEWORKS,
                namespace,
                resource_version=version,
                field_selector=f"metadata.name={name}",
                bookmarks=False,
            )
            async with aclosing(events):
                async for _, wire in events:
                    version = wire["metadata"]["resourceVersion"]
                    writes += 1
                    if wire["status"]["state"] == FrameworkState.COMPLETED:
                        return writes


def read_conflicts(metrics: JsonHttp) -> list[str]:
    text = str(metrics.request("GET", "/metrics")[1])
    return [line for line in text.splitlines() if line.startswith(CONFLICTS)]


@pytest.mark.parametrize(("tasks", "most"), [(1, 6), (4, 8)])
async def test_small_framework_takes_few_status_writes_and_no_conflict(
    metrics: JsonHttp, kube: KubeClient, namespace: str, tasks: int, most: int
) -> None:
    script = run_for(RUN_SECONDS)
    writes: list[int] = []
    async with FakeKubelet(kube, SystemClock(), namespace, choose_script=lambda _: script):
        while len(writes) < LIVES and min(writes, default=most + 1) > most:
            writes.append(await live(kube, namespace, f"gang{len(writes)}", tasks))
    assert min(writes) <= most, writes
    assert read_conflicts(metrics) == []
