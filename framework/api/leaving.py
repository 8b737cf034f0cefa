"""The types of leaving: docs/design/leaving.md. Not in the original."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

# Why a Task leaves: the reasons in the status.
POD_DISRUPTED = "PodDisrupted"
NODE_TAINTED = "NodeTainted"
NODE_CORDONED = "NodeCordoned"

DEFAULT_MAX_LEAVES = 10
DEFAULT_LEAVE_WINDOW_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class LeaveNodesSpec:
    """Tasks of a role leave before their nodes go, at most ``max_leaves`` times in a window."""

    timeout_seconds: int = 0
    """Time between the mark of a Task and the deletion of its Pod."""
    max_leaves: int = DEFAULT_MAX_LEAVES
    """How often a Task leaves within the window, without a counted retry."""
    within_seconds: int = DEFAULT_LEAVE_WINDOW_SECONDS
    """Length of the window."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Wire fields that this version does not know; they are written back."""


@dataclass(frozen=True, slots=True)
class LeavingStatus:
    """Why an attempt of a Task leaves, and until when. It never changes."""

    reason: str = ""
    """CamelCase: PodDisrupted, NodeTainted or NodeCordoned."""
    message: str = ""
    """Details for users."""
    deadline_time: datetime | None = None
    """When the Pod is deleted at the latest; None: now."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Wire fields that this version does not know; they are written back."""


@dataclass(frozen=True, slots=True)
class LeaveCount:
    """How often a Task has left in the current window."""

    count: int = 0
    """Number of times."""
    since_time: datetime | None = None
    """Start of the window: when the Task first left in it."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Wire fields that this version does not know; they are written back."""
