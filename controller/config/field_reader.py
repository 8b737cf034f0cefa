"""Reads typed values out of a mapping and collects every fault with its path.

A faulty value reads as its default, so that reading goes on and all faults of a file are
reported at once.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from framework.api.fielderrors import FieldError, join_path

UNLIMITED = "unlimited"
_INT32 = 2**31
_INT64 = 2**63


@dataclass(slots=True)
class Faults:
    """What was found wrong so far."""

    errors: list[FieldError] = field(default_factory=list)
    unknown_keys: list[FieldError] = field(default_factory=list)
    """Keys that are not read: warnings, or errors in strict mode."""
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
        """Note a fault of ``key`` (of the mapping itself if empty)."""
        path = join_path(self.path, key) if key else self.path
        self._faults.errors.append(FieldError(path, message))

    def warn(self, key: str, message: str) -> None:
        """Note something about ``key`` that may be meant."""
        self._faults.warnings.append(FieldError(join_path(self.path, key), message))

    def has(self, key: str) -> bool:
        """Return whether ``key`` is there and not null."""
        return self._wire.get(key) is not None

    def read_int(
        self, key: str, default: int, low: int | None = None, high: int = _INT64 - 1
    ) -> int:
        """Read a whole number of [low, high]."""
        value = self._take(key)
        if value is None:
            return default
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            self.fail(key, f"must be a whole number, got {_name_type(value)}; {_bounds(low, high)}")
            return default
        if not (-_INT64 if low is None else low) <= value <= high:
            self.fail(key, f"{value} is out of range; {_bounds(low, high)}")
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
        value = self._take(key)
        if value is None:
            return default
        if value == UNLIMITED:
            return None
        remedy = f"(0, {high:g}], or {UNLIMITED}"
        if not isinstance(value, int | float) or isinstance(value, bool):
            self.fail(key, f"must be a number, got {_name_type(value)}; give one of {remedy}")
            return None
        if not 0 < value <= high:
            self.fail(key, f"{value:g} is out of range; give a number of {remedy}")
            return None
        return float(value)

    def read_bool(self, key: str, *, default: bool) -> bool:
        """Read true or false."""
        value = self._take(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.fail(key, f"must be true or false, got {_name_type(value)}")
            return default
        return value

    def read_text(self, key: str) -> str | None:
        """Read optional text; a bare number is taken as text, as Go's YAML does."""
        value = self._take(key)
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        self.fail(key, f"must be a string, got {_name_type(value)}; put it into quotes")
        return None

    def read_texts(self, key: str) -> tuple[str, ...] | None:
        """Read an optional list of texts."""
        value = self._take(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.fail(key, f"must be a list of strings, got {_name_type(value)}")
            return None
        return tuple(value)

    def read_section(self, key: str) -> "FieldReader":
        """Read an optional mapping; an absent one reads as empty."""
        value = self._take(key)
        if value is not None and not isinstance(value, dict):
            self.fail(key, f"must be a mapping, got {_name_type(value)}")
            value = None
        return FieldReader(value or {}, join_path(self.path, key), self._faults)

    def read_items(self, key: str) -> Iterator["FieldReader"]:
        """Read an optional list of mappings."""
        value = self._take(key)
        if value is None:
            return
        if not isinstance(value, list):
            self.fail(key, f"must be a list, got {_name_type(value)}")
            return
        for index, item in enumerate(value):
            path = f"{join_path(self.path, key)}[{index}]"
            if isinstance(item, dict):
                yield FieldReader(item, path, self._faults)
            else:
                message = f"must be a mapping, got {_name_type(item)}; remove it or fill it in"
                self._faults.errors.append(FieldError(path, message))

    def report_unknown_keys(self) -> None:
        """Note every key that was not read."""
        for key in self._wire:
            if key not in self._read:
                known = ", ".join(sorted(self._read))
                message = f"unknown key, ignored by the controller; known here: {known}"
                self._faults.unknown_keys.append(FieldError(join_path(self.path, key), message))

    def _take(self, key: str) -> Any:
        self._read.add(key)
        return self._wire.get(key)


def _bounds(low: int | None, high: int) -> str:
    if low is None:
        return "give a whole number"
    if high == _INT64 - 1:
        return f"give a whole number of at least {low}"
    return f"give a whole number of [{low}, {high}]"


def _name_type(value: object) -> str:
    names: dict[type, str] = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "text",
        list: "a list",
        dict: "a mapping",
        type(None): "null",
    }
    shown = f" ({value!r})" if isinstance(value, bool | int | float | str) else ""
    return names.get(type(value), type(value).__name__) + shown
