"""How often the status of a small Framework is written on a real API server, and without conflict.

The numbers are those of tests/simulation/test_frugality.py, where time is virtual. Here a busy
machine may separate simultaneous changes, so the best of some Frameworks counts; a conflict counts
in every one.
"""

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
from tests.support.servers.childprocess import find_free_ports
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkserver import start_controller
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.waiting import HANG_SECONDS

# Most machines need one; on a busy one, simultaneous changes are seen one after another.
TRIES = 60
RUN_SECONDS = 1.0


@pytest.fixture
def metrics(framework_crd: None, control_plane: Access, tmp_path: Path) -> Iterator[JsonHttp]:
    """A client of our controller's metrics."""
    (port,) = find_free_ports(1)
    with start_controller(control_plane, tmp_path, "--health-port", str(port)) as child:
        yield JsonHttp(f"http://127.0.0.1:{port}", "", None)
        child.raise_if_ended()


async def count_status_writes(kube: KubeClient, namespace: str, name: str, tasks: int) -> int:
    """Run a gang until it is Completed; return how often its status was written."""
    gang = build_submission(name, build_role_wire("worker", tasks))
    created = await kube.create(FRAMEWORKS, namespace, gang)
    events = kube.watch(
        FRAMEWORKS,
        namespace,
        resource_version=created["metadata"]["resourceVersion"],
        field_selector=f"metadata.name={name}",
        bookmarks=False,
        timeout_seconds=HANG_SECONDS,
        read_deadline_seconds=2 * HANG_SECONDS,
    )
    writes = 0
    async with aclosing(events):
        async for _, wire in events:
            writes += 1
            if wire["status"]["state"] == FrameworkState.COMPLETED:
                return writes
    raise AssertionError(f"{name} is not Completed after {HANG_SECONDS} s")


@pytest.mark.parametrize(("tasks", "most"), [(1, 6), (4, 8)])
async def test_small_framework_takes_few_status_writes_and_no_conflict(
    metrics: JsonHttp, kube: KubeClient, namespace: str, tasks: int, most: int
) -> None:
    script = run_for(RUN_SECONDS)
    writes: list[int] = []
    async with FakeKubelet(kube, SystemClock(), namespace, choose_script=lambda _: script):
        while len(writes) < TRIES and min(writes, default=most + 1) > most:
            name = f"gang{len(writes)}"
            writes.append(await count_status_writes(kube, namespace, name, tasks))
    assert min(writes) <= most, writes
    lines = str(metrics.request("GET", "/metrics")[1]).splitlines()
    assert not [line for line in lines if line.startswith("frameworkcontroller_conflicts_total")]
