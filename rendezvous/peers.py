"""What training code imports: who its peers are, and what happens to them.

Stands alone: ``install`` copies this one file into the volume's site folder, onto the training
process's PYTHONPATH. Python 3.7, standard library, no package of ours::

    import peers

    gang = peers.wait(min=2)                 # a Roster with at least two that compute
    print(gang.rank, gang.size, gang.addresses)
    peers.on_change(lambda change: print(change.removed))
    peers.barrier("epoch-3")                 # until one process of every such Pod has come here

Everything comes from the files of the generation in force, so it works with every way in which the
agent runs, and the process needs no access to the cluster. Only ``barrier`` talks to other Pods: by
TCP, to the process of rank 0, on $FB_BARRIER_PORT (29600).
"""

import contextlib
import json
import os
import resource
import selectors
import socket
import threading
import time
import traceback
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set, Tuple

_DEFAULT_DIRECTORY = "/mnt/frameworkbarrier"
_LOOK_SECONDS = 0.05
_TRIES = 50
_BARRIER_PORT = 29600
_CONNECT_SECONDS = 2.0
_MAX_LINE_BYTES = 4096
_KEPT_TOKENS = 100000
# What training code has open beside the connections of a barrier: data, sockets, pipes of workers.
_OTHER_FILES = 512
_RANKED_KINDS = ("master", "chief", "worker")


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
    ``has_succeeded``: somebody who computed with the others has ended its work.
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
    has_succeeded: bool = False

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
    current = os.path.join(_find_directory(), "current")
    for _ in range(_TRIES):
        try:
            path = os.path.join(os.path.dirname(current), os.readlink(current), "peers.json")
            # A generation never changes, and one of 10,000 members takes some time to parse.
            found = _parsed.get(path)
            if found is None:
                with open(path, encoding="utf-8") as file:
                    found = _parse(json.load(file))
                _parsed.clear()
                _parsed[path] = found
            return found
        except FileNotFoundError:
            # The generation may be removed between looking it up and opening it.
            if not os.path.lexists(current):
                break
    raise FileNotFoundError(f"{current}/peers.json: has the rendezvous agent written it?")


def wait(min: int = 1, timeout: Optional[float] = None) -> Roster:  # noqa: A002  (reads well: min=4)
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

    An exception of the callback is printed, and the next change is told all the same.
    """
    subscription = Subscription(callback, since if since is not None else roster())
    subscription.start()
    return subscription


def barrier(name: str, timeout: Optional[float] = None) -> Roster:
    """Wait until one process of every Pod that computes has come to the barrier of this name.

    It can be used again and again. A Pod that is removed meanwhile is no longer waited for, one
    that is added is; who they are is what rank 0 sees. Returns the generation then in force.

    Raises:
        TimeoutError: They did not come within ``timeout`` seconds.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    token = os.urandom(12).hex()
    while True:
        gang = wait(timeout=None if deadline is None else max(0.0, deadline - time.monotonic()))
        with contextlib.suppress(OSError):
            if _await_release(gang, name, token, deadline):
                return roster()
        if deadline is not None and time.monotonic() >= deadline:
            raise TimeoutError(f"barrier {name!r}: not everybody came in {timeout} s")
        time.sleep(_LOOK_SECONDS)


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
                if change.added or change.removed or change.moved:
                    self._tell(change)

    def _tell(self, change: Change) -> None:
        try:
            self._callback(change)
        except Exception:  # noqa: BLE001  (of the user's; the next change is told, too)
            traceback.print_exc()


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


class _Arrival(NamedTuple):
    """One process at a barrier. ``key`` is its Pod."""

    key: Tuple[str, int, str]
    token: str


class _Hub(threading.Thread):
    """What rank 0 runs for all: it counts who has come and lets them go together."""

    def __init__(self, listener: socket.socket) -> None:
        super().__init__(name="peers-barrier", daemon=True)
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._received: Dict[socket.socket, bytes] = {}
        self._arrived: Dict[str, Dict[socket.socket, _Arrival]] = {}
        # Of those let go: whoever missed the word asks again, and must not wait for the next time.
        self._released: Dict[str, None] = {}

    def run(self) -> None:
        """Serve until the process ends."""
        while True:
            is_waited_for = any(self._arrived.values())
            for key, _ in self._selector.select(_LOOK_SECONDS if is_waited_for else None):
                connection = key.fileobj
                if connection is self._listener:
                    self._accept()
                elif isinstance(connection, socket.socket):
                    self._read(connection)
            with contextlib.suppress(OSError):
                self._release(roster())

    def leave_to_parent(self) -> None:
        """Close everything in a forked child, who would hold port and callers without serving."""
        for held in [self._listener, *self._received]:
            held.close()
        self._selector.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            time.sleep(_LOOK_SECONDS)  # no room: whoever knocks would be told of again at once
            return
        connection.settimeout(0.0)
        self._received[connection] = b""
        self._selector.register(connection, selectors.EVENT_READ)

    def _read(self, connection: socket.socket) -> None:
        try:
            part = connection.recv(_MAX_LINE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        line = self._received[connection] + part
        self._received[connection] = line
        if not part or len(line) > _MAX_LINE_BYTES:
            self._drop(connection)
        elif line.endswith(b"\n"):
            try:
                wire = json.loads(line.decode())
                arrival = _Arrival((wire["role"], wire["index"], wire["pod"]), wire["token"])
                if wire["attempt"] != roster().attempt:
                    raise ValueError("of another attempt")
                hash(arrival)  # what is no key would end this thread, and with it every barrier
                self._arrive(connection, wire["name"], arrival)
            except (OSError, ValueError, KeyError, TypeError, RecursionError):
                self._drop(connection)

    def _arrive(self, connection: socket.socket, name: str, arrival: _Arrival) -> None:
        if arrival.token in self._released:
            self._let_go(connection)
        else:
            self._arrived.setdefault(name, {})[connection] = arrival

    def _release(self, gang: Roster) -> None:
        expected: Set[Tuple[str, int, str]] = {
            (peer.role, peer.index, peer.fingerprint) for peer in gang.ranked
        }
        for name, arrived in list(self._arrived.items()):
            if not expected or not expected <= {arrival.key for arrival in arrived.values()}:
                continue
            del self._arrived[name]
            # The own one last: its process may end at once, and this thread with it.
            own = (gang.role, gang.index)
            for connection, arrival in sorted(
                arrived.items(), key=lambda item: item[1].key[:2] == own
            ):
                self._released[arrival.token] = None
                self._let_go(connection)
        while len(self._released) > _KEPT_TOKENS:
            del self._released[next(iter(self._released))]

    def _let_go(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            connection.send(b"go\n")
        self._drop(connection)

    def _drop(self, connection: socket.socket) -> None:
        for arrived in self._arrived.values():
            arrived.pop(connection, None)
        self._received.pop(connection, None)
        self._selector.unregister(connection)
        connection.close()


def _await_release(gang: Roster, name: str, token: str, deadline: Optional[float]) -> bool:
    """Go to rank 0 and wait there; False when it is time to look for rank 0 anew."""
    own = next((p for p in gang.peers if (p.role, p.index) == (gang.role, gang.index)), None)
    first, port = gang.ranked[0], int(os.environ.get("FB_BARRIER_PORT") or _BARRIER_PORT)
    if gang.rank == 0:
        _make_room(gang.size)
        _serve(first.address, port)
    arrival = {
        "name": name,
        "token": token,
        "attempt": gang.attempt,
        "role": gang.role,
        "index": gang.index,
        "pod": own.fingerprint if own and gang.is_member else "",
    }
    with socket.create_connection((first.address, port), _CONNECT_SECONDS) as connection:
        connection.sendall(json.dumps(arrival).encode() + b"\n")
        connection.settimeout(_CONNECT_SECONDS / 4)
        while deadline is None or time.monotonic() < deadline:
            try:
                return connection.recv(16).startswith(b"go")
            except socket.timeout:
                now = roster()
                if now.ranked[:1] != gang.ranked[:1] or now.is_member != gang.is_member:
                    return False
    return False


def _make_room(connections: int) -> None:
    """Let this process open a file for each who comes; some runtimes start it with 1024 at most."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _OTHER_FILES
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if resource.RLIM_INFINITY != soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _serve(address: str, port: int) -> None:
    """Start the hub, unless this process or another one of the Pod has."""
    with _serving:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address, port))
            listener.listen(4096)
        except OSError:
            listener.close()
            return
        hub = _Hub(listener)
        os.register_at_fork(after_in_child=hub.leave_to_parent)
        hub.start()


_serving = threading.Lock()


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


_parsed: Dict[str, Roster] = {}


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
        has_succeeded=any(
            task["state"] == "Succeeded"
            for role in document["roles"]
            for task in (role["completed"] if role["kind"] in _RANKED_KINDS else ())
        ),
    )
