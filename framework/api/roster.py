"""The roster, which shows agents their gang, and its columnar wire form.

Written by the controller into the attempt ConfigMap, read by the barrier and by rendezvous.
Written for Python 3.7 (agents' zipapp). ``controller/core/roster/roster_policy.py`` decides what a
roster contains; this module has its fields and its wire form. Rules: docs/design/roster.md, "Wire
form".

Wire form (JSON, gzip): per role columns instead of an object per Task, about 10 bytes a Task::

    {"version": 1, "namespace": "default", "framework": "f", "frameworkUID": "...",
     "attemptID": 0, "instanceUID": "0_...", "generation": 7, "complete": true, "phase": "Active",
     "roles": [{"name": "worker", "wanted": 4, "minimum": 4, "running": false,
                "indexes": "0-2", "addresses": ["10.0.0.2", "10.0.0.3", "10.0.0.4"],
                "fingerprints": "0123456789abcdef01234567",
                "moreAddresses": {"0": ["fd00::2"]}, "attemptIDs": {"2": 1},
                "completed": {"3": ["Succeeded", "10.0.0.5"]}, "absent": []}],
     "leaving": [{"role": "worker", "index": 4, "fingerprint": "89abcdef", "since": 7,
                  "deadline": "2026-01-01T00:00:00Z"}],
     "failed": [{"role": "worker", "index": 5, "fingerprint": "76543210", "attemptID": 0,
                 "since": 7, "code": 137, "reason": "ContainerSigKillReceived"}],
     "recovery": {"epoch": 5, "since": 7, "roles": ["worker"], "refused": ["89abcdef"],
                  "waitsSince": 6}}

``failed`` and its ``code``, ``recovery`` and its ``waitsSince`` are optional: a roster without
failed members, or without restart in place, has no such field. A reader that does not know a field
ignores it.
"""

import hashlib
import json
import zlib
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from framework.api.constants import MAX_TASK_NUMBER, MAX_TASKS
from framework.api.packed import Bounds, PackedError, unpack, unpack_base64
from framework.api.rostervalues import (
    MALFORMED,
    RosterError,
    read_count,
    read_typed,
    read_word,
    read_words,
)

WIRE_VERSION = 1
FINGERPRINT_LENGTH = 8

PHASE_ACTIVE = "Active"
PHASE_COMPLETING = "Completing"

STATE_SUCCEEDED = "Succeeded"
STATE_FAILED = "Failed"

# Maximum size of a ConfigMap: 1 MiB.
_MAX_STORED_BYTES = 1024 * 1024
# A Task with two IPv6 addresses takes up to 150 bytes and 6 values, and Frameworks that were stored
# before there was a limit may have twice as many Tasks. The bound protects the memory of the agents
# from a hostile blob.
_MAX_DECOMPRESSED_BYTES = 400 * MAX_TASKS
_MAX_VALUES = 16 * MAX_TASKS
# A gang whose Tasks are all completed, without addresses, takes 9 bytes for each stored byte.
_MAX_EXPANSION = 100
# More than a controller accepts. Bounds the time and memory that hostile numbers cost each agent.
MAX_ROSTER_TASKS = 10 * MAX_TASK_NUMBER
_MAX_INDEX_DIGITS = 6
_MAX_REASON_LENGTH = 64
_MAX_CODE = 2**31 - 1


class Member(NamedTuple):
    """A wanted Task whose Pod of the current attempt has an address."""

    index: int  # type: ignore[assignment]  # hides tuple.index
    addresses: Tuple[str, ...]
    fingerprint: str
    attempt_id: int

    @property
    def address(self) -> str:
        """The first address; "" without one."""
        return self.addresses[0] if self.addresses else ""


class CompletedTask(NamedTuple):
    """A wanted Task that is Completed: ready, but not a peer.

    ``address`` is its last address, so that lists in order of the index keep their positions; ""
    without one.
    """

    index: int  # type: ignore[assignment]  # hides tuple.index
    state: str
    address: str


class RoleRoster(NamedTuple):
    """A role of the roster."""

    name: str
    """Name of the role."""
    wanted: int
    """Number of wanted Tasks."""
    minimum: int
    """Quorum of the role."""
    running: bool
    """Whether no wanted Task is missing, and the Pods of all members are Running."""
    members: Tuple[Member, ...]
    """Members, in order of their index."""
    completed: Tuple[CompletedTask, ...]
    """Completed Tasks, in order of their index."""
    absent: Tuple[int, ...]
    """Absent indexes, ascending."""

    @property
    def ready(self) -> int:
        """Count the members and the Completed Tasks."""
        return len(self.members) + len(self.completed)


class Leaving(NamedTuple):
    """A Task that drains. It is not a member since generation ``since``."""

    role: str
    index: int  # type: ignore[assignment]  # hides tuple.index
    fingerprint: str
    since: int
    deadline: str


class FailedMember(NamedTuple):
    """A member that failed, until its Task has a new member, is removed or succeeds."""

    role: str
    """Role of its Task."""
    index: int  # type: ignore[assignment]  # hides tuple.index
    """Index of its Task."""
    fingerprint: str
    """Fingerprint of the Pod that failed."""
    attempt_id: int
    """Number of the Task attempt that failed."""
    since: int
    """The first generation that lists the failure."""
    code: Optional[int] = None
    """Completion code of the Task attempt; None if it is unknown."""
    reason: str = ""
    """Phrase of the completion code, printable ASCII; "" if it is unknown."""


class RosterRecovery(NamedTuple):
    """Restart in place: docs/design/recovery.md."""

    epoch: int
    """The current epoch."""
    since: int
    """The first generation with these members of the roles, apart from those that succeeded."""
    roles: Tuple[str, ...]
    """Roles of which processes are restarted in place, in the order of the roster."""
    refused: Tuple[str, ...] = ()
    """Fingerprints of the Pods of refused reports."""
    waits_since: int = 0
    """The ``since`` from which the deadlines of the start barrier count, if members have only
    succeeded since then; 0: from this ``since``."""

    @property
    def deadline_since(self) -> int:
        """The ``since`` from which the deadlines of the start barrier count."""
        return self.waits_since or self.since


class Roster(NamedTuple):
    """A generation of the gang of an attempt."""

    namespace: str
    """Namespace of the Framework."""
    framework: str
    """Name of the Framework."""
    framework_uid: str
    """UID of the Framework; "" if unknown."""
    attempt_id: int
    """Number of the attempt."""
    instance_uid: str
    """Instance UID of the attempt; "" if unknown."""
    generation: int
    """Number of this version of the roster, from 1; 0 if it was not published."""
    complete: bool
    """Whether each role has its minimum of ready Tasks."""
    phase: str
    """Active, or Completing while the attempt ends."""
    roles: Tuple[RoleRoster, ...]
    """Roles in the order of the status."""
    leaving: Tuple[Leaving, ...]
    """Tasks that drain."""
    failed: Tuple[FailedMember, ...] = ()
    """Members that failed and have no successor yet."""
    recovery: Optional[RosterRecovery] = None
    """Restart in place; None if no role has it."""

    @property
    def ready(self) -> int:
        """Count the members and the Completed Tasks of all roles."""
        return sum(role.ready for role in self.roles)

    @property
    def wanted(self) -> int:
        """Count the wanted Tasks of all roles."""
        return sum(role.wanted for role in self.roles)

    def find_role(self, name: str) -> Optional[RoleRoster]:
        """Find a role by name."""
        for role in self.roles:
            if role.name == name:
                return role
        return None

    def find_member(self, role: str, index: int) -> Optional[Member]:
        """Find a member by its identity."""
        found = self.find_role(role)
        for member in found.members if found else ():
            if member.index == index:
                return member
        return None

    def is_same_gang(self, other: "Roster") -> bool:
        """Return whether only the generation differs."""
        return self._replace(generation=other.generation) == other


def fingerprint_uid(uid: str) -> str:
    """Return the first 8 hex digits of the SHA-256 of a Pod's UID, which identify the Pod."""
    return hashlib.sha256(uid.encode()).hexdigest()[:FINGERPRINT_LENGTH]


def cut_reason(text: str) -> str:
    """Return the printable ASCII part of a reason, at most 64 characters."""
    return "".join(c for c in text if c.isascii() and c.isprintable())[:_MAX_REASON_LENGTH]


def encode_roster(roster: Roster) -> bytes:
    """Encode to the stored bytes. Equal rosters give equal bytes."""
    text = json.dumps(_roster_to_wire(roster), separators=(",", ":"), ensure_ascii=False)
    # gzip.compress has no mtime before Python 3.8, and gives other bytes since 3.13.
    compressor = zlib.compressobj(6, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    return compressor.compress(text.encode()) + compressor.flush()


def decode_roster(stored: bytes) -> Roster:
    """Decode the stored bytes.

    Raises:
        RosterError: The bytes are not gzip of JSON, of another version, inconsistent or too large.
    """
    return _decode(unpack, stored)


def decode_stored_roster(stored: Any) -> Roster:
    """Decode the stored bytes in base64, as a ConfigMap has them in JSON.

    Raises:
        RosterError: As ``decode_roster``; or the text is not base64.
    """
    return _decode(unpack_base64, stored)


def _decode(unpack_within: Callable[[Any, Bounds], Any], stored: Any) -> Roster:
    try:
        bounds = Bounds(_MAX_STORED_BYTES, _MAX_DECOMPRESSED_BYTES, _MAX_VALUES, _MAX_EXPANSION)
        wire = unpack_within(stored, bounds)
        if wire["version"] != WIRE_VERSION:
            raise RosterError(f"roster of version {wire['version']!r}, not {WIRE_VERSION}")
        return _roster_from_wire(wire)
    except RosterError:
        raise
    except PackedError as e:
        raise RosterError(f"undecodable roster: {e}") from e
    except MALFORMED as e:
        raise RosterError(f"undecodable roster: {type(e).__name__}: {e}") from e


def _roster_to_wire(roster: Roster) -> Dict[str, Any]:
    wire: Dict[str, Any] = {
        "version": WIRE_VERSION,
        "namespace": roster.namespace,
        "framework": roster.framework,
        "frameworkUID": roster.framework_uid,
        "attemptID": roster.attempt_id,
        "instanceUID": roster.instance_uid,
        "generation": roster.generation,
        "complete": roster.complete,
        "phase": roster.phase,
        "roles": [_role_to_wire(role) for role in roster.roles],
        "leaving": [leaving._asdict() for leaving in roster.leaving],
    }
    if roster.failed:
        wire["failed"] = [_failed_to_wire(failed) for failed in roster.failed]
    if roster.recovery is not None:
        wire["recovery"] = _recovery_to_wire(roster.recovery)
    return wire


def _recovery_to_wire(recovery: RosterRecovery) -> Dict[str, Any]:
    wire: Dict[str, Any] = {
        "epoch": recovery.epoch,
        "since": recovery.since,
        "roles": recovery.roles,
        "refused": recovery.refused,
    }
    if recovery.waits_since:
        wire["waitsSince"] = recovery.waits_since
    return wire


def _failed_to_wire(failed: FailedMember) -> Dict[str, Any]:
    wire: Dict[str, Any] = {
        "role": failed.role,
        "index": failed.index,
        "fingerprint": failed.fingerprint,
        "attemptID": failed.attempt_id,
        "since": failed.since,
        "reason": failed.reason,
    }
    if failed.code is not None:
        wire["code"] = failed.code
    return wire


def _role_to_wire(role: RoleRoster) -> Dict[str, Any]:
    return {
        "name": role.name,
        "wanted": role.wanted,
        "minimum": role.minimum,
        "running": role.running,
        "indexes": _ranges_to_text(m.index for m in role.members),
        "addresses": [m.addresses[0] for m in role.members],
        "fingerprints": "".join(m.fingerprint for m in role.members),
        "moreAddresses": {
            str(m.index): list(m.addresses[1:]) for m in role.members if len(m.addresses) > 1
        },
        "attemptIDs": {str(m.index): m.attempt_id for m in role.members if m.attempt_id},
        "completed": {str(c.index): [c.state, c.address] for c in role.completed},
        "absent": list(role.absent),
    }


def _roster_from_wire(wire: Dict[str, Any]) -> Roster:
    roles = tuple(_role_from_wire(role) for role in read_typed(wire["roles"], list))
    if sum(role.wanted + len(role.absent) for role in roles) > MAX_ROSTER_TASKS:
        raise RosterError(f"more than {MAX_ROSTER_TASKS} Tasks")
    return Roster(
        namespace=read_word(wire["namespace"]),
        framework=read_word(wire["framework"]),
        framework_uid=read_word(wire["frameworkUID"]),
        attempt_id=read_count(wire["attemptID"]),
        instance_uid=read_word(wire["instanceUID"]),
        generation=read_count(wire["generation"]),
        complete=read_typed(wire["complete"], bool),
        phase=read_word(wire["phase"]),
        roles=roles,
        leaving=tuple(_leaving_from_wire(leaving) for leaving in read_typed(wire["leaving"], list)),
        failed=_list_failed(read_typed(wire.get("failed", []), list)),
        recovery=_recovery_from_wire(wire["recovery"]) if "recovery" in wire else None,
    )


def _recovery_from_wire(wire: Dict[str, Any]) -> RosterRecovery:
    if max(len(wire["roles"]), len(wire["refused"])) > MAX_ROSTER_TASKS:
        raise RosterError(f"more than {MAX_ROSTER_TASKS} entries in recovery")
    return RosterRecovery(
        epoch=read_count(wire["epoch"]),
        since=read_count(wire["since"]),
        roles=tuple(read_words(wire["roles"])),
        refused=tuple(read_words(wire["refused"])),
        waits_since=read_count(wire.get("waitsSince", 0)),
    )


def _list_failed(wires: List[Any]) -> Tuple[FailedMember, ...]:
    if len(wires) > MAX_ROSTER_TASKS:
        raise RosterError(f"more than {MAX_ROSTER_TASKS} failed members")
    return tuple(map(_failed_from_wire, wires))


def _failed_from_wire(wire: Dict[str, Any]) -> FailedMember:
    code = wire.get("code")
    if code is not None and abs(read_typed(code, int)) > _MAX_CODE:
        raise RosterError(f"{code} is not a completion code")
    return FailedMember(
        role=read_word(wire["role"]),
        index=read_count(wire["index"]),
        fingerprint=read_word(wire["fingerprint"]),
        attempt_id=read_count(wire["attemptID"]),
        since=read_count(wire["since"]),
        code=code,
        reason=read_word(wire["reason"]),
    )


def _leaving_from_wire(wire: Dict[str, Any]) -> Leaving:
    return Leaving(
        role=read_word(wire["role"]),
        index=read_count(wire["index"]),
        fingerprint=read_word(wire["fingerprint"]),
        since=read_count(wire["since"]),
        deadline=read_word(wire["deadline"]),
    )


def _role_from_wire(wire: Dict[str, Any]) -> RoleRoster:
    addresses = read_words(wire["addresses"])
    # At most one more than there are addresses: a short text can name a million indexes.
    indexes = list(_ranges_from_text(read_typed(wire["indexes"], str), len(addresses)))
    fingerprints = read_typed(wire["fingerprints"], str)
    if len(addresses) != len(indexes) or len(fingerprints) != FINGERPRINT_LENGTH * len(indexes):
        raise RosterError("columns of role {!r} differ in length".format(wire["name"]))
    # Sparse, because most gangs have neither.
    more = read_typed(wire["moreAddresses"], dict)
    attempt_ids = read_typed(wire["attemptIDs"], dict)
    cuts = range(0, len(fingerprints), FINGERPRINT_LENGTH)
    members = tuple(
        Member(
            index,
            (address, *read_words(more.get(str(index), []))) if more else (address,),
            fingerprints[cut : cut + FINGERPRINT_LENGTH],
            read_count(attempt_ids.get(str(index), 0)) if attempt_ids else 0,
        )
        for index, address, cut in zip(indexes, addresses, cuts)
    )
    ended = {_index(key): entry for key, entry in read_typed(wire["completed"], dict).items()}
    completed = tuple(
        CompletedTask(index, read_word(state), read_word(address))
        for index, (state, address) in sorted(ended.items())
    )
    return RoleRoster(
        name=read_word(wire["name"]),
        wanted=read_count(wire["wanted"]),
        minimum=read_count(wire["minimum"]),
        running=read_typed(wire["running"], bool),
        members=members,
        completed=completed,
        absent=tuple(read_count(index) for index in read_typed(wire["absent"], list)),
    )


def _index(text: str) -> int:
    """Parse an index that is a key of an object."""
    if not (text.isascii() and text.isdigit()) or len(text) > _MAX_INDEX_DIGITS:
        raise RosterError(f"{text!r:.40} is not an index")
    return int(text)


def _ranges_to_text(indexes: Iterable[int]) -> str:
    runs: List[List[int]] = []
    for index in indexes:
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _ranges_from_text(text: str, number: int) -> Iterator[int]:
    """Iterate over the indexes, but only over the first ``number + 1``."""
    previous = -1
    for run in text.split(",", number + 1) if text else ():
        first, _, last = run.partition("-")
        is_short = max(len(first), len(last)) <= _MAX_INDEX_DIGITS
        low, high = (int(first), int(last or first)) if is_short else (0, MAX_TASK_NUMBER)
        if not previous < low <= high < MAX_TASK_NUMBER:
            raise RosterError(f"{run!r:.40} is not a range of indexes")
        previous = high
        yield from range(low, min(high, low + number) + 1)
        number -= high - low + 1
        if number < 0:
            return
