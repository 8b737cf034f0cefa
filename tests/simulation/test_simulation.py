"""Histories of a cluster with faults: the invariants hold at each step, and the end is reached.

``SEEDS=200`` runs more histories, ``SEEDS=17-17`` repeats one.
"""

import os
from collections.abc import Iterable
from typing import Any

import pytest

from tests.support.simulator.simulation import Simulation
from tests.support.slow import keep_first

STEPS = 60


def parse_seeds(text: str) -> range:
    """``60``: the first sixty; ``17-20``: these."""
    first, _, last = text.rpartition("-")
    return range(int(first), int(last) + 1) if first else range(int(last))


def list_seeds(count: int, quick_count: int) -> Iterable[Any]:
    """List the seeds that are asked for; else the first ones, all but a few marked as slow."""
    asked = os.environ.get("SEEDS", "")
    return parse_seeds(asked) if asked else keep_first(range(count), quick_count)


@pytest.mark.looptime
@pytest.mark.parametrize("seed", list_seeds(60, 20))
async def test_simulation_holds_the_invariants_and_comes_to_rest(seed: int) -> None:
    await Simulation(seed).run(STEPS)
