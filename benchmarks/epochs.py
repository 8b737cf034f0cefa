"""From the death of one process until all members of a gang have agreed on the next epoch.

Run by people::

    python -m benchmarks.epochs 10 100 1000 --runs 5

The API server, the controller and the agent of rank 0, which serves the start barrier, are real
programs. The other members are light (``tests.support.fakes.lightmember``): they decide by the code
of agents, and watch and connect like agents, but all of them are in the process of the benchmark,
and none starts a program. In each round one of them fails.

The program ends with 1 if the median of a gang of 1,000 members or fewer is above 2 s. On a busy
machine, other programs may cause that.
"""

import argparse
import asyncio
import os
import random
import statistics
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from benchmarks.measuring import describe_machine, read_cpu_seconds, read_server
from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.config import load_kube_config
from framework.kube.resources import FRAMEWORKS
from rendezvous.site.peers.barriers.limits import make_room
from tests.kube.largegang import Controller, LargeGang
from tests.kube.test_restart_in_place import NAME, deploy
from tests.support.fakes.kubelet import FakeKubelet
from tests.support.servers.controlplane import Access, open_control_plane
from tests.support.servers.frameworkcrd import install_crd, wait_ready
from tests.support.servers.policed import ADMISSION
from tests.support.servers.rights import apply_kustomization
from tests.support.waiting import wait_until_async

_SEED = 467
_SETTLE_SECONDS = 1.0
# A gang of at most this many members agrees on an epoch within this time.
_LIMITED_MEMBERS, _LIMIT_SECONDS = 1000, 2.0


class Round(NamedTuple):
    """Seconds from one failure, or CPU seconds that were used after it."""

    seen_first: float
    """Until the first light member has seen the next epoch."""
    seen_last: float
    """Until all light members have seen the next epoch, so that all their processes have ended."""
    agreed: float
    """Until the start barrier has released all light members."""
    agent_cpu: float
    """CPU time of the agent of rank 0."""
    controller_cpu: float
    """CPU time of the controller."""
    own_cpu: float
    """CPU time of this benchmark: all light members."""
    server_cpu: float
    """CPU time of the API server."""


async def fail_one(gang: LargeGang, controller: Controller, index: int, epoch: int) -> Round:
    """Let a member fail; measure until all have started the next epoch."""
    pids = (gang.agents[f"{NAME}-worker-0"].pid, controller.child.pid, os.getpid())
    server = await read_server(gang.kube)
    before = [read_cpu_seconds(pid) for pid in pids]
    began = asyncio.get_running_loop().time()
    gang.members[index].kill_process()
    await wait_until_async(lambda: all(m.epoch == epoch + 1 for m in gang.members.values()))
    after = [read_cpu_seconds(pid) for pid in pids]
    server = (await read_server(gang.kube)).since(server)
    seen = [member.seen[epoch + 1] - began for member in gang.members.values()]
    starts = [member.starts[-1][1] - began for member in gang.members.values()]
    cpu = [late - early for late, early in zip(after, before, strict=True)]
    return Round(min(seen), max(seen), max(starts), cpu[0], cpu[1], cpu[2], server.cpu_seconds)


async def measure(access: Access, size: int, runs: int, folder: Path) -> list[Round]:
    """Measure a gang of this size in a namespace of its own."""
    namespace, http = f"epochs-{size}", access.open_http()
    http.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    wait_ready(http, f"/api/v1/namespaces/{namespace}/serviceaccounts/default")
    deployed, policed = deploy(access, namespace, folder)
    clock, draw = SystemClock(), random.Random(_SEED)
    config = load_kube_config(None, access.kubeconfig, {})
    async with KubeClient(config, user_agent="benchmark", clock=clock) as kube:
        gang = LargeGang(policed, kube, folder, size, 1)
        # On a busy machine, a controller cannot renew a Lease while a thousand Pods are created.
        controller = Controller(deployed, "--no-leader-elect")
        supervision = asyncio.create_task(controller.supervise())
        try:
            async with FakeKubelet(kube, clock, namespace, choose_script=lambda _: gang.run_pod):
                await kube.create(FRAMEWORKS, namespace, gang.build())
                # A thousand Pods take minutes on a busy machine.
                while not all(index in gang.members for index in range(1, size)):  # noqa: ASYNC110  no event shows it
                    await asyncio.sleep(_SETTLE_SECONDS)
                while not all(member.starts for member in gang.members.values()):  # noqa: ASYNC110  no event shows it
                    await asyncio.sleep(_SETTLE_SECONDS)
                await gang.wait_for_epoch(0)
                rounds = []
                for epoch in range(runs):
                    # Wait for the end of all effects of the last epoch.
                    await gang.wait_for_epoch(epoch)
                    await asyncio.sleep(_SETTLE_SECONDS)
                    index = draw.choice(list(gang.members))
                    rounds.append(await fail_one(gang, controller, index, epoch))
        finally:
            supervision.cancel()
            controller.child.terminate()
    return rounds


def describe(size: int, rounds: list[Round], least: float) -> str:
    """Describe the rounds by their medians; ``least``: the agreement of the smallest gang."""
    medians = Round(*(statistics.median(values) for values in zip(*rounds, strict=True)))
    agreed = [each.agreed for each in rounds]
    return (
        f"{size:6} members: agreed {medians.agreed:.2f} s ({min(agreed):.2f} to {max(agreed):.2f}),"
        f" ratio {medians.agreed / least:.1f}; seen by the first {medians.seen_first:.2f} s, by all"
        f" {medians.seen_last:.2f} s; CPU: agent of rank 0 {medians.agent_cpu:.2f} s, controller"
        f" {medians.controller_cpu:.2f} s, all light members {medians.own_cpu:.2f} s, API server"
        f" {medians.server_cpu:.2f} s"
    )


def find_excess(size: int, rounds: list[Round]) -> str:
    """Return a message if a gang has agreed too late; "" if it has not."""
    agreed = statistics.median(each.agreed for each in rounds)
    if size > _LIMITED_MEMBERS or agreed <= _LIMIT_SECONDS:
        return ""
    return f"{size} members: agreed after {agreed:.2f} s, and the limit is {_LIMIT_SECONDS:g} s"


def main() -> int:
    """Run as a program; return 1 if a gang has agreed too late."""
    parser = argparse.ArgumentParser(prog="benchmarks.epochs", description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, default=[10, 100, 1000])
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    print(f"$ python -m benchmarks.epochs {' '.join(sys.argv[1:])}")
    print(describe_machine(), flush=True)
    make_room(4 * max(options.sizes))
    least, excesses = 0.0, []
    with open_control_plane(os.environ, build=True) as access:
        install_crd(access.open_http())
        apply_kustomization(access, ADMISSION)
        for size in options.sizes:
            with tempfile.TemporaryDirectory(prefix="epochs-") as folder:
                rounds = asyncio.run(measure(access, size, options.runs, Path(folder)))
            least = least or statistics.median(each.agreed for each in rounds)
            print(describe(size, rounds, least), flush=True)
            excesses.append(find_excess(size, rounds))
    for excess in filter(None, excesses):
        print(f"benchmarks.epochs: {excess}", file=sys.stderr)
    return 1 if any(excesses) else 0


if __name__ == "__main__":
    sys.exit(main())
