"""Lives of a cluster with faults: whatever happens, the invariants hold and the end is reached.

``SEEDS=200`` lives through more of them, ``SEEDS=17-17`` through one again.
"""

import os

import pytest

from tests.support.simulator import Simulation

STEPS = 60


def parse_seeds(text: str) -> range:
    """``60``: the first sixty; ``17-20``: these."""
    first, _, last = text.rpartition("-")
    return range(int(first), int(last) + 1) if first else range(int(last))


@pytest.mark.looptime
@pytest.mark.parametrize("seed", parse_seeds(os.environ.get("SEEDS", "60")))
async def test_simulation_holds_the_invariants_and_comes_to_rest(seed: int) -> None:
    await Simulation(seed).run(STEPS)
