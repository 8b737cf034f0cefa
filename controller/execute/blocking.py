"""A Framework that cannot go on: what the server refused for good, and how it says so by itself.

Called by the writer. The condition is written into the status as it is stored, which may be one
that nobody can read: of that nothing else is touched. Rules:
docs/design/failure-handling.md, "Unreadable Frameworks".
"""

from datetime import datetime
from http import HTTPStatus

from controller.core.status.conditions import BLOCKED, MAX_MESSAGE
from framework.api import constants
from framework.api.wire import format_time
from framework.kube.errors import ApiError, KubeError
from framework.kube.resources import Object

_REFUSALS = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)
# What is too large for etcd is an error of the server, said in words only: up to 2 MiB, and above.
_TOO_LARGE = ("etcdserver: request is too large", "trying to send message larger than max")


def is_refusal(error: KubeError) -> bool:
    """Return whether the same write would be refused again, whenever it is tried."""
    if not isinstance(error, ApiError):
        return False
    return error.status in _REFUSALS or any(text in error.message for text in _TOO_LARGE)


def block(wire: Object, reason: str, message: str, now: datetime) -> Object | None:
    """Build a status write that changes the condition Blocked only; None if it says that now."""
    stored = wire.get("status")
    status = dict(stored) if isinstance(stored, dict) else {}
    listed = status.get(constants.CONDITIONS_FIELD)
    known = [c for c in listed if isinstance(c, dict)] if isinstance(listed, list) else []
    answer = {"status": "True", "reason": reason, "message": message[:MAX_MESSAGE]}
    if any(c.get("type") == BLOCKED and answer.items() <= c.items() for c in known):
        return None
    condition = {"type": BLOCKED, "lastTransitionTime": format_time(now), **answer}
    others = [c for c in known if isinstance(c.get("type"), str) and c["type"] != BLOCKED]
    status[constants.CONDITIONS_FIELD] = [*others, condition]
    return {**wire, "status": status}
