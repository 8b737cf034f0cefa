"""A killed cluster leaves no network behind."""

import asyncio
import contextlib
import signal
import sys
from pathlib import Path

import pytest

from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.config import load_kube_config
from framework.kube.resources import PODS
from tests.localcluster.kubelet.nodes import build_container, build_pod
from tests.support.machine.processes import read_stat
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.local


def read_parent_and_start(pid: int) -> tuple[int, str]:
    """Read who started a process and when: a number may be used again."""
    fields = read_stat(pid)
    return int(fields[1]), fields[19]


def list_processes() -> dict[int, tuple[int, str]]:
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found[int(path.name)] = read_parent_and_start(int(path.name))
    return found


def find_members(ancestor: int) -> dict[int, tuple[str, str]]:
    """Find a process's descendants in other networks than ours: network and start of each."""
    own = str(Path("/proc/self/ns/net").readlink())
    processes = list_processes()
    members = {}
    for pid, (_, start) in processes.items():
        above = pid
        while above in processes and above != ancestor:
            above = processes[above][0]
        with contextlib.suppress(OSError):
            network = str(Path(f"/proc/{pid}/ns/net").readlink())
            if above == ancestor and network != own:
                members[pid] = (network, start)
    return members


def live(members: dict[int, tuple[str, str]]) -> list[int]:
    now = list_processes()
    return [pid for pid, (_, start) in members.items() if now.get(pid, (0, ""))[1] == start]


async def start_cluster(directory: Path) -> asyncio.subprocess.Process:
    """Start a cluster without a controller, as a user does."""
    cluster = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "cli.main", "local", "up", "--directory", str(directory),
        "--no-controller", "--network", "namespace",
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert cluster.stdout is not None
    first = await cluster.stdout.readline()
    assert first.startswith(b"local cluster at "), first
    return cluster


async def run_pods(directory: Path, *names: str) -> None:
    config = load_kube_config(None, str(directory / "kubeconfig"), {})
    async with KubeClient(config, user_agent="test", clock=SystemClock()) as client:
        for name in names:
            await client.create(PODS, "default", build_pod(name, build_container("sleep 600")))
        for name in names:
            while True:
                pod = await client.get(PODS, "default", name)
                if pod["status"]["phase"] == "Running":
                    break
                await asyncio.sleep(0.05)


@pytest.mark.slow
async def test_cluster_killed_leaves_no_namespace_and_the_next_one_starts(tmp_path: Path) -> None:
    killed = await start_cluster(tmp_path)
    await run_pods(tmp_path, "a", "b")
    members = find_members(killed.pid)
    # The Pods', and that of the router.
    assert len({network for network, _ in members.values()}) == 3
    killed.send_signal(signal.SIGKILL)
    await killed.wait()
    # Nothing else holds a namespace.
    await wait_until_async(lambda: not live(members))
    following = await start_cluster(tmp_path)
    await run_pods(tmp_path, "a")
    members = find_members(following.pid)
    assert len({network for network, _ in members.values()}) == 2
    following.terminate()
    await following.wait()
    assert live(members) == []
    assert not list((tmp_path / "kubelet").glob("pods/*"))
