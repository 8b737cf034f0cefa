"""A notification of processes, as JSON and as variables. Pure."""

import json
from typing import Any, Dict, NamedTuple, Tuple

from rendezvous.core.notifying.departures import Departure
from rendezvous.core.notifying.diff import Diff, PeerChange
from rendezvous.core.notifying.failures import MemberFailure

CHANGED = "changed"
FAILED = "failed"
LEAVING = "leaving"
PEER_LEAVING = "peer-leaving"
COMPLETING = "completing"

# One variable may have 128 KiB; the whole change is on the command's input.
_MAX_VALUE_BYTES = 100 * 1000


class Notified(NamedTuple):
    """The last notifications of processes. The volume has a copy."""

    generation: int = 0
    """The last generation of which they were notified; 0: none."""
    leaving: str = ""
    """The deadline of the drain of which they were notified; "": none."""
    completing: bool = False
    """Whether they were notified of the end of the attempt."""
    failed: int = 0
    """The newest generation of which failures were notified; 0: none."""
    peers_leaving: int = 0
    """The newest generation of which peers that leave were notified; 0: none."""


class Notify(NamedTuple):
    """Notify processes of an event.

    ``deadline`` is when a leaving Pod is deleted at the latest; ``failed`` and ``leaving`` have the
    members that failed, or leave, for the events failed and peer-leaving.
    """

    event: str
    diff: Diff
    deadline: str = ""
    failed: Tuple[MemberFailure, ...] = ()
    leaving: Tuple[Departure, ...] = ()

    def to_wire(self) -> Dict[str, Any]:
        """Build the JSON object."""
        wire: Dict[str, Any] = {"event": self.event, **self.diff.to_wire()}
        if self.deadline:
            wire["deadline"] = self.deadline
        if self.failed:
            wire["failed"] = [failure.to_wire() for failure in self.failed]
        if self.leaving:
            wire["leaving"] = [departure.to_wire() for departure in self.leaving]
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
        for name, rendered in (
            ("FB_ADDED", map(_render_change, self.diff.added)),
            ("FB_REMOVED", map(_render_change, self.diff.removed)),
            ("FB_MOVED", map(_render_change, self.diff.moved)),
            ("FB_FAILED", map(_render_failure, self.failed)),
            ("FB_LEAVING", map(_render_departure, self.leaving)),
        ):
            text = ",".join(rendered)
            if len(text) <= _MAX_VALUE_BYTES:
                env[name] = text
        if self.deadline:
            env["FB_DEADLINE"] = self.deadline
        return env


def _render_change(change: PeerChange) -> str:
    return f"{change.role}/{change.index}={change.address}"


def _render_departure(departure: Departure) -> str:
    return f"{departure.role}/{departure.index}={departure.address}"


def _render_failure(failure: MemberFailure) -> str:
    code = "" if failure.code is None else failure.code
    return f"{failure.role}/{failure.index}={code}"
