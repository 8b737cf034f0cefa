"""The annotation with which the workers of a TrainingJob leave their nodes. Pure.

Its names and limits are those of ``recovery.leaveNodes`` of a role: docs/design/leaving.md.

Example: ``timeoutSeconds=120,maxLeaves=3`` becomes LeaveNodesSpec(120, 3, 86400).
"""

import re
from collections.abc import Iterator

from framework.api import constants
from framework.api.constants import LEAVE_NODES_ANNOTATION
from framework.api.fielderrors import FieldError
from framework.api.leaving import (
    DEFAULT_LEAVE_WINDOW_SECONDS,
    DEFAULT_MAX_LEAVES,
    LeaveNodesSpec,
)
from framework.api.text import cut_text

PATH = f"metadata.annotations[{LEAVE_NODES_ANNOTATION}]"
_TIMEOUT, _MAX, _WITHIN = (
    constants.TIMEOUT_SECONDS_FIELD,
    constants.MAX_LEAVES_FIELD,
    constants.WITHIN_SECONDS_FIELD,
)
_FORM = f"{_TIMEOUT}=120, or {_TIMEOUT}=120,{_MAX}=10,{_WITHIN}=86400"
_ENTRY = re.compile(r"([A-Za-z]+)=(0|[1-9][0-9]{0,8})", re.ASCII)
_MOST = {
    _TIMEOUT: constants.MAX_LEAVE_SECONDS,
    _MAX: constants.MAX_LEAVES,
    _WITHIN: constants.MAX_IN_PLACE_SECONDS,
}
_SHOWN_BYTES = 100


def find_faults(text: str | None) -> Iterator[FieldError]:
    """Find the faults of the annotation; None has none: workers do not leave."""
    if text is None:
        return
    values = _read(text)
    if values is None:
        shown = cut_text(text, _SHOWN_BYTES)
        yield FieldError(PATH, f"is {shown!r}; write {_FORM}, or leave it out")
        return
    for name, value in values.items():
        if not 1 <= value <= _MOST[name]:
            yield FieldError(PATH, f"{name} must be from 1 to {_MOST[name]}, not {value}")


def parse(text: str | None) -> LeaveNodesSpec | None:
    """Parse the annotation, which has no fault; None if workers do not leave."""
    values = None if text is None else _read(text)
    if values is None:
        return None
    return LeaveNodesSpec(
        values[_TIMEOUT],
        values.get(_MAX, DEFAULT_MAX_LEAVES),
        values.get(_WITHIN, DEFAULT_LEAVE_WINDOW_SECONDS),
    )


def _read(text: str) -> dict[str, int] | None:
    """Read names and numbers; None for another form."""
    entries = [_ENTRY.fullmatch(part) for part in text.split(",", len(_MOST))]
    values = {found.group(1): int(found.group(2)) for found in entries if found is not None}
    is_valid = len(values) == len(entries) and values.keys() <= _MOST.keys() and _TIMEOUT in values
    return values if is_valid else None
