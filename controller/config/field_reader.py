"""Reads typed values out of a mapping and collects every fault with its path.

Values are converted as those of the API types are (``framework.api.wire``). This module adds
ranges, remedies, and the check for unknown keys.

A faulty value reads as its default, so that reading continues and all faults of a file are reported
together.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from framework.api.fielderrors import FieldError, join_path
from framework.api.wire import (
    BOOL,
    INT,
    INT64_MAX,
    OBJECT,
    STR,
    Errors,
    Kind,
    list_kind,
    refuse_type,
)

UNLIMITED = "unlimited"
_INT32 = 2**31


@dataclass(slots=True)
class Faults:
    """The faults that were found so far."""

    errors: list[FieldError] = field(default_factory=list)
    unknown_keys: list[FieldError] = field(default_factory=list)
    """Keys that no setting reads: warnings, or errors in strict mode."""
    warnings: list[FieldError] = field(default_factory=list)


class FieldReader:
    """One mapping of the file. A key that is null counts as absent, as in the Go original."""

    def __init__(self, wire: Mapping[str, Any], path: str, faults: Faults) -> None:
        """Read ``wire``, which is at ``path`` of the file."""
        self.path = path
        self._wire = wire
        self._faults = faults
        self._read: set[str] = set()

    def fail(self, key: str, message: str) -> None:
        """Record a fault of ``key``; "" for the mapping itself."""
        path = join_path(self.path, key) if key else self.path
        self._faults.errors.append(FieldError(path, message))

    def warn(self, key: str, message: str) -> None:
        """Record a warning about ``key``: its value may be intended."""
        self._faults.warnings.append(FieldError(join_path(self.path, key), message))

    def has(self, key: str) -> bool:
        """Return whether ``key`` is there and not null."""
        return self._wire.get(key) is not None

    def read_int(
        self, key: str, default: int, low: int | None = None, high: int = INT64_MAX
    ) -> int:
        """Read a whole number of [low, high]."""
        remedy = _bounds(low, high)
        value: int | None = self._decode(key, INT, remedy)
        if value is None:
            return default
        if not (-INT64_MAX if low is None else low) <= value <= high:
            self.fail(key, f"{value} is out of range; {remedy}")
            return default
        return value

    def read_int32(self, key: str) -> int | None:
        """Read an optional whole number of 32 bits."""
        if not self.has(key):
            self._read.add(key)
            return None
        return self.read_int(key, 0, -_INT32, _INT32 - 1)

    def read_rate(self, key: str, high: float, *, default: float | None) -> float | None:
        """Read an optional number of (0, high]; None for the word ``unlimited``."""
        if not self.has(key) or self._wire[key] == UNLIMITED:
            self._read.add(key)
            return None if self.has(key) else default
        remedy = f"give a number of (0, {high:g}], or {UNLIMITED}"
        value: float | None = self._decode(key, _NUMBER, remedy)
        if value is None:
            return None
        if not 0 < value <= high:
            self.fail(key, f"{value} is out of range; {remedy}")
            return None
        return float(value)

    def read_bool(self, key: str, *, default: bool) -> bool:
        """Read true or false."""
        value: bool | None = self._decode(key, BOOL)
        return default if value is None else value

    def read_text(self, key: str) -> str | None:
        """Read optional text; a bare number is taken as text, as Go's YAML does."""
        text: str | None = self._decode(key, _TEXT, "put it into quotes")
        return text

    def read_texts(self, key: str) -> tuple[str, ...] | None:
        """Read an optional list of texts."""
        texts: tuple[str | None, ...] | None = self._decode(key, _TEXTS, "give a list of strings")
        # A faulty item reads as none.
        return None if texts is None else tuple(text for text in texts if text is not None)

    def read_section(self, key: str) -> "FieldReader":
        """Read an optional mapping; an absent one reads as empty."""
        section = self._decode(key, OBJECT, "give keys and values")
        return FieldReader(section or {}, join_path(self.path, key), self._faults)

    def read_items(self, key: str) -> Iterator["FieldReader"]:
        """Read an optional list of mappings."""
        items = self._decode(key, _SECTIONS, "give items with keys and values")
        for index, item in enumerate(items or ()):
            if item is not None:
                yield FieldReader(item, f"{join_path(self.path, key)}[{index}]", self._faults)

    def report_unknown_keys(self) -> None:
        """Record every key that was not read."""
        for key in self._wire:
            if key not in self._read:
                known = ", ".join(sorted(self._read))
                message = f"unknown key, ignored by the controller; known here: {known}"
                self._faults.unknown_keys.append(FieldError(join_path(self.path, key), message))

    def _decode(self, key: str, kind: Kind, remedy: str = "") -> Any:
        """Decode as the API types are decoded; None if ``key`` is absent, null or faulty."""
        self._read.add(key)
        value = self._wire.get(key)
        if value is None:
            return None
        errors: Errors = []
        decoded = kind.decode(value, join_path(self.path, key), errors)
        for error in errors:
            message = f"{error.message}; {remedy}" if remedy else error.message
            self._faults.errors.append(FieldError(error.path, message))
        return decoded


def _bounds(low: int | None, high: int) -> str:
    if low is None:
        return "give a whole number"
    if high == INT64_MAX:
        return f"give a whole number of at least {low}"
    return f"give a whole number of [{low}, {high}]"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _decode_number(value: Any, path: str, errors: Errors) -> Any:
    return value if _is_number(value) else refuse_type(path, "a number", value, errors)


def _decode_text(value: Any, path: str, errors: Errors) -> Any:
    return STR.decode(str(value) if _is_number(value) else value, path, errors)


_NUMBER = Kind("number", _decode_number, float)
_TEXT = Kind("string", _decode_text, str)
_TEXTS = list_kind(STR)
_SECTIONS = list_kind(OBJECT)
