"""Measures what decoders cost at worst: ``python -m tests.fuzz.measure [TARGET...]``.

Decodes large variants of the seeds and of the kept inputs, and prints the highest costs, in seconds
of CPU and MiB of memory for each MiB of input. docs/security.md has the figures.
"""

import math
import random
import sys

from tests.fuzz import forms
from tests.fuzz.budget import MIB, HangError, SkipInputError, Target, measure_mib, measure_seconds
from tests.fuzz.kept import list_inputs
from tests.fuzz.mutation import grow, mutate, pump
from tests.fuzz.targets import TARGETS

MAIN_DECODERS = ("status-compressed", "roster", "pod", "configmap")
_VARIANTS = 60
_LEAST_BYTES = 32768


def main() -> None:
    """Measure the targets named, or the main ones."""
    rng = random.Random(1)
    print(f"{'decoder':<28} {'s/MiB':>7} {'MiB/MiB':>8} {'s':>7} {'MiB':>7}")
    for name in sys.argv[1:] or MAIN_DECODERS:
        seconds, mib, total_seconds, total_mib = measure(TARGETS[name], rng)
        print(f"{name:<28} {seconds:>7.2f} {mib:>8.1f} {total_seconds:>7.2f} {total_mib:>7.1f}")
    forms.remove_files()


def measure(target: Target, rng: random.Random) -> tuple[float, float, float, float]:
    """Return the worst seconds and MiB for each MiB of input, and of any one input."""
    inputs = list_inputs(target)
    variants = [
        change(data, rng, target.max_bytes)
        for _ in range(_VARIANTS)
        for change in (grow, _pump_fully)
        for data in (rng.choice(inputs), mutate(rng.choice(inputs), inputs, rng, target.max_bytes))
    ]
    costs = [cost for data in variants if (cost := _measure_one(target, data)) is not None]
    worst = [max(column) for column in zip(*costs, strict=True)]
    return worst[0], worst[1], worst[2], worst[3]


def _pump_fully(data: bytes, rng: random.Random, size: int) -> bytes:
    while len(data) < size // 2:
        data = pump(data, rng)
    return data[:size]


def _measure_one(target: Target, data: bytes) -> tuple[float, float, float, float] | None:
    """Measure a variant: its costs for each MiB, then its whole costs.

    Return None if it is too small for costs for each MiB, or never reaches the decoder. All costs
    are infinite if the decoder hangs.
    """
    if len(data) < min(_LEAST_BYTES, target.max_bytes // 2):
        return None
    try:
        argument = target.prepare(data)
        seconds, mib = measure_seconds(target, argument), measure_mib(target, argument)
    except SkipInputError:
        return None
    except HangError:
        return (math.inf,) * 4
    share = len(data) / MIB
    return seconds / share, mib / share, seconds, mib


if __name__ == "__main__":
    main()
