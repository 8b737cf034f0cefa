"""The types of avoided nodes: docs/design/avoiding.md. Not in the original."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

DEFAULT_AVOIDED_FAILURES = 2
DEFAULT_AVOID_WINDOW_SECONDS = 86_400
DEFAULT_MAX_AVOIDED_NODES = 3


@dataclass(frozen=True, slots=True)
class AvoidNodesSpec:
    """Tasks of a role avoid nodes on which they failed ``failures`` times in a window."""

    failures: int = DEFAULT_AVOIDED_FAILURES
    """How often a Task fails on a node within the window before its next attempts avoid it."""
    within_seconds: int = DEFAULT_AVOID_WINDOW_SECONDS
    """Length of the window, which ends now."""
    max_nodes: int = DEFAULT_MAX_AVOIDED_NODES
    """How many nodes an attempt of a Task avoids at most."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Wire fields that this version does not know; they are written back."""


@dataclass(frozen=True, slots=True)
class NodeFailure:
    """A failure of a Task on a node."""

    node: str = ""
    time: datetime | None = None
    """When the controller saw it; None counts as outside of each window."""
    extra: Mapping[str, Any] = field(default_factory=dict)
