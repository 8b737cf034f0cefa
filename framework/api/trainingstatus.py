"""How far the training of an attempt is, in the status. Not in the original."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class TrainingStatus:
    """The last report of the agent of rank 0: docs/design/recovery.md, "Progress in the status"."""

    step: int = 0
    """The lowest step of the ranks."""
    total_steps: int | None = None
    """Number of steps of the whole training; None if unknown."""
    steps_per_second: str = ""
    """The rate of the last minute, as a decimal number; "" if unknown."""
    remaining_seconds: int | None = None
    """Time for the other steps at this rate; None if unknown."""
    slowest: str = ""
    """The rank that is behind the others; "" if none is."""
    straggler_count: int = 0
    """Number of ranks that are much slower than the others."""
    stragglers: tuple[str, ...] = ()
    """Names of the first of these ranks."""
    generation: int = 0
    """Generation of the roster that the agent had when it reported."""
    update_time: datetime | None = None
    """When the controller copied it into the status."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Wire fields that this version does not know; they are written back."""
