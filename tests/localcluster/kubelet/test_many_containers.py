"""A kubelet with more open files than usual limits allow."""

import contextlib
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster.kubelet.container.forkserver_process import ForkServerProcess
from localcluster.kubelet.container.process import ContainerProcess, LaunchSpec
from localcluster.kubelet.container.sandbox import NO_NAMESPACES

pytestmark = pytest.mark.local

_PRINT_LIMITS = """
import asyncio, resource
from pathlib import Path
from framework.clock import SystemClock, SystemRandom, SystemUids
from localcluster.cluster import ClusterOptions, LocalCluster

async def main():
    options = ClusterOptions(directory=Path("cluster"), with_kubelet=False, with_controller=False)
    parts = {"clock": SystemClock(), "uids": SystemUids(), "random": SystemRandom()}
    async with LocalCluster(options, **parts):
        print(*resource.getrlimit(resource.RLIMIT_NOFILE))
    print(*resource.getrlimit(resource.RLIMIT_NOFILE))

asyncio.run(main())
"""


@contextlib.contextmanager
def open_many_files() -> Iterator[None]:
    """Open so many files that new descriptors have numbers above 300."""
    null = os.open(os.devnull, os.O_RDONLY)
    copies = [os.dup(null) for _ in range(300)]
    try:
        yield
    finally:
        for descriptor in (null, *copies):
            os.close(descriptor)


def build_spec(script: str, tmp_path: Path) -> LaunchSpec:
    return LaunchSpec(
        argv=["sh", "-c", script],
        env={"PATH": os.environ["PATH"]},
        cwd="/",
        namespaces=NO_NAMESPACES,
        log=tmp_path / "log",
    )


async def test_container_is_running_and_gets_sigterm(
    server: ForkServerProcess, tmp_path: Path
) -> None:
    with open_many_files():
        container = ContainerProcess(server, build_spec("exec sleep 1000", tmp_path))
        try:
            await container.started()
            container.terminate()
            assert await container.wait() == 143
        finally:
            await container.kill()


async def test_container_has_the_soft_limit_of_the_user(
    server: ForkServerProcess, tmp_path: Path
) -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    container = ContainerProcess(server, build_spec("ulimit -n", tmp_path))
    await container.started()
    assert await container.wait() == 0
    assert (tmp_path / "log").read_text().split()[-1] == str(soft)


def test_local_cluster_raises_its_soft_limit_and_restores_it(tmp_path: Path) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    low = min(256, hard)
    done = subprocess.run(
        [sys.executable, "-c", _PRINT_LIMITS],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (low, hard)),
        capture_output=True,
        text=True,
        check=True,
    )
    within, after = [int(line.split()[0]) for line in done.stdout.splitlines()]
    assert within == max(low, min(hard, 262_144))
    assert after == low
