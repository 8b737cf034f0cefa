"""The result of a compile step: what an object of another kind becomes. Pure."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from framework.api import constants

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

    def encode(self) -> Object:
        """Encode the fields of the role."""
        fields: Object = {"taskNumber": self.count}
        if self.absent:
            fields[constants.ABSENT_TASK_INDICES_FIELD] = list(self.absent)
        if self.drain_seconds:
            fields[constants.DRAIN_FIELD] = {constants.DRAIN_TIMEOUT_FIELD: self.drain_seconds}
        return fields


@dataclass(frozen=True)
class Compiled:
    """A Framework and the objects that it needs."""

    framework: Object
    """The Framework in JSON, without a status."""
    build_supporting: Callable[[], Iterable[Object]] = tuple
    """Builds ``supporting``. A job of many replicas has many Services, and few decisions need
    them."""
    notes: tuple[Note, ...] = ()
    """What was translated, for the user."""
    key_secret: str = ""
    """Secret with an ssh key that the Pods mount; "" without ssh."""
    needs_key: bool = False
    """Whether ``key_secret`` is to be created for the job, because its user names none."""
    key_notes: tuple[Note, ...] = ()
    """Tells the user to create ``key_secret``."""
    templates: Mapping[str, str] = field(default_factory=dict)
    """Paths of the Pod templates in ``framework``, each with the path in the job."""
    keeps_services: bool = True
    """Whether the Services stay after the end of the job."""

    @cached_property
    def supporting(self) -> tuple[Object, ...]:
        """Services, accounts and rights: to be applied before the Framework, in this order."""
        return tuple(self.build_supporting())
