"""How far the training of an attempt is, in the status. Not in the original."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class TrainingStatus:
    """What the agent of rank 0 reported last: docs/design/recovery.md, "Progress in the status"."""

    step: int = 0
    """The lowest step of the ranks."""
    total_steps: int | None = None
    """How many steps there are; None if it is not known."""
    steps_per_second: str = ""
    """The rate of the last minute, as a decimal number; "" if it is not known."""
    remaining_seconds: int | None = None
    """How long the rest takes at this rate; None if it is not known."""
    slowest: str = ""
    """The rank that is behind the others; "" if none is."""
    straggler_count: int = 0
    """How many ranks are much slower than the others."""
    stragglers: tuple[str, ...] = ()
    """Names of the first ones."""
    generation: int = 0
    """The generation of the roster for which it was reported."""
    update_time: datetime | None = None
    """When the controller copied it into the status."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Wire fields that this version does not know; they are written back."""
