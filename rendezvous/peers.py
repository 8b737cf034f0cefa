"""What training code imports: who its peers are, and what happens to them.

Stands alone: ``install`` copies this one file into the volume's site folder, onto the training
process's PYTHONPATH. Python 3.7, standard library, no package of ours::

    import peers

    gang = peers.wait(min=2)                 # a Roster with at least two that compute
    print(gang.rank, gang.size, gang.addresses)
    peers.on_change(lambda change: print(change.removed))

Everything comes from the files of the generation in force, so it works with every way in which the
agent runs, and the process needs no access to the cluster.
"""

import json
import os
import threading
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

_DEFAULT_DIRECTORY = "/mnt/frameworkbarrier"
_LOOK_SECONDS = 0.05
_TRIES = 50


class Peer(NamedTuple):
    """A member. ``rank`` is -1 for one that computes with nobody (a parameter server)."""

    role: str
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody asks for
    rank: int
    address: str
    port: int
    fingerprint: str


class Roster(NamedTuple):
    """One generation. ``ranked`` are those that compute together, in the order of their ranks.

    ``rank`` is the own one, -1 for a process that is no member (it leaves) or has none.
    """

    generation: int
    attempt: str
    role: str
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody asks for
    rank: int
    is_member: bool
    is_leaving: bool
    is_completing: bool
    peers: Tuple[Peer, ...]

    @property
    def ranked(self) -> Tuple[Peer, ...]:
        """Those that compute together."""
        return tuple(sorted((p for p in self.peers if p.rank >= 0), key=lambda peer: peer.rank))

    @property
    def size(self) -> int:
        """How many compute together: the world size in Pods."""
        return sum(peer.rank >= 0 for peer in self.peers)

    @property
    def addresses(self) -> List[str]:
        """The addresses of those that compute together, in the order of their ranks."""
        return [peer.address for peer in self.ranked]


class Change(NamedTuple):
    """What changed between two generations; ``moved`` are as they are now."""

    roster: Roster
    added: Tuple[Peer, ...]
    removed: Tuple[Peer, ...]
    moved: Tuple[Peer, ...]


def roster() -> Roster:
    """Read the generation in force.

    Raises:
        FileNotFoundError: The agent has not written any yet.
    """
    path = os.path.join(_find_directory(), "current", "peers.json")
    for _ in range(_TRIES):
        try:
            with open(path, encoding="utf-8") as file:
                return _parse(json.load(file))
        except FileNotFoundError:
            # The generation may be removed between looking it up and opening it.
            if not os.path.lexists(os.path.dirname(path)):
                break
    raise FileNotFoundError(f"{path}: has the rendezvous agent written it?")


def wait(min: int = 1, timeout: Optional[float] = None) -> Roster:  # noqa: A002
    """Wait until at least ``min`` compute together; ``timeout`` is in seconds.

    Raises:
        TimeoutError: They did not come in time.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        try:
            found = roster()
        except FileNotFoundError:
            found = None
        if found is not None and found.size >= min:
            return found
        if deadline is not None and time.monotonic() >= deadline:
            size = found.size if found else 0
            raise TimeoutError(f"{size} of {min} peers after {timeout} s")
        time.sleep(_LOOK_SECONDS)


def on_change(callback: Callable[[Change], Any], since: Optional[Roster] = None) -> "Subscription":
    """Call ``callback`` with each change after ``since`` (now), in order, in a thread of its own.

    An exception of the callback ends its subscription and is shown by ``threading``.
    """
    subscription = Subscription(callback, since if since is not None else roster())
    subscription.start()
    return subscription


class Subscription(threading.Thread):
    """A thread that looks for new generations; ``stop`` ends it."""

    def __init__(self, callback: Callable[[Change], Any], since: Roster) -> None:
        super().__init__(name="peers", daemon=True)
        self._callback = callback
        self._seen = since
        self._ended = threading.Event()

    def stop(self) -> None:
        """End it; a callback that runs now runs to its end."""
        self._ended.set()

    def run(self) -> None:
        """Look until the end."""
        seen_link = ""
        current = os.path.join(_find_directory(), "current")
        while not self._ended.wait(_LOOK_SECONDS):
            try:
                link = os.readlink(current)
                if link == seen_link:
                    continue
                new = roster()
            except OSError:
                continue  # the volume is just being changed, or read by nobody's agent any more
            seen_link = link
            if new.generation > self._seen.generation or new.attempt != self._seen.attempt:
                change = compute_change(self._seen, new)
                self._seen = new
                self._callback(change)


def compute_change(before: Roster, after: Roster) -> Change:
    """Compute what changed."""
    old = {(peer.role, peer.index): peer for peer in before.peers}
    new = {(peer.role, peer.index): peer for peer in after.peers}
    return Change(
        roster=after,
        added=tuple(peer for key, peer in new.items() if key not in old),
        removed=tuple(peer for key, peer in old.items() if key not in new),
        moved=tuple(
            peer
            for key, peer in new.items()
            if key in old
            and (old[key].address, old[key].fingerprint) != (peer.address, peer.fingerprint)
        ),
    )


def initialize_jax(**options: Any) -> None:
    """Call ``jax.distributed.initialize`` for this gang; JAX itself reads but one of the three."""
    import importlib

    jax = importlib.import_module("jax")
    jax.distributed.initialize(
        coordinator_address=os.environ["JAX_COORDINATOR_ADDRESS"],
        num_processes=int(os.environ["JAX_NUM_PROCESSES"]),
        process_id=int(os.environ["JAX_PROCESS_ID"]),
        cluster_detection_method="deactivate",
        **options,
    )


def _find_directory() -> str:
    """Find the volume: as this file lies in it, as the environment says, or where it usually is."""
    site = os.path.dirname(os.path.abspath(__file__))
    if site.endswith(os.path.join("agent", "site")):
        return os.path.dirname(os.path.dirname(site))
    return os.environ.get("BARRIER_WORKING_DIR") or _DEFAULT_DIRECTORY


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
            )
            for role in document["roles"]
            for member in role["members"]
        ),
    )
