"""Errors with the path of a field, of decoding, validation and the config loader.

All errors of an input are reported together, each with its path and remedy.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldError:
    """A fault of an input, with a path such as ``spec.taskRoles[0].name``."""

    path: str
    message: str

    def __str__(self) -> str:
        """Render as ``path: message``."""
        return f"{self.path}: {self.message}" if self.path else self.message


class FieldErrors(ValueError):  # noqa: N818  # the plural says that it holds all of them
    """All faults of an input."""

    def __init__(self, errors: Iterable[FieldError]) -> None:
        """Keep ``errors`` in the order they were found."""
        self.errors = tuple(errors)
        super().__init__("; ".join(str(error) for error in self.errors))


def join_path(path: str, key: str) -> str:
    """Append a key to a path."""
    return f"{path}.{key}" if path else key
