"""The members: those of the current generation, from the agent's file ``current/peers.json``.

The agent writes each generation into a folder of its own and lets the link ``current`` point to it.
To read the current one:

1. Read the link. If it points to the generation that was read last, return that generation: it
   never changes, and 10,000 members take some time to parse.
2. Read ``peers.json`` in that folder and keep the result.
3. If the folder was removed meanwhile, begin again, at most 50 times.

Any process with the volume may replace the file. A file that no agent has written counts as a file
that cannot be read (``OSError``), so that threads which read it repeatedly do not fail.
"""

import contextlib
import errno
import json
import os
import time
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from .logs import warn_once

# The pause between two reads of the volume.
LOOK_SECONDS = 0.05
_DEFAULT_DIRECTORY = "/mnt/frameworkbarrier"
# How often a generation may be removed just when it is read.
_TRIES = 50
_RANKED_KINDS = ("master", "chief", "worker")


class Peer(NamedTuple):
    """A member. ``rank`` is -1 for one that does not compute (a parameter server)."""

    role: str
    """The name of its task role."""
    index: int  # type: ignore[assignment]  # hides tuple.index, which is not used
    """The index of its Task."""
    rank: int
    """Its rank among the members that compute."""
    address: str
    """The address its peers use."""
    port: int
    """The port it serves on."""
    fingerprint: str
    """Distinguishes its Pod from other Pods of the same Task."""
    addresses: Tuple[str, ...] = ()
    """All its addresses."""


class Roster(NamedTuple):
    """One generation. ``ranked`` are the members that compute, in the order of their ranks."""

    generation: int
    """The number of the generation."""
    attempt: str
    """The instance of the Framework attempt."""
    role: str
    """The own task role."""
    index: int  # type: ignore[assignment]  # hides tuple.index, which is not used
    """The index of the own Task."""
    rank: int
    """The own rank; -1 for a process that is no member or has none."""
    is_member: bool
    """Whether the own Pod is a member."""
    is_leaving: bool
    """Whether the own Pod drains."""
    is_completing: bool
    """Whether the attempt comes to its end."""
    peers: Tuple[Peer, ...]
    """All members."""
    has_succeeded: bool = False
    """Whether a member that computed has succeeded."""
    leaving: Tuple[Tuple[str, int, str], ...] = ()
    """Role, index and fingerprint of the Pods that leave."""
    is_complete: bool = True
    """Whether no member is missing that the others must wait for."""

    @property
    def ranked(self) -> Tuple[Peer, ...]:
        """The members that compute, in the order of their ranks."""
        return tuple(sorted((p for p in self.peers if p.rank >= 0), key=lambda peer: peer.rank))

    @property
    def size(self) -> int:
        """The number of members that compute: the world size in Pods."""
        return sum(peer.rank >= 0 for peer in self.peers)

    @property
    def addresses(self) -> List[str]:
        """The addresses of the members that compute, in the order of their ranks."""
        return [peer.address for peer in self.ranked]


def roster() -> Roster:
    """Read the current generation.

    Raises:
        FileNotFoundError: The agent has not written any yet.
        OSError: It cannot be read, or no agent has written it.
    """
    return read_current(find_current())


def read_current(current: str) -> Roster:
    """Read the generation to which the link ``current`` points.

    Raises:
        FileNotFoundError: The agent has not written any yet.
        OSError: It cannot be read, or no agent has written it.
    """
    for _ in range(_TRIES):
        try:
            path = os.path.join(os.path.dirname(current), os.readlink(current), "peers.json")
            found = _parsed.get(path)
            if found is None:
                found = _read(path)
                _parsed.clear()
                _parsed[path] = found
            return found
        except FileNotFoundError:
            # The generation may be removed between looking it up and opening it.
            if not os.path.lexists(current):
                break
    raise FileNotFoundError(f"{current}/peers.json: has the rendezvous agent written it?")


def wait(min: int = 1, timeout: Optional[float] = None) -> Roster:  # noqa: A002  (reads well: min=4)
    """Wait until at least ``min`` members compute; ``timeout`` is in seconds.

    Raises:
        TimeoutError: They did not come in time.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        found = _read_if_written()
        if found is not None and found.size >= min:
            return found
        if deadline is not None and time.monotonic() >= deadline:
            size = found.size if found else 0
            raise TimeoutError(f"{size} of {min} peers after {timeout} s")
        time.sleep(LOOK_SECONDS)


def _read_if_written() -> Optional[Roster]:
    try:
        return roster()
    except FileNotFoundError:
        return None
    except OSError as e:
        # For example a user who may not read the volume: a wait without a limit does not end.
        warn_once(f"the list of members cannot be read: {e.strerror}")
        return None


def read_older(gang: Roster) -> Iterator[Roster]:
    """Read the generations before that are still in the volume."""
    directory = _find_directory()
    for name in os.listdir(directory):
        with contextlib.suppress(OSError):
            older = _read(os.path.join(directory, name, "peers.json"))
            if older.attempt == gang.attempt and older.generation < gang.generation:
                yield older


def find_current() -> str:
    """Find the link to the folder of the current generation."""
    return os.path.join(_find_directory(), "current")


def _find_directory() -> str:
    """Find the volume: that in which this package lies, $BARRIER_WORKING_DIR or the usual one."""
    site = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if site.endswith(os.path.join("agent", "site")):
        return os.path.dirname(os.path.dirname(site))
    return os.environ.get("BARRIER_WORKING_DIR") or _DEFAULT_DIRECTORY


def _read(path: str) -> Roster:
    """Read a generation.

    Raises:
        OSError: It cannot be read, or no agent has written it.
    """
    with open(path, encoding="utf-8") as file:
        try:
            return parse(json.load(file))
        except (ValueError, RecursionError) as e:
            raise OSError(errno.EINVAL, "no roster of an agent", path) from e


def parse(document: Any) -> Roster:
    """Parse the JSON of ``peers.json``.

    Raises:
        ValueError: It is not as the agent writes it.
    """
    try:
        found = _parse(document)
        _check_types(found)
    except (KeyError, TypeError, AttributeError) as e:
        raise ValueError("not as the agent writes it") from e
    return found


def _check_types(gang: Roster) -> None:
    """Check the types of the values that are compared or used as keys.

    Raises:
        TypeError: A value has another type.
    """
    texts: List[Any] = [gang.attempt, gang.role]
    numbers: List[Any] = [gang.generation, gang.index, gang.rank]
    for peer in gang.peers:
        texts += (peer.role, peer.address, peer.fingerprint, *peer.addresses)
        numbers += (peer.index, peer.rank)
    for role, index, fingerprint in gang.leaving:
        texts += (role, fingerprint)
        numbers.append(index)
    if set(map(type, texts)) != {str} or set(map(type, numbers)) != {int}:
        raise TypeError("of another type")


def _parse(document: Dict[str, Any]) -> Roster:
    own = document["own"]
    leaving = {(entry["role"], entry["index"]) for entry in document["leaving"]}
    return Roster(
        generation=document["generation"],
        attempt=document["instanceUID"],
        role=own["role"],
        index=own["index"],
        rank=own["rank"],
        is_member=own["isMember"],
        is_leaving=not own["isMember"] and (own["role"], own["index"]) in leaving,
        is_completing=document["phase"] == "Completing",
        peers=tuple(
            Peer(
                role["name"],
                member["index"],
                member["rank"],
                member["ip"],
                member["port"],
                member["podUIDFingerprint"],
                tuple(member["addresses"]),
            )
            for role in document["roles"]
            for member in role["members"]
        ),
        has_succeeded=any(
            task["state"] == "Succeeded"
            for role in document["roles"]
            for task in (role["completed"] if role["kind"] in _RANKED_KINDS else ())
        ),
        leaving=tuple(
            (entry["role"], entry["index"], entry["podUIDFingerprint"])
            for entry in document["leaving"]
        ),
        is_complete=document.get("complete", True),
    )


_parsed: Dict[str, Roster] = {}
