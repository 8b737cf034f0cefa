"""The Pods of the gang that leave, for the notification of processes. Pure.

The event ``leaving`` notifies the processes of a Pod that leaves. If the gang is complete without
it, its peers get a generation without it. If not, they keep their generation, and the event
``peer-leaving`` lists the members that leave and their deadline: the processes may write a
checkpoint together with them.
"""

import json
from typing import Any, Dict, NamedTuple, Optional, Tuple

from framework.agent.gang import Identity, index_members
from framework.api.naming import TaskKey
from framework.api.roster import Leaving, Member, Roster


class Departure(NamedTuple):
    """A Pod that leaves."""

    role: str
    """Role of its Task."""
    index: int  # type: ignore[assignment]  # hides tuple.index, which is not used
    """Index of its Task."""
    address: str
    """Its address; "" if processes know no gang with it."""
    fingerprint: str
    """Fingerprint of the Pod."""
    since: int
    """The first generation in which it leaves."""
    deadline: str
    """When it is deleted at the latest."""

    def to_wire(self) -> Dict[str, Any]:
        """Build the JSON object."""
        return {
            "role": self.role,
            "index": self.index,
            "address": self.address,
            "podUIDFingerprint": self.fingerprint,
            "deadline": self.deadline,
        }


class Departures(NamedTuple):
    """The Pods that leave: the own one, and members of the gang that processes know."""

    own: Optional[Departure] = None
    peers: Tuple[Departure, ...] = ()


def find_departures(
    roster: Roster, own: Optional[Leaving], known: Optional[Roster], identity: Identity
) -> Departures:
    """Find the Pods that leave.

    Args:
        roster: the newest roster.
        own: its entry about the own Pod, if it leaves.
        known: the roster that processes were notified of.
        identity: the own Pod.
    """
    if own is None and not roster.leaving:
        return Departures()
    members = index_members(known)
    key = TaskKey(identity.role, identity.index)
    peers = []
    # With a complete roster, processes get a generation without them.
    for entry in () if roster.complete else roster.leaving:
        entry_key = TaskKey(entry.role, entry.index)
        member = members.get(entry_key)
        if entry_key != key and member is not None and member.fingerprint == entry.fingerprint:
            peers.append(_describe(entry, member))
    return Departures(_describe(own, members.get(key)) if own else None, tuple(peers))


def render_departures(instance_uid: str, departures: Departures) -> bytes:
    """Render the file from which ``peers.leaving`` reads."""
    own = departures.own
    document = {
        "version": 1,
        "instanceUID": instance_uid,
        "own": None if own is None else own.to_wire(),
        "peers": [departure.to_wire() for departure in departures.peers],
    }
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def _describe(entry: Leaving, member: Optional[Member]) -> Departure:
    address = "" if member is None else member.address
    return Departure(
        entry.role, entry.index, address, entry.fingerprint, entry.since, entry.deadline
    )
