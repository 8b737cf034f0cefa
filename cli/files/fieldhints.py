"""Finds unknown fields of Frameworks, and the fields that were meant. Pure."""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cli.files.places import Place
from framework.api import constants
from framework.api.crd import build_schema
from framework.api.fielderrors import FieldErrors
from framework.api.types import Framework, TaskRoleSpec
from framework.kube.resources import Object

_OF_EVERY_OBJECT = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
# Fields of other kinds of jobs, and the fields of a Framework with the same meaning.
_OF_OTHER_KINDS = {
    "replicas": "taskNumber",
    "template": "pod",
    "backoffLimit": "retryPolicy",
    "replicaSpecs": "taskRoles",
    "roles": "taskRoles",
}
# Without these fields Tasks are missing, and yet the API server accepts the Framework.
_NEEDED = frozenset({"taskRoles", "taskNumber"})
_STEP = re.compile(r"[^.\[\]]+")
_STEP_OR_ALL = re.compile(r"[^.\[\]]+|\[\]")
_NEAR = 0.8


def list_unknown_fields(framework: Framework) -> Iterator[str]:
    """List the paths of unknown fields; Pod templates are not examined."""
    spec = framework.spec
    yield from (key for key in framework.extra if key not in _OF_EVERY_OBJECT)
    yield from (f"spec.{key}" for key in spec.extra)
    yield from (f"spec.retryPolicy.{key}" for key in spec.retry_policy.extra)
    for index, role in enumerate(spec.task_roles):
        path = f"spec.taskRoles[{index}]"
        yield from (f"{path}.{key}" for key in role.extra)
        policy = role.completion_policy
        yield from (f"{path}.frameworkAttemptCompletionPolicy.{key}" for key in policy.extra)
        yield from _list_unknown_extensions(role, path)
        yield from (f"{path}.task.{key}" for key in role.task.extra)
        yield from (f"{path}.task.retryPolicy.{key}" for key in role.task.retry_policy.extra)


def _list_unknown_extensions(role: TaskRoleSpec, path: str) -> Iterator[str]:
    """List the unknown fields of the extensions, which the original does not have."""
    recovery = role.recovery
    parts: list[tuple[str, Mapping[str, Any]]] = []
    if role.drain is not None:
        parts.append((constants.DRAIN_FIELD, role.drain.extra))
    if recovery is not None:
        place = constants.RECOVERY_FIELD
        parts.append((place, recovery.extra))
        if recovery.in_place is not None:
            parts.append((f"{place}.{constants.IN_PLACE_FIELD}", recovery.in_place.extra))
        if recovery.leave_nodes is not None:
            parts.append((f"{place}.{constants.LEAVE_NODES_FIELD}", recovery.leave_nodes.extra))
        if recovery.avoid_nodes is not None:
            parts.append((f"{place}.{constants.AVOID_NODES_FIELD}", recovery.avoid_nodes.extra))
    yield from (f"{path}.{part}.{key}" for part, extra in parts for key in extra)


def suggest_field(path: str) -> str | None:
    """Suggest the field that an unknown one was meant to be; None if none is similar.

    Args:
        path: as ``list_unknown_fields`` gives it.
    """
    *steps, last = path.replace("[", ".[").split(".")
    schema: Object = build_schema()
    for step in steps:
        # A key that has a dot or a bracket in it looks like several steps.
        inner = schema.get("items") if step.startswith("[") else _properties(schema).get(step)
        schema = inner or {}
    if other := _OF_OTHER_KINDS.get(last):
        return other if other in _properties(schema) else None
    by_folded = {name.casefold(): name for name in _properties(schema)}
    near = difflib.get_close_matches(last.casefold(), by_folded, n=1)
    return by_folded[near[0]] if near else None


def _properties(schema: Object) -> Object:
    properties: Object = schema.get("properties") or {}
    return properties


def suggest_place(path: str) -> str | None:
    """Suggest where an unknown field belongs; None unless one place has a field of this name."""
    places = list(_find_places(build_schema(), path.rpartition(".")[2], ""))
    return places[0] if len(places) == 1 else None


def ask_field(path: str) -> str:
    """Ask whether another field was meant, or the same one elsewhere; "" if none is known."""
    place, meant = suggest_place(path), suggest_field(path)
    if place:
        return f"; its place is {place}"
    return f"; did you mean {meant}?" if meant else ""


def list_lost_fields(framework: Framework, body: Object) -> Iterator[str]:
    """List the misspelt and misplaced ``taskRoles`` and ``taskNumber``, if Tasks would be missing.

    Args:
        framework: decoded.
        body: the same as written.
    """
    for path in list_unknown_fields(framework):
        place = suggest_place(path)
        meant = place or f"{path.rpartition('.')[0]}.{suggest_field(path)}"
        if meant.rpartition(".")[2] in _NEEDED and _is_absent(body, _STEP_OR_ALL.findall(meant)):
            yield path


def _is_absent(value: Any, steps: Sequence[str]) -> bool:
    """Return whether an object lacks a field. For a list: whether any of its items lacks it."""
    first, *rest = steps
    if isinstance(value, list):
        items = value if first == "[]" else value[int(first) :][:1]
        return any(_is_absent(item, rest) for item in items)
    if not isinstance(value, dict) or first not in value:
        return True
    return bool(rest) and _is_absent(value[first], rest)


def describe_faults(place: Place, faults: FieldErrors, body: Any) -> list[str]:
    """Describe the faults of an object, a line each.

    Args:
        place: the place of the object in the user's files.
        faults: of the object.
        body: the object, in which a misspelt field may be the cause.
    """
    return [
        f"{place.locate(error.path)}: {replace(error, path=place.name_field(error.path))}"
        f"{_ask_sibling(body, error.path)}"
        for error in faults.errors
    ]


def _ask_sibling(body: Any, path: str) -> str:
    """Ask whether a field beside a missing one was meant for it; "" if none is similar.

    Args:
        body: the whole object.
        path: of a field with a fault.
    """
    *steps, last = _STEP.findall(path) or [""]
    value = body
    try:
        for step in steps:
            value = value[int(step)] if isinstance(value, list) else value[step]
    except (LookupError, ValueError, TypeError):
        return ""
    if not isinstance(value, dict) or last in value:
        return ""
    near = difflib.get_close_matches(last, map(str, value), n=1, cutoff=_NEAR)
    return f"; write `{last}` for `{near[0]}`" if near else ""


def _find_places(schema: Object, name: str, path: str) -> Iterator[str]:
    """Find the fields of this name below ``spec``."""
    for key, inner in _properties(schema).items():
        place = f"{path}.{key}" if path else key
        if key == name and path:
            yield place
        elif key != "status":
            yield from _find_places(inner, name, place)
    if schema.get("items"):
        yield from _find_places(schema["items"], name, f"{path}[]")
