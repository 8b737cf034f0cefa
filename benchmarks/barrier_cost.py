"""Cost of a barrier that passes at its first observation: CPU, peak memory, time.

Run by people::

    python -m benchmarks.barrier_cost 100 --runs 30
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
from typing import NamedTuple

from benchmarks.gang import Bench
from benchmarks.measuring import describe_machine
from tests.support.servers.binaries import find_binaries

# The peak of a child includes the memory of its parent, so a small parent forks it.
_SPAWNER = """
import os, sys, time
started = time.monotonic()
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(pid, 0)
wall = time.monotonic() - started
cpu = usage.ru_utime + usage.ru_stime
print(cpu, usage.ru_maxrss / 1024, wall, os.waitstatus_to_exitcode(status))
"""


class Cost(NamedTuple):
    """One run."""

    cpu_seconds: float
    peak_rss_mib: float
    wall_seconds: float


def run_once(command: list[str], env: dict[str, str]) -> Cost:
    """Run a barrier; it must pass."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _SPAWNER, *command],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    cpu, rss, wall, code = done.stdout.split()[-4:]
    if code != "0":
        raise RuntimeError(f"the barrier ended with {code}:\n{done.stdout}")
    return Cost(float(cpu), float(rss), float(wall))


async def run(options: argparse.Namespace) -> None:
    """Release a gang, then run one of its barriers repeatedly, in each mode in turn."""
    async with Bench.open(find_binaries(os.environ, build=True)) as bench:
        pods = await bench.create_gang("cost", options.size)
        await bench.start_pods(pods)
        # The first barrier waits for the roster.
        command = bench.build_command()
        await asyncio.to_thread(run_once, command, bench.build_env(pods[0], "off"))
        costs: dict[str, list[Cost]] = {mode: [] for mode in options.modes}
        for _ in range(options.runs):
            for mode in options.modes:
                env = bench.build_env(pods[0], mode)
                costs[mode].append(await asyncio.to_thread(run_once, command, env))
    for mode, runs in costs.items():
        print(
            f"{options.size:6} {mode:>5}"
            f"  cpu {statistics.median(run.cpu_seconds for run in runs) * 1000:.0f} ms"
            f"  rss {statistics.median(run.peak_rss_mib for run in runs):.1f} MiB"
            f"  wall {statistics.median(run.wall_seconds for run in runs) * 1000:.0f} ms"
            f"  (median of {len(runs)})"
        )


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("size", type=int, metavar="N", help="Tasks of the gang")
    parser.add_argument("--runs", type=int, default=20, metavar="N")
    parser.add_argument("--modes", nargs="+", default=["off", "auto"], metavar="MODE")
    options = parser.parse_args()
    print(f"$ python -m benchmarks.barrier_cost {' '.join(sys.argv[1:])}")
    print(describe_machine(), flush=True)
    asyncio.run(run(options))


if __name__ == "__main__":
    main()
