"""Errors of requests to an API server, raised by ``client``.

No other package sees an exception of ``aiohttp`` from a request. An invalid configuration is a
``ConfigError`` of ``kubeconfig``::

    KubeError
    |-- UnreachableError            no answer, or an unreadable one
    |   `-- AnswerTooLargeError     an answer that is too long
    `-- ApiError                    the server answered with an error
        |-- BadRequestError         400
        |-- UnauthorizedError       401
        |-- ForbiddenError          403
        |-- NotFoundError           404
        |-- AlreadyExistsError      409, reason AlreadyExists
        |-- ConflictError           409, any other reason
        |-- GoneError               410
        |-- TooLargeError           413
        |-- InvalidError            422
        |-- TooManyRequestsError    429
        `-- ServerError             500 and above
"""

from collections.abc import Mapping
from http import HTTPStatus

import msgspec

from framework.api.text import cut_text, hide_values
from framework.kube.resources import Object

_FIRST_SERVER_ERROR = HTTPStatus.INTERNAL_SERVER_ERROR

# As in the agents: framework/agent/connection.py.
_MAX_RETRY_AFTER_SECONDS = 300.0
_MESSAGE_LIMIT = 1000
# Of a Status object: it goes into statuses, Events and logs, and may quote a whole Pod.
_STATUS_MESSAGE_BYTES = 8 * 1024
_CAUSES_LIMIT = 32
_FIELD_BYTES = 1024


class KubeError(Exception):
    """A request to the API server failed."""

    @property
    def is_transient(self) -> bool:
        """Return whether the same request may succeed later without another change."""
        return False


class UnreachableError(KubeError):
    """No answer: connection refused or reset, timeout, or an incomplete answer.

    Attributes:
        method: HTTP method of the request.
        path: its path, without the query.
        maybe_applied: whether the server may have executed the request. False only if there was
            no connection.
    """

    def __init__(self, message: str, *, method: str, path: str, maybe_applied: bool = True) -> None:
        """Keep method and path; ``message`` has the reason."""
        super().__init__(f"{method} {path}: {message}")
        self.method = method
        self.path = path
        self.maybe_applied = maybe_applied

    @property
    def is_transient(self) -> bool:
        """Return True: the server may be reachable later."""
        return True


class AnswerTooLargeError(UnreachableError):
    """The answer is longer than the limit of the caller."""


class ApiError(KubeError):
    """The server answered with an error.

    Attributes:
        status: HTTP status code.
        reason: the Status object's reason, for example ``NotFound``; empty if it gave none.
        message: the Status object's message without the values that it quoted, else the text of
            the answer, cut to 1000 characters.
        body: the Status object, its messages without values too; None if the answer had none.
        retry_after_seconds: the wait that the server requests, at most 300; None if it requests
            none.
        method: HTTP method of the request.
        path: its path, without the query.
    """

    def __init__(
        self,
        *,
        status: int,
        reason: str,
        message: str,
        body: Object | None,
        retry_after_seconds: float | None,
        method: str,
        path: str,
    ) -> None:
        """Keep the answer; ``build_api_error`` chooses the class."""
        super().__init__(f"{method} {path}: {status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.body = body
        self.retry_after_seconds = retry_after_seconds
        self.method = method
        self.path = path

    @property
    def is_transient(self) -> bool:
        """Return whether the same request may succeed later."""
        is_busy = self.status == HTTPStatus.TOO_MANY_REQUESTS
        return is_busy or self.status >= _FIRST_SERVER_ERROR


class BadRequestError(ApiError):
    """400: the server cannot read the request."""


class UnauthorizedError(ApiError):
    """401: the credentials are invalid, also after the token was read again."""


class ForbiddenError(ApiError):
    """403: a permission is missing, or an admission plugin refused the request."""


class NotFoundError(ApiError):
    """404: no such object, or no such resource."""

    @property
    def is_object_missing(self) -> bool:
        """Return whether the object is missing, not its resource."""
        details = (self.body or {}).get("details")
        return isinstance(details, dict) and bool(details.get("name"))


class AlreadyExistsError(ApiError):
    """409 on a create: an object with that name exists."""


class ConflictError(ApiError):
    """409: the object has another resourceVersion or UID than the request."""


class GoneError(ApiError):
    """410: the resourceVersion or the page is too old; list again."""


class TooLargeError(ApiError):
    """413: the object is too large for the server."""


class InvalidError(ApiError):
    """422: the object violates its schema."""


class TooManyRequestsError(ApiError):
    """429: the server is overloaded, or an eviction must wait."""


class ServerError(ApiError):
    """500 and above: an error of the server, or of a proxy."""


_CLASSES: Mapping[int, type[ApiError]] = {
    400: BadRequestError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    413: TooLargeError,
    422: InvalidError,
    429: TooManyRequestsError,
}


def build_api_error(
    status: int,
    raw: bytes,
    *,
    method: str,
    path: str,
    retry_after: str | None = None,
    fallback_reason: str = "",
) -> ApiError:
    """Build the error for an answer with this HTTP status.

    Args:
        status: HTTP status code.
        raw: the answer's body: a Status object, or the text of a proxy.
        method: HTTP method of the request.
        path: its path.
        retry_after: the header of that name.
        fallback_reason: the reason if the body has none.
    """
    body = _decode_status(raw)
    if body is not None:
        body = _hide_status_values(body)
    if body is None:
        message = raw[: 4 * _MESSAGE_LIMIT].decode("utf-8", "replace").strip()[:_MESSAGE_LIMIT]
    else:
        message = str(body.get("message") or "")
    reason = str((body or {}).get("reason") or fallback_reason)
    return _select_class(status, reason)(
        status=status,
        reason=reason,
        message=message,
        body=body,
        retry_after_seconds=_parse_retry_after(retry_after, body),
        method=method,
        path=path,
    )


def build_event_error(status_object: Object, *, method: str, path: str) -> ApiError:
    """Build the error for the Status object of an ERROR event of a watch."""
    code = status_object.get("code")
    # An ERROR event without a code is an error of the server.
    status = code if isinstance(code, int) and not isinstance(code, bool) else 500
    return build_api_error(status, msgspec.json.encode(status_object), method=method, path=path)


def _select_class(status: int, reason: str) -> type[ApiError]:
    if status == HTTPStatus.CONFLICT and reason == "AlreadyExists":
        return AlreadyExistsError
    if status >= _FIRST_SERVER_ERROR:
        return ServerError
    return _CLASSES.get(status, ApiError)


def _decode_status(raw: bytes) -> Object | None:
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _hide_status_values(status: Object) -> Object:
    """Hide the values in a Status: the invalid field of an object may contain a secret."""
    shown = dict(status)
    if "message" in status:
        shown["message"] = _shorten(status["message"])
    details = status.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    if isinstance(details, dict) and isinstance(causes, list):
        kept = [_hide_cause(cause) for cause in causes[:_CAUSES_LIMIT]]
        shown["details"] = {**details, "causes": kept}
    return shown


def _hide_cause(cause: object) -> object:
    if not isinstance(cause, dict):
        return cause
    field = str(cause.get("field") or "")
    shown = dict(cause)
    # The path of a field may contain a key of a map, of any length.
    if "field" in cause:
        shown["field"] = cut_text(field, _FIELD_BYTES)
    if "message" in cause:
        shown["message"] = _shorten(cause["message"], field)
    return shown


def _shorten(message: object, field: str = "") -> str:
    text = "" if message is None else str(message)
    return cut_text(hide_values(text, field), _STATUS_MESSAGE_BYTES)


def _parse_retry_after(header: str | None, body: Object | None) -> float | None:
    """Return the seconds of the header, else those in the details of the Status object.

    The form with a date is not read: API servers send seconds only, and a date would need a clock
    that agrees with the server's.
    """
    details = (body or {}).get("details")
    stated: object = header
    if stated is None and isinstance(details, dict):
        stated = details.get("retryAfterSeconds")
    if stated is None:
        return None
    try:
        seconds = float(str(stated))
    except ValueError:
        return None
    return min(seconds, _MAX_RETRY_AFTER_SECONDS) if 0 <= seconds < float("inf") else None
