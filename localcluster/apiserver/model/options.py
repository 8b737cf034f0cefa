"""Options of writes, of deletes and of reads of logs, from query parameters and bodies."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

IGNORE = "Ignore"
WARN = "Warn"
STRICT = "Strict"

BACKGROUND = "Background"
FOREGROUND = "Foreground"
ORPHAN = "Orphan"


@dataclass
class WriteOptions:
    """Options of create, update and patch."""

    dry_run: bool = False
    field_validation: str = WARN
    """How unknown fields are handled: Ignore, Warn or Strict."""
    warnings: list[str] = field(default_factory=list)
    """Filled during the call; the front sends them as Warning headers."""


@dataclass(frozen=True)
class DeleteOptions:
    """Options of delete; the first two are preconditions."""

    uid: str | None = None
    resource_version: str | None = None
    grace_seconds: int | None = None
    propagation: str | None = None
    """Background, Foreground or Orphan."""
    dry_run: bool = False


class ContainerLog(NamedTuple):
    """The log of a container."""

    namespace: str
    """Namespace of the Pod."""
    pod: str
    """Name of the Pod."""
    container: str
    """Name of the container."""
    uid: str | None = None
    """UID of the Pod; None: of all Pods of this name, the one that started last."""


@dataclass(frozen=True)
class LogReadOptions:
    """The part of a log to read, and its form."""

    follow: bool = False
    """Whether to continue until the container ends."""
    previous: bool = False
    """Whether to read the run before the last restart."""
    timestamps: bool = False
    """Whether each line keeps its time at the start."""
    tail_lines: int | None = None
    """Maximum number of lines, counted from the end; None for all lines."""
    since_seconds: int | None = None
    """Maximum age of a line; None for any age."""
    since_time: datetime | None = None
    """The first time of a line; ``since_seconds`` overrides it."""
    limit_bytes: int | None = None
    """Maximum number of bytes; None for no maximum."""


WHOLE_LOG = LogReadOptions()
