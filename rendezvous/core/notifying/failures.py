"""The members that failed, of the gang that processes know. Pure.

The roster lists members that failed before their successors have an address. Processes are notified
of a failure at once, also if the roster is incomplete and so is not shown. They are notified only
if the failed Pod is in the gang of their last notification. The own Pod is left out, and so is a
Pod that was created and failed before its generation was shown.
"""

import json
from typing import Any, Dict, NamedTuple, Optional, Tuple

from framework.agent.gang import Identity, index_members
from framework.api.naming import TaskKey
from framework.api.roster import Roster


class MemberFailure(NamedTuple):
    """A member that failed."""

    role: str
    """Role of its Task."""
    index: int  # type: ignore[assignment]  # hides tuple.index, which is not used
    """Index of its Task."""
    address: str
    """The address that it had."""
    fingerprint: str
    """Fingerprint of its Pod."""
    since: int
    """The first generation that lists the failure."""
    code: Optional[int]
    """Completion code of its Task attempt; None if it is unknown."""
    reason: str
    """Phrase of the code; "" if it is unknown."""

    def to_wire(self) -> Dict[str, Any]:
        """Build the JSON object."""
        return {
            "role": self.role,
            "index": self.index,
            "address": self.address,
            "podUIDFingerprint": self.fingerprint,
            "code": self.code,
            "reason": self.reason,
        }


def find_failures(
    roster: Roster, known: Optional[Roster], identity: Identity
) -> Tuple[MemberFailure, ...]:
    """Find the failures of a roster that concern processes which know the gang ``known``."""
    if known is None or not roster.failed:
        return ()
    members = index_members(known)
    members.pop(TaskKey(identity.role, identity.index), None)
    found = []
    for failed in roster.failed:
        member = members.get(TaskKey(failed.role, failed.index))
        if member is not None and member.fingerprint == failed.fingerprint:
            found.append(
                MemberFailure(
                    role=failed.role,
                    index=failed.index,
                    address=member.address,
                    fingerprint=failed.fingerprint,
                    since=failed.since,
                    code=failed.code,
                    reason=failed.reason,
                )
            )
    return tuple(found)


def render_failures(instance_uid: str, failures: Tuple[MemberFailure, ...]) -> bytes:
    """Render the file from which ``peers.on_change`` reads failures."""
    document = {
        "version": 1,
        "instanceUID": instance_uid,
        "failed": [failure.to_wire() for failure in failures],
    }
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"
