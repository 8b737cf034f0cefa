"""What of the configuration a decision reads."""

from collections.abc import Sequence
from dataclasses import dataclass

from framework.api import constants
from framework.api.completion import CompletionCodeRule

# An own create that no watch confirmed is looked at after this long:
# docs/design/state-machines.md, "Absence".
CONFIRMATION_SECONDS = 5.0
# As long as the server asks us to wait, but not for ever.
LONGEST_WAIT_SECONDS = 300.0
# Creates of one name that may be refused in a row, attempt after attempt, before the create of the
# next attempt waits: a Pod that is refused and retried without end must not keep the server busy.
# The second number is for retries without pauses, as the original has them.
FREE_REFUSALS = 3
UNPAUSED_REFUSALS = 20
LONGEST_PAUSE_SECONDS = 30.0
# Generations are at least this far apart: docs/design/roster.md, "Generations".
ROSTER_DEBOUNCE_SECONDS = 0.2
# Ages at which the progress of an incomplete gang is looked at, then every
# PROGRESS_PERIOD_SECONDS: docs/design/roster.md, "Progress".
PROGRESS_AGES_SECONDS = (2.0, 5.0, 10.0, 20.0)
PROGRESS_PERIOD_SECONDS = 30.0


# A Framework that waits for memory looks again after so long.
MEMORY_WAIT_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What one Framework may have."""

    max_roles: int = constants.MAX_TASK_ROLES
    max_tasks: int = constants.MAX_TASKS
    """In all roles together, absent ones included."""
    max_object_bytes: int = constants.MAX_OBJECT_BYTES
    """Of the whole object in JSON, as the API server stores it."""
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
    limits: Limits = Limits()
    """What one Framework may have."""

    @property
    def free_refusals(self) -> int:
        """How many creates of one name may be refused in a row before the next one waits."""
        return FREE_REFUSALS if self.max_pause_seconds > 0 else UNPAUSED_REFUSALS
