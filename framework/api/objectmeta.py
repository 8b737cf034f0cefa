"""The metadata of a Framework that decisions read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class ObjectMeta:
    """The metadata that decisions read."""

    name: str = ""
    """Name of the object."""
    namespace: str = ""
    """Namespace of the object."""
    uid: str = ""
    """UID; "" before the object is stored."""
    resource_version: str = ""
    """Version for conflict detection; "" before the object is stored."""
    generation: int = 0
    """Number of the spec, counted by the API server."""
    creation_time: datetime | None = None
    """When the object was created."""
    deletion_time: datetime | None = None
    """When deletion was requested; None for an object that is not terminating."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """All other keys of the metadata."""
