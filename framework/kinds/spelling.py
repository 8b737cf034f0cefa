"""Fields with two spellings, for example ``tfPort`` and ``tf_port``. Pure.

A body is decoded in one spelling, and an error names the field as the user wrote it.

Example: ``{"replica_specs": [{"tf_port": 1}]}`` becomes ``{"replicaSpecs": [{"tfPort": 1}]}``, and
the path ``spec.replicaSpecs[0].tfPort`` is shown as ``spec.replica_specs[0].tf_port``.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from framework.api.fielderrors import FieldError, FieldErrors
from framework.kinds.compiled import Note, Object

_STEP = re.compile(r"\.?[^.\[\]]+|\[[^\[\]]*\]")


class Spelling:
    """Renames the fields of one body, and shows paths as the user wrote them."""

    def __init__(self) -> None:
        """Know no renamed field."""
        self._written: dict[str, str] = {}
        self.errors: list[FieldError] = []

    def rename(self, body: Mapping[str, Any], path: str, names: Mapping[str, str]) -> Object:
        """Return the body with the fields in ``names`` (other spelling -> spelling) renamed.

        A field that is given in both spellings is added to ``errors``.
        """
        renamed: Object = {}
        for key, value in body.items():
            name = names.get(key, key)
            if name in renamed:
                self.errors.append(
                    FieldError(f"{path}.{key}", f"is the same field as {name}: keep one of them")
                )
                continue
            renamed[name] = value
            if name != key:
                self._written[f"{path}.{name}"] = key
        return renamed

    def show_path(self, path: str) -> str:
        """Return the path with each field as the user wrote it."""
        known, shown = "", ""
        for step in _STEP.findall(path):
            known += step
            written = self._written.get(known)
            shown += step if written is None else f".{written}"
        return shown

    def show_errors(self, errors: Iterable[FieldError]) -> FieldErrors:
        """Build the exception with all errors, their paths as the user wrote them."""
        return FieldErrors([replace(e, path=self.show_path(e.path)) for e in errors])

    def show_notes(self, notes: Iterable[Note]) -> tuple[Note, ...]:
        """Return the notes with their paths as the user wrote them."""
        return tuple(replace(note, path=self.show_path(note.path)) for note in notes)
