"""The result of a compile step: what an object of another kind becomes. Pure."""

from dataclasses import dataclass
from typing import Any, TypeAlias

from framework.api.fielderrors import FieldError, FieldErrors

Object: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Note:
    """A part of the object that means something else in the Framework; ``path`` is its field."""

    path: str
    message: str

    def __str__(self) -> str:
        """Render as ``path: message``."""
        return f"{self.path}: {self.message}" if self.path else self.message


@dataclass(frozen=True, slots=True)
class WantedWorkers:
    """The wanted workers, if a scaler decides them instead of the spec of the job."""

    count: int
    """``taskNumber`` of the role: the greatest index + 1."""
    absent: tuple[int, ...] = ()
    """Indexes without a worker."""
    drain_seconds: int = 0
    """Limit of the drain of workers that leave; 0 for no drain."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A Framework and the objects that it needs, in the order in which to apply them."""

    framework: Object
    supporting: tuple[Object, ...] = ()
    """Services, accounts and rights: to be applied before the Framework."""
    notes: tuple[Note, ...] = ()
    """What was translated, for the user."""


def refuse(path: str, message: str) -> FieldErrors:
    """Build the error for one faulty field."""
    return FieldErrors([FieldError(path, message)])
