"""The health of a source of a gang, and since when it has it. Pure."""

import enum
from typing import NamedTuple

_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND = 401, 403, 404


class Health(enum.Enum):
    """The health of a source. The values are words for messages."""

    STARTING = "starting"
    HEALTHY = "healthy"
    UNAUTHORIZED = "not authenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not found"
    UNREACHABLE = "unreachable"

    @property
    def reason(self) -> str:
        """The health as a CamelCase reason of a Wait or a Fail."""
        return self.name.title().replace("_", "")


HEALTH_BY_STATUS = {
    _UNAUTHORIZED: Health.UNAUTHORIZED,
    _FORBIDDEN: Health.FORBIDDEN,
    _NOT_FOUND: Health.NOT_FOUND,
}


class SourceState(NamedTuple):
    """The health of a source; ``since`` is in monotonic seconds of the agent."""

    health: Health
    since: float
    message: str


def update_state(state: SourceState, health: Health, message: str, now: float) -> SourceState:
    """Return the next state; ``since`` changes only with the health."""
    if health is state.health:
        return state._replace(message=message)
    return SourceState(health, now, message)
