"""The limit of what a gang of many Tasks may cost: it grows with the Tasks, not faster.

CPU time of this process: 2,000 Tasks cost at most 0.2 s, as if 10,000 cost a second, and at most
nine times what 500 cost (four times is linear, sixteen times quadratic). ``make test-slow`` has
gangs of twice the size.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from controller.core.decide import decide
from controller.core.settings import Settings
from controller.core.snapshot import Snapshot
from controller.store.packed_templates import pack_templates
from tests.support.builders.largegangs import LargeGang
from tests.support.measuring.cost import Operation, assert_costs_at_most, assert_grows_at_most
from tests.support.slow import keep_first

SECONDS_PER_TASK = 1 / 10_000
MAX_FACTOR = 9.0
SETTINGS = Settings()

Stage = Callable[[LargeGang], Snapshot]

# Parametrizes a test by the Tasks of a small and of a large gang.
for_two_sizes = pytest.mark.parametrize(
    ("small", "large"), keep_first([(500, 2_000), (1_000, 4_000)])
)


def assert_linear(small: int, large: int, prepare: Callable[[int], Operation]) -> None:
    operation = prepare(large)
    cost = assert_costs_at_most(large * SECONDS_PER_TASK, operation)
    assert_grows_at_most(MAX_FACTOR, prepare(small), operation, large_seconds=cost)


def assert_decision_is_linear(small: int, large: int, stage: Stage, roles: int) -> None:
    """Check the cost of the decision about a gang of ``roles`` roles in a stage of its life."""

    def prepare(size: int) -> Operation:
        return partial(decide, _pack_templates(stage(LargeGang(size, roles))), SETTINGS)

    assert_linear(small, large, prepare)


def _pack_templates(snapshot: Snapshot) -> Snapshot:
    """Give each role its template as the store does: it was read before the decision."""
    spec = pack_templates(snapshot.framework.spec)
    return replace(snapshot, framework=replace(snapshot.framework, spec=spec))
