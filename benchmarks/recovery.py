"""From the death of one rank until all ranks train again: in place, and by another Pod.

Beside them, a plain restart: a shell starts the dead rank again, and the others train on.

Run by people::

    python -m benchmarks.recovery --runs 5 4 32

Each number of ranks and each way is measured on a local cluster of its own. In each round one rank
is killed. A process "trains" as soon as its command runs. The wrapper, ``rendezvous run``, restarts
all commands, except in a plain restart.
"""

import argparse
import asyncio
import statistics
import tempfile
from operator import ge
from pathlib import Path
from typing import NamedTuple

from benchmarks.measuring import describe_machine
from framework.kube.resources import Object
from tests.e2e.steps import restart_in_place, wrap_command
from tests.support.servers.gang import build_gang, build_role, open_gang_cluster

PLAIN, IN_PLACE, BY_POD = "plain", "in-place", "by-pod"
_POLL_SECONDS = 0.01
_SETTLE_SECONDS = 1.0
_MAX_RESTARTS = 100
_NANOSECONDS = 1e9
# In the command of a container, `$$` means `$`. Each start of a rank adds a line with the time. A
# rank writes the time before it kills itself; a rank that others end writes the time of SIGTERM.
_SCRIPT = """
me=/gate/$FC_FRAMEWORK_NAME-$FC_TASK_INDEX
trap 'date +%s%N >"$me.ended"; exit 143' TERM
date +%s%N >>"$me.started"
while ! [ -e "$me.die" ]; do sleep 0.02; done
rm "$me.die"
date +%s%N >"$me.died"
kill -9 $$$$
"""


def build(way: str, ranks: int) -> Object:
    """Build the gang of one way."""
    role = build_role("worker", ranks, _SCRIPT, max_retries=_MAX_RESTARTS)
    main = role["task"]["pod"]["spec"]["containers"][0]
    if way == PLAIN:
        main["command"] = ["sh", "-c", 'until "$@"; do :; done', "sh", *main["command"]]
    elif way == IN_PLACE:
        restart_in_place(role, _MAX_RESTARTS)
    else:
        wrap_command(role)
        env = {"FB_ON_CHANGE": "restart", "FB_STOP_GRACE_SEC": "1"}
        main["env"] = [{"name": name, "value": value} for name, value in env.items()]
    return build_gang(role, name=way)


class Recovered(NamedTuple):
    """Seconds from the death of a rank."""

    started: float
    """Until all ranks that restart have started again."""
    ended: float
    """Until the last of the others was ended; 0 if they train on."""


class Ranks:
    """The commands of a gang, observed by their files."""

    def __init__(self, gate: Path, way: str, count: int) -> None:
        """Observe the gang of this way."""
        self._is_plain = way == PLAIN
        self._paths = [gate / f"{way}-{index}" for index in range(count)]

    def list_starts(self) -> list[list[int]]:
        """List when each rank was started, in nanoseconds."""
        return [_read_times(path.with_suffix(".started")) for path in self._paths]

    async def kill(self, index: int) -> Recovered:
        """Kill a rank, and wait until all ranks that restart have started again."""
        before = self.list_starts()
        path = self._paths[index]
        path.with_suffix(".died").unlink(missing_ok=True)
        path.with_suffix(".die").touch()
        known = [len(starts) for starts in before]
        if self._is_plain:
            known = [known[index] if each == index else -1 for each in range(len(known))]
        await self.wait_for_starts(known)
        (died,) = _read_times(path.with_suffix(".died"))
        ends = [time for each in self._paths for time in _read_times(each.with_suffix(".ended"))]
        starts = [starts[-1] for starts in self.list_starts()]
        return Recovered(
            (max(starts) - died) / _NANOSECONDS, (max(ends, default=died) - died) / _NANOSECONDS
        )

    async def wait_for_starts(self, known: list[int]) -> None:
        """Wait until each rank has more starts than the known ones."""
        while any(map(ge, known, map(len, self.list_starts()))):  # noqa: ASYNC110  on files
            await asyncio.sleep(_POLL_SECONDS)


def _read_times(path: Path) -> list[int]:
    lines = path.read_text(encoding="ascii").split("\n")[:-1] if path.exists() else []
    return [int(line) for line in lines]


async def measure(way: str, ranks: int, runs: int, directory: Path) -> list[Recovered]:
    """Measure one way; return each round.

    Raises:
        RuntimeError: the gang recovered in another way.
    """
    async with open_gang_cluster(directory) as world:
        gang = Ranks(directory / "gate", way, ranks)
        await world.create(build(way, ranks))
        await gang.wait_for_starts([0] * ranks)
        rounds = []
        for run in range(runs):
            # Wait for the end of all effects of a recovery: acknowledgements, deletions of Pods.
            await asyncio.sleep(_SETTLE_SECONDS)
            rounds.append(await gang.kill((run + 1) % ranks))
        count = sum(len(uids) for uids in world.list_pods(way).values())
    if count != ranks + (runs if way == BY_POD else 0):
        raise RuntimeError(f"{way}: {count} Pods for {ranks} ranks and {runs} failures")
    return rounds


def main() -> None:
    """Measure, and print the medians."""
    parser = argparse.ArgumentParser(prog="benchmarks.recovery", description=__doc__)
    parser.add_argument("ranks", nargs="*", type=int, default=[4, 32])
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    print(
        f"python -m benchmarks.recovery --runs {options.runs} {' '.join(map(str, options.ranks))}"
    )
    print(describe_machine())
    for ranks in options.ranks:
        medians = {}
        for way in (PLAIN, IN_PLACE, BY_POD):
            with tempfile.TemporaryDirectory() as directory:
                rounds = asyncio.run(measure(way, ranks, options.runs, Path(directory)))
            seconds = [each.started for each in rounds]
            medians[way] = statistics.median(seconds)
            spread = f"{min(seconds):.2f} to {max(seconds):.2f} s"
            ended = statistics.median(each.ended for each in rounds)
            others = f"; the others ended after {ended:.2f} s" if ended else ""
            print(f"{ranks} ranks {way}: median {medians[way]:.2f} s, {spread}{others}", flush=True)
        in_place, by_pod = (medians[way] / medians[PLAIN] for way in (IN_PLACE, BY_POD))
        print(f"{ranks} ranks: plain restarts: {in_place:.0f} in place, {by_pod:.0f} by Pod")


if __name__ == "__main__":
    main()
