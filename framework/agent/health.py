"""How a source fares, and since when. Pure.

Called by ``watch`` and the sources.
"""

import enum
from typing import NamedTuple

_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND = 401, 403, 404


class Health(enum.Enum):
    """How a source fares. The values are words for messages."""

    STARTING = "starting"
    HEALTHY = "healthy"
    UNAUTHORIZED = "not authenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not found"
    UNREACHABLE = "unreachable"

    @property
    def reason(self) -> str:
        """The health as a CamelCase reason, for machines."""
        return self.name.title().replace("_", "")


HEALTH_BY_STATUS = {
    _UNAUTHORIZED: Health.UNAUTHORIZED,
    _FORBIDDEN: Health.FORBIDDEN,
    _NOT_FOUND: Health.NOT_FOUND,
}


class SourceState(NamedTuple):
    """How a source fares, and since when (the agent's monotonic time)."""

    health: Health
    since: float
    message: str


def advance(state: SourceState, health: Health, message: str, now: float) -> SourceState:
    """Keep the time since when a source is in its present health."""
    if health is state.health:
        return state._replace(message=message)
    return SourceState(health, now, message)
