"""The difference between two generations, for the notification of processes. Pure."""

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from framework.agent.gang import index_members
from framework.api.naming import TaskKey
from framework.api.roster import STATE_SUCCEEDED, Member, Roster


class PeerChange(NamedTuple):
    """A member that was added, was removed or has moved.

    ``previous_address`` is "" unless it has moved. ``state`` is the state of a removed member whose
    Task is completed, Succeeded or Failed, and "" for others.
    """

    role: str
    index: int  # type: ignore[assignment]  # hides tuple.index, which is not used
    address: str
    previous_address: str = ""
    state: str = ""

    def to_wire(self) -> Dict[str, Any]:
        """Build the JSON object."""
        wire: Dict[str, Any] = {"role": self.role, "index": self.index, "address": self.address}
        if self.previous_address:
            wire["previousAddress"] = self.previous_address
        if self.state:
            wire["state"] = self.state
        return wire


class Diff(NamedTuple):
    """The difference, each list in the roster's order (removed ones in that of the old roster).

    A member has moved if it has a new address, or if its Pod was replaced at the same address: in
    both cases its peers must connect again. ``previous_generation`` is 0 before the first.
    """

    generation: int
    previous_generation: int
    added: Tuple[PeerChange, ...]
    removed: Tuple[PeerChange, ...]
    moved: Tuple[PeerChange, ...]

    @property
    def is_empty(self) -> bool:
        """Return whether the members are the same."""
        return not (self.added or self.removed or self.moved)

    @property
    def is_only_success(self) -> bool:
        """Return whether the only change is that members have succeeded."""
        is_any = bool(self.added or self.moved or not self.removed)
        return not is_any and all(change.state == STATE_SUCCEEDED for change in self.removed)

    def to_wire(self) -> Dict[str, Any]:
        """Build the JSON object that processes are given."""
        return {
            "generation": self.generation,
            "previousGeneration": self.previous_generation,
            "added": [change.to_wire() for change in self.added],
            "removed": [change.to_wire() for change in self.removed],
            "moved": [change.to_wire() for change in self.moved],
        }


def compute_diff(before: Optional[Roster], after: Roster) -> Diff:
    """Compute what changed; without ``before`` every member is added."""
    old, new = index_members(before), index_members(after)
    added: List[PeerChange] = []
    moved: List[PeerChange] = []
    for key, member in new.items():
        known = old.get(key)
        if known is None:
            added.append(PeerChange(key.role, key.index, member.address))
        elif (known.addresses, known.fingerprint) != (member.addresses, member.fingerprint):
            previous = known.address
            moved.append(PeerChange(key.role, key.index, member.address, previous))
    gone = {key: member for key, member in old.items() if key not in new}
    return Diff(
        generation=after.generation,
        previous_generation=before.generation if before else 0,
        added=tuple(added),
        removed=_describe_removed(gone, after),
        moved=tuple(moved),
    )


def _describe_removed(gone: Mapping[TaskKey, Member], after: Roster) -> Tuple[PeerChange, ...]:
    states = {
        TaskKey(role.name, task.index): task.state
        for role in after.roles
        for task in role.completed
    }
    return tuple(
        PeerChange(key.role, key.index, member.address, state=states.get(key, ""))
        for key, member in gone.items()
    )
