"""Parses the path and the query options of a request. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import unquote

from localcluster.apiserver.model.errors import Object, StatusError, bad_request


@dataclass(frozen=True, slots=True)
class Target:
    """The resource, object and subresource of a path."""

    group: str
    """The API group; empty for the core group."""
    version: str
    """Its version."""
    plural: str
    """The resource, for example ``pods``."""
    namespace: str | None = None
    """None in a path without a namespace."""
    name: str | None = None
    """None in the path of a collection."""
    subresource: str | None = None
    """For example ``status``; None in the path of an object."""


def parse_target(path: str) -> Target | None:
    """Parse a path that is still percent-encoded; None if it is no resource path."""
    parts = tuple(unquote(part) for part in path.strip("/").split("/"))
    if not all(parts):
        return None
    if parts[0] == "api":
        parts = ("apis", "", *parts[1:])
    if parts[0] != "apis" or not parts[3:]:
        return None
    _, group, version, *rest = parts
    namespace = None
    # /namespaces/NAME/status is a subresource; /namespaces/NAME/pods is inside the namespace.
    is_inside = bool(rest[2:]) and rest[2] not in ("status", "finalize")
    if rest[0] == "namespaces" and is_inside:
        namespace, rest = rest[1], rest[2:]
    if rest[3:]:
        return None
    plural, name, subresource = (*rest, None, None)[:3]
    return Target(group, version, str(plural), namespace, name, subresource)


def read_flag(query: Mapping[str, str], key: str) -> bool:
    """Return a boolean option; an option without a value is true."""
    # For kube-apiserver, all words but these are true, and also the key without a value.
    return key in query and query[key].lower() not in {"false", "0"}


def read_number(query: Mapping[str, str], key: str) -> int | None:
    """Return a whole-number option, None if it is absent or empty."""
    value = query.get(key)
    if not value:
        return None
    try:
        return int(value)
    except ValueError:
        raise bad_request(f'{key}: parsing "{value}": invalid syntax') from None


def read_time(query: Mapping[str, str], key: str) -> datetime | None:
    """Return an option that is a time, None if it is absent or empty."""
    value = query.get(key)
    if not value:
        return None
    try:
        moment = datetime.fromisoformat(value)
        moment.astimezone(UTC)
    except (ValueError, OverflowError):
        moment = None
    if moment is None or moment.tzinfo is None:
        raise bad_request(f'{key}: parsing time "{value}" as RFC 3339: invalid syntax')
    return moment


def read_resource_version(query: Mapping[str, str]) -> int | None:
    """Return the resourceVersion option, None if it is unset."""
    value = query.get("resourceVersion")
    if not value:
        return None
    if not value.isascii() or not value.isdecimal():
        text = f'resourceVersion: Invalid value: "{value}": strconv.ParseUint: parsing'
        # 500, as in kube-apiserver.
        raise StatusError(500, "InternalError", f'{text} "{value}": invalid syntax')
    return int(value)


def read_dry_run(values: list[str], kind: str) -> bool:
    """Return whether the request must not be stored."""
    for value in values:
        check_word(kind, "dryRun", value, ("All",))
    return bool(values)


def check_version_match(query: Mapping[str, str], version: int | None) -> str:
    """Return the resourceVersionMatch option if it fits the resourceVersion."""
    match, field = query.get("resourceVersionMatch", ""), "resourceVersionMatch"
    check_word("ListOptions", field, match, ("Exact", "NotOlderThan", ""))
    if match and not query.get("resourceVersion"):
        why = f"{field} is forbidden unless resourceVersion is provided"
        raise forbidden_option("ListOptions", field, why)
    if match == "Exact" and version == 0:
        why = f'{field} "exact" is forbidden for resourceVersion "0"'
        raise forbidden_option("ListOptions", field, why)
    return match


def check_word(
    kind: str,
    field: str,
    value: object,
    supported: tuple[str, ...],
    named: tuple[str, ...] | None = None,
) -> None:
    """Check an option that has only a few values (422); the message has those ``named``."""
    if value not in supported:
        known = ", ".join(f'"{item}"' for item in named or supported)
        text = f'Unsupported value: "{value}": supported values: {known}'
        raise _invalid_options(kind, field, "FieldValueNotSupported", text)


def forbidden_option(kind: str, field: str, why: str) -> StatusError:
    """Return 422 for an option that may not be set together with the others."""
    return _invalid_options(kind, field, "FieldValueForbidden", f"Forbidden: {why}")


def _invalid_options(kind: str, field: str, cause: str, text: str) -> StatusError:
    details: Object = {
        "group": "meta.k8s.io",
        "kind": kind,
        "causes": [{"reason": cause, "message": text, "field": field}],
    }
    message = f'{kind}.meta.k8s.io "" is invalid: {field}: {text}'
    return StatusError(422, "Invalid", message, details)
