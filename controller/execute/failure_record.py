"""Describes a failed action, and decides when it may be sent again. Pure.

1. The first failure of an action waits half a second. Each further failure of the same action waits
   twice as long, up to 30 s, and as long as Retry-After of the answer asks for.
2. Consecutive failures are counted over all attempts of the same verb, kind and name.
3. The messages of all failures of one Framework have at most 16 MiB together, and so have the
   bodies.

Invariant: a failure without an answer has code 0, so that the next decision knows that the request
may have been carried out.

Example: a Pod is refused by a quota for the third time. Its failure has code 403, the message and
the body of the answer, ``count`` 3, and may be sent again after 2 s.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from controller.core.snapshot import Failure
from framework.api import gojson
from framework.api.text import cut_text
from framework.kube.errors import AlreadyExistsError, ApiError, KubeError

_FIRST_BACKOFF_SECONDS = 0.5
_MAX_BACKOFF_SECONDS = 30.0
_MAX_DOUBLINGS = 10
# Limit of the messages of one Framework's failures, and again of their bodies: the server may
# refuse ten thousand Pods of one template, whose author has made the texts long.
_TEXT_BYTES = 16 * 1024 * 1024
_LEAST_TEXT_BYTES = 1024


@dataclass(frozen=True, slots=True)
class FailureHistory:
    """The failures before this one."""

    known: Failure | None
    """The last failure of the same action; None after a success."""
    former_count: int
    """Consecutive failures of the same verb, kind and name in an attempt that is over."""
    others: int
    """Number of failures of the Framework that share the limit of texts."""


def build_failure(
    error: KubeError, history: FailureHistory, found_uid: str, now: datetime
) -> Failure:
    """Build the record of a failed action.

    Args:
        error: the answer, or why there was none.
        history: the failures before this one.
        found_uid: UID of the object that has the name; "" if it is not known.
        now: time of the failure.
    """
    known = history.known
    count = known.count + 1 if known else 1
    doublings = min(count - 1, _MAX_DOUBLINGS)
    delay = min(_MAX_BACKOFF_SECONDS, _FIRST_BACKOFF_SECONDS * 2**doublings)
    code, message, body = 0, str(error), ""
    if isinstance(error, ApiError):
        code, message = error.status, error.message
        # The form of the Go original, whose users find it in the diagnostics.
        body = _render_body(error)
        delay = max(delay, error.retry_after_seconds or 0)
    limit = max(_LEAST_TEXT_BYTES, _TEXT_BYTES // (1 + history.others))
    message, body = cut_text(message, limit), cut_text(body, limit)
    if isinstance(error, AlreadyExistsError) and found_uid:
        message += f"; its UID is {found_uid}"
    before = max(history.former_count, known.consecutive_failures if known else 0)
    not_before = now + timedelta(seconds=delay)
    return Failure(code, message, body, count, not_before, now, before + 1)


def _render_body(error: ApiError) -> str:
    status = {k: v for k, v in (error.body or {}).items() if k not in ("kind", "apiVersion")}
    return gojson.dumps({"ErrStatus": status}) if status else ""
