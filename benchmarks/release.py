"""Gang release: from the last Pod's address at the API server to the end of each barrier.

Run by people::

    python -m benchmarks.release 10 50 100 1000 --repeat 3

Up to ``--processes`` barriers are real processes; in a larger gang, the others are watches that a
driver opens exactly like a barrier, and that count as released when the roster arrives. The end of
a process is measured by its pidfd: from then on its parent, for example the runtime of a kubelet,
can read its exit code. Linux only.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path
from urllib.parse import quote

from benchmarks.fakenode import Pod
from benchmarks.gang import Bench
from benchmarks.measuring import describe_machine, read_machine, read_metric
from framework.api import constants
from framework.api.naming import build_configmap_name
from framework.clock import SystemClock
from framework.kube.resources import CONFIGMAPS
from tests.support.servers.binaries import find_binaries

_WAIT_SECONDS = 180.0
_POLL_SECONDS = 0.2
_SETTLE_SECONDS = 1.0
_STARTERS = 8
_DRIVER = "driver"


async def count_watches(bench: Bench) -> int:
    """Count the watches of ConfigMaps that the server serves now."""
    labels = {"resource": "configmaps", "verb": "WATCH"}
    return int(await read_metric(bench.client, "apiserver_longrunning_requests", labels))


async def wait_for_watches(bench: Bench, count: int) -> None:
    """Wait until ``count`` watches of ConfigMaps are open and the server is idle again."""
    async with asyncio.timeout(_WAIT_SECONDS):
        # The server does not report when a watch is open.
        while await count_watches(bench) < count:  # noqa: ASYNC110 polls a server
            await asyncio.sleep(_POLL_SECONDS)
    await asyncio.sleep(_SETTLE_SECONDS)


class Release:
    """The release of a gang: the times at which barriers ended."""

    def __init__(self, bench: Bench, framework: str, mode: str) -> None:
        """Measure ``framework``; ``mode`` is BARRIER_FRAMEWORK_JSON, or the driver alone."""
        self._bench = bench
        self._framework = framework
        self._mode = mode
        self._clock = SystemClock()
        self._limit = asyncio.Semaphore(_STARTERS)
        self._cpu_before: dict[int, float] = {}
        self.ended_at: list[float] = []
        self.cpu_seconds: list[float] = []
        """CPU time of each process after the release."""

    async def run_barrier(self, pod: Pod) -> None:
        """Run a barrier to its end."""
        env = self._bench.build_env(pod, self._mode)
        async with self._limit:
            # Not by asyncio, which would reap the process at its end: then its CPU time could
            # no longer be read.
            child = await asyncio.to_thread(
                subprocess.Popen,
                self._bench.build_command(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=env,
            )
        self._cpu_before[child.pid] = 0.0
        try:
            self.ended_at.append(await self._wait_for_end(child.pid))
            self.cpu_seconds.append(read_cpu(child.pid) - self._cpu_before[child.pid])
        finally:
            if child.poll() is None:
                child.kill()
            code = child.wait()
        if code != 0:
            raise RuntimeError(f"the barrier of {pod.metadata.name} ended with {code}")

    async def _wait_for_end(self, pid: int) -> float:
        """Wait for the end of a process without reaping it; return the time."""
        ended: asyncio.Future[float] = asyncio.get_running_loop().create_future()

        def note() -> None:
            if not ended.done():
                ended.set_result(self._clock.monotonic())

        descriptor = os.pidfd_open(pid)
        asyncio.get_running_loop().add_reader(descriptor, note)
        try:
            return await ended
        finally:
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)

    async def watch_roster(self) -> None:
        """Watch the attempt ConfigMap by name, as a barrier does, until it has a roster."""
        name = build_configmap_name(self._framework)
        selector = quote(f"metadata.name={name}", safe="")
        query = f"watch=true&resourceVersion=0&allowWatchBookmarks=true&fieldSelector={selector}"
        chunks = self._bench.client.stream_raw(f"{CONFIGMAPS.path('default')}?{query}")
        wanted = f'"{constants.ROSTER_KEY}"'.encode()
        async with aclosing(chunks):
            tail = b""
            async for chunk in chunks:
                if wanted in tail + chunk:
                    break
                tail = chunk[-len(wanted) :]
        self.ended_at.append(self._clock.monotonic())

    async def release(self, pod: Pod) -> tuple[float, float]:
        """Give the last Pod its address; return the times of the request and of the answer."""
        for pid in self._cpu_before:
            self._cpu_before[pid] = read_cpu(pid)
        sent_at = self._clock.monotonic()
        await self._bench.start_pods([pod])
        return sent_at, self._clock.monotonic()


def read_cpu(pid: int) -> float:
    """Read the CPU seconds of a process of one thread, which may have ended, finer than ticks."""
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9


def describe_cpu(seconds: list[float]) -> str:
    """Render the median of the CPU time of the barriers."""
    return f"{statistics.median(seconds) * 1000:.2f} ms" if seconds else "-"


async def measure(bench: Bench, framework: str, size: int, mode: str, processes: int) -> None:
    """Measure one gang and print a line."""
    pods = await bench.create_gang(framework, size)
    *first, last = pods
    await bench.start_pods(first)
    release = Release(bench, framework, mode)
    real = [] if mode == _DRIVER else pods[-processes:]
    open_before = await count_watches(bench)
    async with asyncio.TaskGroup() as tasks:
        for pod in real:
            tasks.create_task(release.run_barrier(pod), name=f"barrier-{pod.metadata.name}")
        for number in range(size - len(real)):
            tasks.create_task(release.watch_roster(), name=f"watch-{number}")
        await wait_for_watches(bench, open_before + size)
        busy = read_machine().busy_seconds
        sent_at, answered_at = await release.release(last)
    busy = read_machine().busy_seconds - busy
    waits = sorted(at - sent_at for at in release.ended_at)
    print(
        f"{size:6} {mode:>7}  processes {len(real):4}  PATCH answered {answered_at - sent_at:.3f} s"
        f"  first {waits[0]:.3f}  p50 {statistics.median(waits):.3f}  last {waits[-1]:.3f} s"
        f"  cpu: machine {busy:.2f} s, a barrier {describe_cpu(release.cpu_seconds)}",
        flush=True,
    )


async def run(options: argparse.Namespace) -> None:
    """Measure every size and mode, in turns."""
    binaries = find_binaries(os.environ, build=True)
    async with Bench.open(binaries) as bench:
        for size in options.sizes:
            modes = options.modes if size <= options.processes else [_DRIVER]
            for number in range(options.repeat):
                for mode in modes:
                    name = f"gang{size}{mode}{number}"
                    await measure(bench, name, size, mode, options.processes)


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sizes", nargs="+", type=int, metavar="N")
    parser.add_argument("--repeat", type=int, default=1, metavar="N")
    parser.add_argument(
        "--processes", type=int, default=150, metavar="N", help="real ones, at most"
    )
    parser.add_argument("--modes", nargs="+", default=["off", "auto"], metavar="MODE")
    options = parser.parse_args()
    print(f"$ python -m benchmarks.release {' '.join(sys.argv[1:])}")
    print(describe_machine(), flush=True)
    asyncio.run(run(options))


if __name__ == "__main__":
    main()
