"""What processes are notified of, as JSON and as variables. Pure."""

import json
from typing import Any, Dict, NamedTuple

from rendezvous.core.diff import Diff, PeerChange

CHANGED = "changed"
LEAVING = "leaving"
COMPLETING = "completing"

# One variable may have 128 KiB; the whole change is on the command's input.
_MAX_VALUE_BYTES = 100 * 1000


class Notify(NamedTuple):
    """Notify processes of an event. ``deadline`` is when a leaving Pod is deleted at the latest."""

    event: str
    diff: Diff
    deadline: str = ""

    def to_wire(self) -> Dict[str, Any]:
        """Build the JSON object."""
        wire: Dict[str, Any] = {"event": self.event, **self.diff.to_wire()}
        if self.deadline:
            wire["deadline"] = self.deadline
        return wire

    def to_json(self) -> bytes:
        """Build the bytes on the wire."""
        return json.dumps(self.to_wire(), separators=(",", ":")).encode() + b"\n"

    def to_env(self) -> Dict[str, str]:
        """Build the variables of a command; a list that is too long is left out."""
        env = {
            "FB_EVENT": self.event,
            "FB_GENERATION": str(self.diff.generation),
            "FB_PREVIOUS_GENERATION": str(self.diff.previous_generation),
        }
        for name, changes in (
            ("FB_ADDED", self.diff.added),
            ("FB_REMOVED", self.diff.removed),
            ("FB_MOVED", self.diff.moved),
        ):
            text = ",".join(map(_render_change, changes))
            if len(text) <= _MAX_VALUE_BYTES:
                env[name] = text
        if self.deadline:
            env["FB_DEADLINE"] = self.deadline
        return env


def _render_change(change: PeerChange) -> str:
    return f"{change.role}/{change.index}={change.address}"
