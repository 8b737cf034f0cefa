"""Options of writes and of deletes. The HTTP front reads them from query parameters and bodies."""

from dataclasses import dataclass, field

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
    """What becomes of unknown fields: Ignore, Warn or Strict."""
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
