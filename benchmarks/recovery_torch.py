"""From the death of one of 8 ranks of PyTorch DDP (gloo) until all train again, on a local cluster.

Run by people, after ``python -m tests.consumers.install torch``::

    python -m benchmarks.recovery_torch --runs 3

Each way has a cluster of its own, and a rank that kills itself. ``ended`` is the time until the
kernel has reported the end of all other ranks; ``trained`` is the time until all have ended a step
again, from the checkpoint. Both contain the CPU time of eight Python programs: compare the ways of
one run. In the plain way, torchrun restarts its workers, without our agents.
"""

import argparse
import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.measuring import describe_machine
from tests.consumers.examples import run_example
from tests.support.ddpexample import (
    PYTHON,
    RANK_ARGUMENTS,
    RANKS,
    TORCHRUN,
    Death,
    Recovered,
    add_notes,
    change_gang,
    make_plain,
    measure,
    mount_checkpoints,
    read_notes,
)
from tests.support.machine.processends import ProcessEnds

_STEPS_BETWEEN = 2
_PLAIN = "plain"
# Way -> Pods, program.
_WAYS = {
    "run": (RANKS, PYTHON),
    "torchrun": (RANKS, TORCHRUN),
    "torchrun-in-1-pod": (1, TORCHRUN),
}


def run(change: Callable[[str], str], deaths: Sequence[Death]) -> list[Recovered]:
    """Run the changed example to its success; measure each recovery."""
    with tempfile.TemporaryDirectory() as name, ProcessEnds(*RANK_ARGUMENTS) as ends:
        checkpoints = Path(name) / "checkpoints"
        checkpoints.mkdir()

        def mount(text: str) -> str:
            source = f"hostPath: {{path: {checkpoints}}}"
            return mount_checkpoints(change(add_notes(text, deaths)), source)

        run_example("recovery-ddp.yaml", "torch", Path(name), mount)
        notes = read_notes(checkpoints)
        return [measure(notes, ends, death.epoch) for death in deaths]


def describe(way: str, rounds: Sequence[Recovered], plain: float | None) -> str:
    """Describe the rounds of a way by their medians."""
    ended, trained = (statistics.median(values) for values in zip(*rounds, strict=True))
    spread = f"{min(r.trained for r in rounds):.1f} to {max(r.trained for r in rounds):.1f} s"
    ratio = "" if plain is None else f", {trained / plain:.2f} of a plain restart"
    return f"{way}: ended {ended:.2f} s; trained {trained:.1f} s ({spread}){ratio}"


def main() -> None:
    """Measure, and print the medians."""
    parser = argparse.ArgumentParser(prog="benchmarks.recovery_torch", description=__doc__)
    parser.add_argument("ways", nargs="*", default=[*_WAYS], help=f"of {', '.join(_WAYS)}")
    parser.add_argument("--runs", type=int, default=3, help="restarts in place of each way")
    options = parser.parse_args()
    print(f"python -m benchmarks.recovery_torch --runs {options.runs} {' '.join(options.ways)}")
    print(describe_machine(), flush=True)
    runs = options.runs
    deaths = [Death(_STEPS_BETWEEN * (epoch + 1), 1, epoch) for epoch in range(runs + 1)]
    rounds = run(lambda text: make_plain(text, runs), deaths[:runs])
    plain = statistics.median(each.trained for each in rounds)
    print(describe(_PLAIN, rounds, None), flush=True)
    for way in options.ways:
        pods, program = _WAYS[way]

        def change(text: str, pods: int = pods, program: str = program) -> str:
            return change_gang(text, pods, program, restarts=runs, retries=1)

        # The last death finds the budget used up.
        rounds = run(change, deaths)
        print(describe(f"{way}, in place", rounds[:runs], plain), flush=True)
        print(describe(f"{way}, by another Pod", rounds[runs:], plain), flush=True)


if __name__ == "__main__":
    main()
