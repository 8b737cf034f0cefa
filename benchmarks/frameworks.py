"""Frameworks from their creation to Completed, on a real API server with fake kubelets.

Run by people::

    python -m benchmarks.frameworks 1x100 200x4 --floor --repeat 3
    python -m benchmarks.frameworks 500x1 --controller other='cd DIR && exec ./their-controller'

Each run has a control plane of its own (new etcd) and a new controller; the arms take turns within
a round, so that a change of the machine's load affects all of them. See README.md.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.fakenode import FakeNode, Meta, watch
from benchmarks.measuring import (
    ServerCounters,
    describe_machine,
    read_cpu_seconds,
    read_machine,
    read_peak_rss_mib,
    read_server,
)
from framework.api import constants
from framework.api.states import FrameworkState
from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.config import load_kube_config
from framework.kube.errors import AlreadyExistsError, NotFoundError, ServerError
from framework.kube.resources import FRAMEWORKS, Object
from tests.support.servers.binaries import Binaries, find_binaries
from tests.support.servers.childprocess import ChildProcess, find_free_ports
from tests.support.servers.controlplane import Access, ControlPlane
from tests.support.servers.frameworkserver import build_env
from tests.support.servers.jsonhttp import JsonHttp

OURS = "ours"
FLOOR = "floor"
_NAMESPACE = "default"
_SUBMITTERS = 32
_RUN_SECONDS = 1.0
_WARM_UP_SECONDS = 60.0
_RETRY_SECONDS = 0.5
_STATUS_RESOURCES = ("frameworks", "frameworks/status")


class Workload(NamedTuple):
    """A number of Frameworks, and the number of Tasks of each."""

    frameworks: int
    tasks: int

    def __str__(self) -> str:
        return f"{self.frameworks}x{self.tasks}"


class Arm(NamedTuple):
    """A controller to measure: a name, and the command for a kubeconfig and a port."""

    name: str
    command: Sequence[str]
    has_metrics: bool


@dataclass(frozen=True)
class Result:
    """The measurements of a run."""

    wall_seconds: float
    """Elapsed time."""
    cpu_seconds: float
    """CPU time of the controller."""
    peak_rss_mib: float
    """Peak memory of the controller."""
    server: ServerCounters
    """Counters of the API server."""
    total_cpu_seconds: float
    """CPU time of this benchmark and its children, which determines the time on a busy machine."""
    other_cpu_share: float
    """Cores that other programs used meanwhile."""
    own_metrics: dict[str, float]
    """Metrics of the controller; empty for a controller without them."""

    @property
    def status_writes(self) -> int:
        """Count the successful writes of a Framework's status."""
        return self._count("200")

    @property
    def conflicts(self) -> int:
        """Count the writes that were refused because of an old resourceVersion."""
        return self._count("409")

    def _count(self, code: str) -> int:
        return sum(
            self.server.requests[resource, verb, code]
            for resource in _STATUS_RESOURCES
            for verb in ("PUT", "PATCH")
        )


class _FrameworkStatus(msgspec.Struct):
    state: str = ""


class _Framework(msgspec.Struct):
    metadata: Meta
    status: _FrameworkStatus | None = None


class CompletionWatch:
    """Watches the completion of Frameworks."""

    def __init__(self, client: KubeClient) -> None:
        """Prepare."""
        self._client = client
        self._completed: set[str] = set()
        self._changed = asyncio.Event()

    async def follow(self) -> None:
        """Watch for ever."""
        decode = msgspec.json.Decoder(_Framework).decode
        async with aclosing(watch(self._client, FRAMEWORKS.path(), decode)) as events:
            async for _, framework in events:
                status = framework.status
                if status is not None and status.state == FrameworkState.COMPLETED:
                    self._completed.add(framework.metadata.name)
                    self._changed.set()

    async def wait_completed(self, names: set[str]) -> None:
        """Wait until all of them are Completed."""
        while not names <= self._completed:
            self._changed.clear()
            await self._changed.wait()


def build_framework(name: str, tasks: int) -> Object:
    """Build a Framework of one role whose Pods do nothing."""
    container = {"name": "main", "image": "busybox", "command": ["true"]}
    role = {
        "name": "worker",
        "taskNumber": tasks,
        "frameworkAttemptCompletionPolicy": {
            "minFailedTaskCount": 1,
            "minSucceededTaskCount": -1,
        },
        "task": {
            "retryPolicy": {"fancyRetryPolicy": False, "maxRetryCount": 0},
            "pod": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }
    return {
        "apiVersion": constants.API_VERSION,
        "kind": constants.FRAMEWORK_KIND,
        "metadata": {"name": name, "namespace": _NAMESPACE},
        "spec": {
            "executionType": "Start",
            "retryPolicy": {"fancyRetryPolicy": False, "maxRetryCount": 0},
            "taskRoles": [role],
        },
    }


async def submit(client: KubeClient, prefix: str, workload: Workload) -> set[str]:
    """Create a workload's Frameworks; return their names."""
    names = [f"{prefix}{number}" for number in range(workload.frameworks)]
    limit = asyncio.Semaphore(_SUBMITTERS)

    async def create(name: str) -> None:
        async with limit:
            await client.create(FRAMEWORKS, _NAMESPACE, build_framework(name, workload.tasks))

    await asyncio.gather(*(create(name) for name in names))
    return set(names)


async def warm_up(client: KubeClient) -> set[str]:
    """Create the first Framework, as soon as the server accepts it."""
    while True:
        try:
            return await submit(client, "warm", Workload(1, 2))
        except AlreadyExistsError:
            return {"warm0"}
        except (ServerError, NotFoundError):
            await asyncio.sleep(_RETRY_SECONDS)


async def run_workload(
    access: Access,
    workload: Workload,
    child: ChildProcess,
    metrics_port: int | None,
    options: argparse.Namespace,
) -> Result:
    """Run one workload under a controller that was just started."""
    clock = SystemClock()
    config = load_kube_config(None, access.kubeconfig, {})
    client = KubeClient(config, user_agent="benchmark", clock=clock)
    async with (
        client,
        FakeNode(client, clock, run_seconds=options.run_seconds, is_binding=options.bind),
    ):
        completions = CompletionWatch(client)
        follower = asyncio.create_task(completions.follow(), name="completions")
        try:
            async with asyncio.timeout(_WARM_UP_SECONDS):
                # The first Framework waits until the controller has opened its connections.
                await completions.wait_completed(await warm_up(client))
            machine, server = read_machine(), await read_server(client)
            cpu_seconds, started_at = read_cpu_seconds(child.pid), clock.monotonic()
            async with asyncio.timeout(options.timeout):
                await completions.wait_completed(await submit(client, "bench", workload))
            wall = clock.monotonic() - started_at
            spent = read_machine()
            total = spent.own_seconds - machine.own_seconds
            others = spent.busy_seconds - machine.busy_seconds - total
            return Result(
                wall_seconds=wall,
                cpu_seconds=read_cpu_seconds(child.pid) - cpu_seconds,
                peak_rss_mib=read_peak_rss_mib(child.pid),
                server=(await read_server(client)).since(server),
                total_cpu_seconds=total,
                other_cpu_share=max(0.0, others) / wall,
                own_metrics={} if metrics_port is None else read_own_metrics(metrics_port),
            )
        finally:
            follower.cancel()
            child.raise_if_ended()


def read_own_metrics(port: int) -> dict[str, float]:
    """Read the metrics of our controller, with the warm-up."""
    text = str(JsonHttp(f"http://127.0.0.1:{port}", "", None).request("GET", "/metrics")[1])
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    wanted = ("_decision_seconds_count", "_decision_seconds_sum", "_conflicts_total", "_writes_")
    return {
        name: float(value)
        for name, _, value in lines
        if any(part in name for part in wanted) and "_created" not in name
    }


def run_once(
    binaries: Binaries, arm: Arm, workload: Workload, options: argparse.Namespace
) -> Result | None:
    """Start a control plane and a controller, run the workload, stop both.

    Returns:
        None if the workload was not completed in time.
    """
    plane = ControlPlane(binaries)
    try:
        access = plane.start()
        with tempfile.TemporaryDirectory(prefix="frameworkbarrier-bench-") as folder:
            port = find_free_ports(1)[0] if arm.has_metrics else None
            command = [
                part.format(kubeconfig=access.kubeconfig, port=port) if arm.has_metrics else part
                for part in arm.command
            ]
            env = {**build_env(), "KUBECONFIG": access.kubeconfig}
            child = ChildProcess(arm.name, command, log=Path(folder) / "log", env=env)
            try:
                return asyncio.run(run_workload(access, workload, child, port, options))
            except TimeoutError:
                print(f"{workload!s:>8} {arm.name:<10} not completed in time", flush=True)
                return None
            finally:
                child.terminate()
                # Processes that a shell command has left would disturb the next run.
                child.kill()
    finally:
        plane.stop()


def build_arms(options: argparse.Namespace) -> list[Arm]:
    """Build the arms of the command line, ours first."""
    ours = [sys.executable, "-m", "controller"]
    ours += ["--kubeconfig", "{kubeconfig}", "--health-port", "{port}"]
    arms = [Arm(OURS, ours, has_metrics=True)]
    for text in options.controller:
        name, _, command = text.partition("=")
        if not command:
            name, command = "other", text
        arms.append(Arm(name, ["sh", "-c", command], has_metrics=False))
    if options.floor:
        arms.append(Arm(FLOOR, [sys.executable, "-m", "benchmarks.floor"], has_metrics=False))
    return [arm for arm in arms if not options.only or arm.name in options.only]


def report_run(arm: Arm, workload: Workload, result: Result, *, is_verbose: bool) -> None:
    """Print one run."""
    count = workload.frameworks
    print(
        f"{workload!s:>8} {arm.name:<10} wall {result.wall_seconds:6.2f} s"
        f"  cpu {result.cpu_seconds:5.2f} s  rss {result.peak_rss_mib:4.0f} MiB"
        f"  status writes {result.status_writes} ({result.status_writes / count:.2f} each)"
        f"  conflicts {result.conflicts}  server cpu {result.server.cpu_seconds:5.2f} s"
        f"  all cpu {result.total_cpu_seconds:5.2f} s"
        f"  others {result.other_cpu_share:.2f} cores",
        flush=True,
    )
    if is_verbose:
        report_requests(result.server.requests)
        for name, value in sorted(result.own_metrics.items()):
            print(f"{'':10}{name} {value:g}")


def report_requests(requests: Counter[tuple[str, str, str]]) -> None:
    """Print requests by resource, verb and status."""
    for (resource, verb, code), count in sorted(requests.items()):
        print(f"{'':10}{verb:<7}{resource:<20}{code} {count:6}")


def compare(pairs: list[tuple[Result, Result]]) -> str:
    """Describe the medians of the ratios of pairs of adjacent runs."""
    wall = statistics.median(a.wall_seconds / b.wall_seconds for a, b in pairs)
    total = statistics.median(a.total_cpu_seconds / b.total_cpu_seconds for a, b in pairs)
    own = statistics.median(a.cpu_seconds / max(b.cpu_seconds, 0.01) for a, b in pairs)
    return f"wall {wall:.2f}, all cpu {total:.2f}, controller cpu {own:.2f}"


def report_medians(workload: Workload, results: dict[str, list[Result | None]]) -> None:
    """Print each arm's medians, and the ratios of ours to them."""
    for name, all_runs in results.items():
        runs = [run for run in all_runs if run is not None]
        if not runs:
            continue
        walls = [run.wall_seconds for run in runs]
        cpu = statistics.median(run.cpu_seconds for run in runs)
        rss = statistics.median(run.peak_rss_mib for run in runs)
        line = f"{workload!s:>8} {name:<10} median wall {statistics.median(walls):6.2f} s"
        line += f" [{min(walls):.2f} .. {max(walls):.2f}]  cpu {cpu:5.2f} s  rss {rss:4.0f} MiB"
        pairs = zip(results.get(OURS, []), all_runs, strict=False)
        complete = [(a, b) for a, b in pairs if a is not None and b is not None]
        if complete and name != OURS:
            line += f"  ours / {name}: " + compare(complete)
        print(line, flush=True)


def parse_workload(text: str) -> Workload:
    """Parse ``FxT``."""
    frameworks, _, tasks = text.partition("x")
    if not (frameworks.isdecimal() and tasks.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not FRAMEWORKSxTASKS, as in 200x4")
    return Workload(int(frameworks), int(tasks))


def parse_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="+", type=parse_workload, metavar="FxT")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="rounds")
    parser.add_argument("--floor", action="store_true", help="also measure the floor")
    parser.add_argument(
        "--controller",
        action="append",
        default=[],
        metavar="[NAME=]CMD",
        help="also measure another controller, a shell command that finds $KUBECONFIG",
    )
    parser.add_argument("--only", action="append", metavar="NAME", help="measure only this arm")
    parser.add_argument("--run-seconds", type=float, default=_RUN_SECONDS, metavar="S")
    parser.add_argument("--bind", action="store_true", help="bind each Pod to a node first")
    parser.add_argument("--timeout", type=float, default=300.0, metavar="S", help="for one run")
    parser.add_argument("--verbose", action="store_true", help="requests by verb")
    return parser.parse_args()


def main() -> None:
    """Run as a program."""
    options = parse_options()
    binaries = find_binaries(os.environ, build=True)
    print(f"$ python -m benchmarks.frameworks {' '.join(sys.argv[1:])}")
    print(describe_machine(), flush=True)
    arms = build_arms(options)
    for workload in options.workloads:
        results: dict[str, list[Result | None]] = {arm.name: [] for arm in arms}
        for _ in range(options.repeat):
            for arm in arms:
                result = run_once(binaries, arm, workload, options)
                results[arm.name].append(result)
                if result is None:
                    continue
                report_run(arm, workload, result, is_verbose=options.verbose)
        report_medians(workload, results)


if __name__ == "__main__":
    main()
