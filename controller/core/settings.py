"""The part of the configuration that a decision reads, and the constants of time of the core."""

from collections.abc import Sequence
from dataclasses import dataclass

from framework.api import constants
from framework.api.completion import CompletionCodeRule

# Wait before a live GET of an object that was created and that no watch has shown:
# docs/design/state-machines.md, "Absence".
CONFIRMATION_SECONDS = 5.0
# Consecutive refused creates of one name, over several attempts, before the create of the next
# attempt waits. So a Pod that is refused and retried without end does not keep the server busy.
# The second number is for retries without pauses, the behaviour of the Go original.
FREE_REFUSALS = 3
UNPAUSED_REFUSALS = 20
LONGEST_PAUSE_SECONDS = 30.0
# Least time between two generations: docs/design/roster.md, "Generations".
ROSTER_DEBOUNCE_SECONDS = 0.2
# Ages of an incomplete gang at which its readiness is checked, and the period after the last age:
# docs/design/roster.md, "Readiness".
READINESS_AGES_SECONDS = (2.0, 5.0, 10.0, 20.0)
READINESS_PERIOD_SECONDS = 30.0
# Period at which a Framework that waits for memory is decided again.
MEMORY_WAIT_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class FrameworkLimits:
    """Limits of one Framework."""

    max_roles: int = constants.MAX_TASK_ROLES
    max_tasks: int = constants.MAX_TASKS
    """Of all roles together, with absent indexes."""
    max_object_bytes: int = constants.MAX_OBJECT_BYTES
    """Size of the whole object in JSON, as the API server stores it."""
    is_compressed: bool = True
    """Whether a large status is stored compressed."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a controller, the same for every Framework."""

    creator_key: str = ""
    """Public key with which this controller's creates are verified; "" if it signs none."""
    code_rules: Sequence[CompletionCodeRule] = ()
    """Configured Pod failure rules, in order of precedence."""
    min_conflict_delay_seconds: int = 60
    """Least delay of a Framework's retry after a transient conflict."""
    max_conflict_delay_seconds: int = 900
    """Greatest delay of a Framework's retry after a transient conflict."""
    quick_end_seconds: int = 10
    """An attempt that ends within this time of its start ends quickly."""
    max_pause_seconds: int = 300
    """Greatest pause before a retry after quick ends in a row; 0 for no pauses."""
    completed_retain_seconds: int | None = 30 * 24 * 3600
    """How long a Completed Framework is kept; None keeps it for ever."""
    limits: FrameworkLimits = FrameworkLimits()
    """Limits of one Framework."""

    @property
    def free_refusals(self) -> int:
        """Number of consecutive refused creates of one name after which the next create waits."""
        return FREE_REFUSALS if self.max_pause_seconds > 0 else UNPAUSED_REFUSALS
