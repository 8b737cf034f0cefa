"""The error of the API server: a Kubernetes ``Status`` with a code and a reason.

The HTTP front turns it into an answer. The messages are those of kube-apiserver, because clients
and users read them.

    Exception
    `-- StatusError     code, reason, message, details
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from localcluster.apiserver.model.registry import ResourceType

Object = dict[str, Any]

OPTIMISTIC_LOCK_MESSAGE = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


@dataclass(frozen=True, slots=True)
class Cause:
    """A fault of a field."""

    type: str
    """CauseType, for example FieldValueInvalid."""
    field: str
    """Path in dotted form, for example ``spec.containers[0].name``."""
    message: str
    """The fault, without the path."""


@dataclass
class StatusError(Exception):
    """A refused request, in the form of a Kubernetes Status."""

    code: int
    """The HTTP status."""
    reason: str
    """The machine-readable reason, for example ``NotFound``."""
    message: str
    """The text for users."""
    details: Object | None = None
    """``details`` of the Status, without the causes."""
    retry_after: int | None = None
    """Seconds of the header Retry-After."""
    causes: list[Cause] = field(default_factory=list)
    """Faults of fields, for ``details.causes``."""

    def __str__(self) -> str:
        """Return the message alone."""
        return self.message

    def to_status(self) -> Object:
        """Build the ``Status`` object of this error."""
        status: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        details = dict(self.details or {})
        if self.causes:
            details["causes"] = [
                {"reason": cause.type, "message": cause.message, "field": cause.field}
                for cause in self.causes
            ]
        if self.retry_after is not None:
            details["retryAfterSeconds"] = self.retry_after
        if details or self.details is not None:
            status["details"] = details
        status["code"] = self.code
        return status


def qualified_resource(rt: ResourceType) -> str:
    """Return ``plural`` or ``plural.group``, as messages name a resource."""
    return f"{rt.plural}.{rt.group}" if rt.group else rt.plural


def qualified_kind(rt: ResourceType) -> str:
    """Return ``Kind`` or ``Kind.group``, as messages name a kind."""
    return f"{rt.kind}.{rt.group}" if rt.group else rt.kind


def _details(rt: ResourceType, name: str) -> Object:
    details: Object = {"name": name}
    if rt.group:
        details["group"] = rt.group
    details["kind"] = rt.plural
    return details


def not_found(rt: ResourceType, name: str) -> StatusError:
    """Return 404: no such object."""
    message = f"{qualified_resource(rt)} {quote(name)} not found"
    return StatusError(404, "NotFound", message, _details(rt, name))


def already_exists(rt: ResourceType, name: str) -> StatusError:
    """Return 409: the name is in use."""
    message = f"{qualified_resource(rt)} {quote(name)} already exists"
    return StatusError(409, "AlreadyExists", message, _details(rt, name))


def conflict(rt: ResourceType, name: str, why: str = OPTIMISTIC_LOCK_MESSAGE) -> StatusError:
    """Return 409: the request is for another state of the object."""
    message = f"Operation cannot be fulfilled on {qualified_resource(rt)} {quote(name)}: {why}"
    return StatusError(409, "Conflict", message, _details(rt, name))


def invalid(rt: ResourceType, name: str, causes: Sequence[Cause]) -> StatusError:
    """Return 422: the object violates rules; the message has every cause."""
    seen = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    listed = seen[0] if len(seen) == 1 else "[" + ", ".join(seen) + "]"
    message = f"{qualified_kind(rt)} {quote(name)} is invalid: {listed}"
    details: Object = {"name": name} if name else {}
    if rt.group:
        details["group"] = rt.group
    details["kind"] = rt.kind
    return StatusError(422, "Invalid", message, details, causes=list(causes))


def bad_request(message: str) -> StatusError:
    """Return 400: the request cannot be understood."""
    return StatusError(400, "BadRequest", message)


def undecodable(version: str, kind: str, why: str) -> StatusError:
    """Return 400: the body cannot be read as its kind."""
    return bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {why}')


def expired(message: str) -> StatusError:
    """Return 410: the history does not have the requested version; list again."""
    return StatusError(410, "Expired", message)


def forbidden(rt: ResourceType, name: str, why: str) -> StatusError:
    """Return 403: the request is valid, but not allowed."""
    message = f"{qualified_resource(rt)} {quote(name)} is forbidden: {why}"
    return StatusError(403, "Forbidden", message, _details(rt, name))


def unsupported_media_type(message: str) -> StatusError:
    """Return 415: the content type of a body or patch is not known."""
    return StatusError(415, "UnsupportedMediaType", message)


def too_large(message: str = "etcdserver: request is too large") -> StatusError:
    """Return 413: the object does not fit into the store."""
    return StatusError(413, "RequestEntityTooLarge", message)


def quote(value: str) -> str:
    """Quote a string as Go's %q does for the characters that occur in names and messages."""
    return json.dumps(value, ensure_ascii=False)


def render_value(value: object) -> str:
    """Write a value for a message: a quoted string, or JSON."""
    if isinstance(value, str):
        return quote(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def required(path: str, detail: str = "") -> Cause:
    """Report that a field is missing."""
    text = f"Required value: {detail}" if detail else "Required value"
    return Cause("FieldValueRequired", path, text)


def invalid_value(path: str, value: object, detail: str) -> Cause:
    """Report that the value of a field breaks a rule."""
    return Cause("FieldValueInvalid", path, f"Invalid value: {render_value(value)}: {detail}")


def duplicate(path: str, value: object) -> Cause:
    """Report that a value may occur once only."""
    return Cause("FieldValueDuplicate", path, f"Duplicate value: {render_value(value)}")


def not_supported(path: str, value: object, supported: Sequence[str]) -> Cause:
    """Report that a value is not one of the known values."""
    known = ", ".join(quote(item) for item in supported)
    text = f"Unsupported value: {render_value(value)}: supported values: {known}"
    return Cause("FieldValueNotSupported", path, text)


def not_allowed(path: str, detail: str) -> Cause:
    """Report that a field may not be set or changed."""
    return Cause("FieldValueForbidden", path, f"Forbidden: {detail}")


def too_long(path: str, limit: int) -> Cause:
    """Report that a value has too many bytes."""
    text = f"Too long: may not be more than {limit} bytes"
    return Cause("FieldValueTooLong", path, text)


def missing_reference(path: str, value: object) -> Cause:
    """Report that a value names an object that does not exist."""
    return Cause("FieldValueNotFound", path, f"Not found: {render_value(value)}")
