"""Checks a Framework of a user's file, and finds all of its faults. Pure."""

import copy
import re
from collections.abc import Iterator, Sequence
from typing import Any

from cli.files.fieldhints import ask_field, list_lost_fields, list_unknown_fields
from cli.files.places import Place
from framework.api.codec import decode_framework
from framework.api.fielderrors import FieldError, FieldErrors
from framework.api.validation import validate_framework
from framework.kube.resources import Object


def check_framework(body: Object, place: Place) -> list[str]:
    """Return warnings about the unknown fields of a Framework.

    Args:
        body: the Framework.
        place: its place in the user's files.

    Raises:
        FieldErrors: with every fault of the Framework.
    """
    try:
        framework = decode_framework(body)
    except FieldErrors as e:
        raise FieldErrors([*e.errors, *_find_other_faults(body, e.errors)]) from e
    errors = validate_framework(framework)
    if errors:
        # A misspelt or misplaced field is often the cause.
        unknown = list_unknown_fields(framework)
        fields = [FieldError(path, f"unknown field{ask_field(path)}") for path in unknown]
        raise FieldErrors([*errors, *fields])
    return [
        f"{place.locate(path)}: {path}: unknown field, ignored by the controller{ask_field(path)}"
        for path in list_unknown_fields(framework)
    ]


def refuse_lost_fields(body: Object) -> None:
    """Refuse a Framework that lacks Tasks because of a misspelt or misplaced field.

    Raises:
        FieldErrors: with each of these fields.
    """
    lost = list(list_lost_fields(decode_framework(body), body))
    if lost:
        message = "unknown field, so Tasks would be missing"
        raise FieldErrors([FieldError(path, f"{message}{ask_field(path)}") for path in lost])


def _find_other_faults(body: Object, known: Sequence[FieldError]) -> Iterator[FieldError]:
    """Find the rules that are broken besides the unreadable fields, which are left out."""
    rest = copy.deepcopy(body)
    for fault in known:
        _drop(rest, fault.path)
    try:
        errors = validate_framework(decode_framework(rest))
    except FieldErrors:
        return
    unread = tuple(fault.path for fault in known)
    yield from (e for e in errors if not e.path.startswith(unread))


def _drop(value: Any, path: str) -> None:
    """Remove the field at this path, if it exists."""
    *steps, last = re.findall(r"[^.\[\]]+", path) or [""]
    try:
        for step in steps:
            value = value[int(step)] if isinstance(value, list) else value[step]
    except (LookupError, ValueError, TypeError):
        return
    if isinstance(value, dict):
        value.pop(last, None)
