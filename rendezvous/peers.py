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
TCP, to the process of rank 0, on $FB_BARRIER_PORT (29600). Where the gang key is mounted, both ends
of such a connection prove that they have it before anything else is read.

One file, although it is long, because training images get copies of this file alone.
"""

import contextlib
import errno
import hashlib
import hmac
import ipaddress
import json
import logging
import os
import resource
import selectors
import socket
import threading
import time
import traceback
from collections import Counter
from typing import (
    Any,
    Callable,
    Dict,
    FrozenSet,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Tuple,
)

_DEFAULT_DIRECTORY = "/mnt/frameworkbarrier"
_LOOK_SECONDS = 0.05
_TRIES = 50
_BARRIER_PORT = 29600
_CONNECT_SECONDS = 2.0
_MAX_LINE_BYTES = 4096
_MAX_TOKEN_LENGTH = 64
# How long a connection to the barrier may take for its handshake and its first line.
_FIRST_LINE_SECONDS = 10.0
# How many processes of one Pod may wait at barriers at a time.
_PER_POD = 16
# How many connections may be silent beside one for each Pod of the roster.
_SILENT_RESERVE = 64
_KEPT_TOKENS_PER_POD = 64
_NAMED_STRANGERS = 8
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_DEFAULT_KEY_FILE = "/var/run/frameworkbarrier/gang-key"
_MIN_KEY_LENGTH = 32
_NONCE_BYTES = 32
# What training code has open beside the connections of a barrier: data, sockets, pipes of workers.
_OTHER_FILES = 512
_RANKED_KINDS = ("master", "chief", "worker")

_log = logging.getLogger("peers")


class GangKeyError(Exception):
    """The gang key is configured and cannot be used."""


class Peer(NamedTuple):
    """A member. ``rank`` is -1 for one that computes with nobody (a parameter server)."""

    role: str
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody asks for
    rank: int
    address: str
    port: int
    fingerprint: str
    addresses: Tuple[str, ...] = ()


class Roster(NamedTuple):
    """One generation. ``ranked`` are those that compute together, in the order of their ranks.

    ``rank`` is the own one, -1 for a process that is no member (it leaves) or has none.
    ``has_succeeded``: somebody who computed with the others has ended its work. ``leaving``: role,
    index and fingerprint of the Pods that leave.
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
    leaving: Tuple[Tuple[str, int, str], ...] = ()

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
        GangKeyError: The gang key is configured and cannot be used.
        ValueError: $FB_BARRIER_SOURCES is neither roster nor any.
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


# --- The gang key ---------------------------------------------------------------------------------


def read_gang_key(attempt: str, env: Mapping[str, str] = os.environ) -> Optional[bytes]:
    """Read the secret that the Pods of this attempt share; None where none is mounted.

    The file is $FB_GANG_KEY_FILE, which must then be there, or the usual one.

    Raises:
        GangKeyError: It cannot be read, is too short, or is of another attempt.
    """
    named = env.get("FB_GANG_KEY_FILE") or ""
    path = named or _DEFAULT_KEY_FILE
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_MAX_LINE_BYTES).strip()
    except (OSError, ValueError) as e:
        if not named and isinstance(e, FileNotFoundError):
            return None
        raise GangKeyError(f"the gang key cannot be read: {e}; mount its Secret") from e
    owner, found, key = text.rpartition(":")
    if found and owner != attempt:
        raise GangKeyError(f"the gang key in {path} is of attempt {owner:.80}, not of {attempt}")
    if len(key) < _MIN_KEY_LENGTH:
        raise GangKeyError(f"the gang key in {path} has less than {_MIN_KEY_LENGTH} characters")
    return key.encode()


def compute_proof(key: bytes, *parts: str) -> str:
    """Compute what only a holder of the gang key can: an HMAC-SHA256 of these parts."""
    # The lengths keep the borders between the parts.
    text = "".join(f"{len(part)}:{part}" for part in ("frameworkbarrier/1", *parts))
    return hmac.new(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def is_proof(given: Any, expected: str) -> bool:
    """Return whether a proof is the expected one, in a time that tells nothing."""
    return isinstance(given, str) and hmac.compare_digest(
        given.encode("utf-8", "replace"), expected.encode()
    )


def draw_nonce() -> str:
    """Draw what is never drawn twice."""
    return os.urandom(_NONCE_BYTES).hex()


# --- The barrier, on rank 0 -----------------------------------------------------------------------


class _Arrival(NamedTuple):
    """One process at a barrier. ``key`` is its Pod."""

    key: Tuple[str, int, str]
    token: str


class _Connection:
    """One connection to the hub. ``name`` is that of the barrier it waits at; "": silent so far."""

    __slots__ = (
        "address",
        "arrival",
        "deadline",
        "is_proven",
        "name",
        "nonce",
        "received",
        "socket",
    )

    def __init__(self, connected: socket.socket, address: str, deadline: float) -> None:
        self.socket = connected
        self.address = address
        self.deadline = deadline
        self.received = b""
        self.nonce = ""
        self.is_proven = False
        self.name: Optional[str] = None
        self.arrival: Optional[_Arrival] = None


class _Limits:
    """How many connections the hub holds for one generation, and from where. Never changed."""

    def __init__(self, gang: Roster, former: Dict[Tuple[str, int, str], Tuple[str, ...]]) -> None:
        self.pods: Counter[str] = Counter()
        for addresses in [_list_addresses(peer) for peer in gang.peers] + list(former.values()):
            self.pods.update(set(addresses))
        self.all_pods = len(gang.peers) + len(former)
        self.silent = self.all_pods + _SILENT_RESERVE
        self.wanted = self.silent + _PER_POD * self.all_pods
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        is_endless = soft == resource.RLIM_INFINITY
        room = self.wanted if is_endless else max(self.all_pods, soft - _OTHER_FILES)
        self.total = min(self.wanted, room)
        self.tokens = _KEPT_TOKENS_PER_POD * max(_PER_POD, self.all_pods)


class _Hub(threading.Thread):
    """What rank 0 runs for all: it counts who has come and lets them go together.

    Connections come from addresses of the roster only, unless ``takes_any`` says otherwise. A
    connection is silent until it has proven the gang key, if there is one, and has named a barrier.
    Silent ones have a deadline. When there is no room for a new connection, the oldest silent one
    goes, first of the address that has most of them. So strangers keep no member out.
    """

    def __init__(
        self, listener: socket.socket, gang: Roster, key: Optional[bytes], *, takes_any: bool
    ) -> None:
        super().__init__(name="peers-barrier", daemon=True)
        self._listener = listener
        self._key = key
        self._takes_any = takes_any
        self._is_on_loopback = _is_loopback(listener.getsockname()[0])
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._held: Dict[_Connection, None] = {}
        # By address; the oldest first.
        self._silent: Dict[str, Dict[_Connection, None]] = {}
        self._silent_count = 0
        self._by_address: Counter[str] = Counter()
        self._arrived: Dict[str, Dict[_Connection, None]] = {}
        # Of those let go: whoever missed the word asks again, and must not wait for the next time.
        self._released: Dict[str, None] = {}
        self._strangers: Dict[str, None] = {}
        self._former: Dict[Tuple[str, int, str], Tuple[str, ...]] = {}
        self._gang = gang
        for older in sorted(_read_older(gang), key=lambda each: each.generation):
            self._follow(older)
        self._follow(gang)

    def run(self) -> None:
        """Serve until the process ends."""
        while True:
            for key, _ in self._selector.select(self._get_wait_seconds()):
                if key.data is None:
                    self._accept()
                elif key.data in self._held:
                    self._read(key.data)
            self._expire()
            with contextlib.suppress(OSError):
                gang = roster()
                if gang is not self._gang:
                    self._follow(gang)
            self._release()

    def leave_to_parent(self) -> None:
        """Close everything in a forked child, who would hold port and callers without serving."""
        for held in [self._listener, *(connection.socket for connection in self._held)]:
            held.close()
        self._selector.close()

    def _get_wait_seconds(self) -> Optional[float]:
        if self._arrived:
            return _LOOK_SECONDS
        return _FIRST_LINE_SECONDS / 10 if self._silent_count else None

    def _follow(self, gang: Roster) -> None:
        """Take a generation; Pods that leave may come as long as the roster lists them."""
        known = {(p.role, p.index, p.fingerprint): _list_addresses(p) for p in self._gang.peers}
        known.update(self._former)
        self._former = {key: known[key] for key in gang.leaving if key in known}
        self._gang = gang
        self._limits = _Limits(gang, self._former)
        self._expected: FrozenSet[Tuple[str, int, str]] = frozenset(
            (peer.role, peer.index, peer.fingerprint) for peer in gang.ranked
        )

    # --- connections

    def _accept(self) -> None:
        try:
            connected, peer = self._listener.accept()
        except OSError as e:
            if e.errno in _NO_ROOM:
                time.sleep(_LOOK_SECONDS)  # the connection is still there and would be told again
            return
        address = _normalize(peer[0])
        if not self._make_place(address):
            connected.close()
            return
        connected.settimeout(0.0)
        _keep_alive(connected)
        connection = _Connection(connected, address, time.monotonic() + _FIRST_LINE_SECONDS)
        self._held[connection] = None
        self._by_address[address] += 1
        self._silent.setdefault(address, {})[connection] = None
        self._silent_count += 1
        self._selector.register(connected, selectors.EVENT_READ, connection)
        if self._key is not None:
            connection.nonce = draw_nonce()
            self._send(connection, {"nonce": connection.nonce})

    def _make_place(self, address: str) -> bool:
        """Return whether a connection from here is taken; silent ones make place for it."""
        pods = self._count_pods(address)
        if not pods:
            self._tell_stranger(address)
            return False
        if self._by_address[address] >= _PER_POD * pods and not self._evict(address):
            return False
        if self._silent_count >= self._limits.silent or len(self._held) >= self._limits.total:
            most = max(self._silent.items(), key=lambda item: len(item[1]), default=("", {}))[0]
            return self._evict(most)
        return True

    def _count_pods(self, address: str) -> int:
        """Count the Pods that may come from an address."""
        if self._takes_any:
            return self._limits.all_pods
        known = self._limits.pods[address]
        if not known and self._is_on_loopback and address in {"127.0.0.1", "::1"}:
            return self._limits.all_pods
        return known

    def _evict(self, address: str) -> bool:
        """Drop the oldest silent connection of an address; False if there is none."""
        for connection in self._silent.get(address, ()):
            self._drop(connection)
            return True
        return False

    def _expire(self) -> None:
        now = time.monotonic()
        for connections in list(self._silent.values()):
            for connection in list(connections):
                if connection.deadline > now:
                    break  # the others of this address came later
                self._drop(connection)

    def _tell_stranger(self, address: str) -> None:
        if len(self._strangers) < _NAMED_STRANGERS and address not in self._strangers:
            self._strangers[address] = None
            _log.warning(
                "barrier: refused a connection from %s, which is no address of the roster; where "
                "Pods come by address translation, set FB_BARRIER_SOURCES=any",
                address,
            )

    def _send(self, connection: _Connection, wire: Dict[str, str]) -> None:
        try:
            connection.socket.send(json.dumps(wire).encode() + b"\n")
        except OSError:
            self._drop(connection)

    def _drop(self, connection: _Connection) -> None:
        if self._held.pop(connection, connection) is connection:
            return
        self._by_address[connection.address] -= 1
        if not self._by_address[connection.address]:
            del self._by_address[connection.address]
        self._forget_silent(connection)
        if connection.name is not None:
            arrived = self._arrived[connection.name]
            del arrived[connection]
            if not arrived:
                del self._arrived[connection.name]
        self._selector.unregister(connection.socket)
        connection.socket.close()

    def _forget_silent(self, connection: _Connection) -> None:
        silent = self._silent.get(connection.address, {})
        if connection in silent:
            del silent[connection]
            self._silent_count -= 1
            if not silent:
                del self._silent[connection.address]

    # --- lines

    def _read(self, connection: _Connection) -> None:
        try:
            part = connection.socket.recv(_MAX_LINE_BYTES + 1 - len(connection.received))
        except BlockingIOError:
            return
        except OSError:
            part = b""
        connection.received += part
        is_over = connection.arrival is not None  # whoever waits has nothing more to say
        if not part or is_over or len(connection.received) > _MAX_LINE_BYTES:
            self._drop(connection)
        elif connection.received.endswith(b"\n"):
            line, connection.received = connection.received, b""
            try:
                self._take_line(connection, json.loads(line.decode()))
            except (OSError, ValueError, KeyError, TypeError, RecursionError):
                self._drop(connection)

    def _take_line(self, connection: _Connection, wire: Dict[str, Any]) -> None:
        if self._key is not None and not connection.is_proven:
            nonces = (self._gang.attempt, connection.nonce, str(wire["nonce"]))
            if not is_proof(wire["proof"], compute_proof(self._key, "barrier", "member", *nonces)):
                raise ValueError("no proof of the gang key")
            connection.is_proven = True
            proof = compute_proof(self._key, "barrier", "rank 0", *nonces)
            self._send(connection, {"proof": proof})
            return
        token = wire["token"]
        if wire["attempt"] != self._gang.attempt:
            raise ValueError("of another attempt")
        if not isinstance(token, str) or len(token) > _MAX_TOKEN_LENGTH:
            raise ValueError("no token")
        arrival = _Arrival((wire["role"], wire["index"], wire["pod"]), token)
        hash(arrival)  # what is no key would end this thread, and with it every barrier
        self._arrive(connection, str(wire["name"]), arrival)

    def _arrive(self, connection: _Connection, name: str, arrival: _Arrival) -> None:
        if arrival.token in self._released:
            self._let_go(connection)
            return
        self._forget_silent(connection)
        connection.name, connection.arrival = name, arrival
        self._arrived.setdefault(name, {})[connection] = None

    def _release(self) -> None:
        for arrived in list(self._arrived.values()):
            if len(arrived) < len(self._expected):
                continue
            pods = {connection.arrival.key for connection in arrived if connection.arrival}
            if not self._expected or not self._expected <= pods:
                continue
            # The own one last: its process may end at once, and this thread with it.
            own = (self._gang.role, self._gang.index)
            for connection in sorted(arrived, key=lambda each: _is_of(each, own)):
                if connection.arrival is not None:
                    self._released[connection.arrival.token] = None
                self._let_go(connection)
        while len(self._released) > self._limits.tokens:
            del self._released[next(iter(self._released))]

    def _let_go(self, connection: _Connection) -> None:
        with contextlib.suppress(OSError):
            connection.socket.send(b"go\n")
        self._drop(connection)


def _is_of(connection: _Connection, task: Tuple[str, int]) -> bool:
    return connection.arrival is not None and connection.arrival.key[:2] == task


def _list_addresses(peer: Peer) -> Tuple[str, ...]:
    return tuple(_normalize(address) for address in peer.addresses or (peer.address,))


def _normalize(address: str) -> str:
    """Write an address as all others: IPv4 as such, and without a zone."""
    try:
        found: Any = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(getattr(found, "ipv4_mapped", None) or found)


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(_normalize(address)).is_loopback


def _keep_alive(connected: socket.socket) -> None:
    """Have the kernel notice a peer whose node is gone."""
    for level, name, value in (
        (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
        (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 30),
        (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 10),
        (socket.IPPROTO_TCP, "TCP_KEEPCNT", 3),
    ):
        with contextlib.suppress(OSError, AttributeError):
            connected.setsockopt(level, getattr(socket, name), value)


def _read_older(gang: Roster) -> Iterator[Roster]:
    """Read the generations before that are still in the volume."""
    directory = _find_directory()
    for name in os.listdir(directory):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            with open(os.path.join(directory, name, "peers.json"), encoding="utf-8") as file:
                older = _parse(json.load(file))
            if older.attempt == gang.attempt and older.generation < gang.generation:
                yield older


# --- The barrier, in every process ----------------------------------------------------------------


def _await_release(gang: Roster, name: str, token: str, deadline: Optional[float]) -> bool:
    """Go to rank 0 and wait there; False when it is time to look for rank 0 anew."""
    own = next((p for p in gang.peers if (p.role, p.index) == (gang.role, gang.index)), None)
    first, port = gang.ranked[0], int(os.environ.get("FB_BARRIER_PORT") or _BARRIER_PORT)
    key = read_gang_key(gang.attempt)
    if key is None:
        warn_once("barrier: connections are not authenticated, because no gang key is mounted")
    if gang.rank == 0:
        _make_room(_Limits(gang, {}).wanted)
        _serve(gang, port, key)
    arrival = {
        "name": name,
        "token": token,
        "attempt": gang.attempt,
        "role": gang.role,
        "index": gang.index,
        "pod": own.fingerprint if own and gang.is_member else "",
    }
    with _connect(own, first.address, port) as connection:
        if key is not None:
            _prove(connection, key, gang.attempt)
        connection.sendall(json.dumps(arrival).encode() + b"\n")
        connection.settimeout(_CONNECT_SECONDS / 4)
        while deadline is None or time.monotonic() < deadline:
            try:
                answer = connection.recv(16)
            except socket.timeout:
                now = roster()
                if now.ranked[:1] != gang.ranked[:1] or now.is_member != gang.is_member:
                    return False
                continue
            if answer.startswith(b"{"):
                warn_once("barrier: rank 0 asks for the gang key; mount it here, too")
            return answer.startswith(b"go")
    return False


def _connect(own: Optional[Peer], address: str, port: int) -> socket.socket:
    """Connect to rank 0 from an address by which the roster knows this Pod, if it has one."""
    for source in own.addresses if own else ():
        if (":" in source) == (":" in address):
            try:
                return socket.create_connection((address, port), _CONNECT_SECONDS, (source, 0))
            except OSError as e:
                if e.errno != errno.EADDRNOTAVAIL:
                    raise
    return socket.create_connection((address, port), _CONNECT_SECONDS)


def _prove(connection: socket.socket, key: bytes, attempt: str) -> None:
    """Prove the gang key to rank 0 and have it prove the same; OSError if it does not."""
    deadline, mine = time.monotonic() + _FIRST_LINE_SECONDS, draw_nonce()
    try:
        nonces = (attempt, str(_read_line(connection, deadline)["nonce"]), mine)
        proof = compute_proof(key, "barrier", "member", *nonces)
        connection.sendall(json.dumps({"nonce": mine, "proof": proof}).encode() + b"\n")
        answer = _read_line(connection, deadline)["proof"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as e:
        warn_once("barrier: rank 0 does not take or does not have this attempt's gang key")
        raise ConnectionError(f"no proof of the gang key: {e}") from e
    if not is_proof(answer, compute_proof(key, "barrier", "rank 0", *nonces)):
        warn_once("barrier: rank 0 has another gang key")
        raise ConnectionError("no proof of the gang key")


def _read_line(connection: socket.socket, deadline: float) -> Any:
    line = b""
    while not line.endswith(b"\n"):
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        part = connection.recv(_MAX_LINE_BYTES)
        line += part
        if not part or len(line) > _MAX_LINE_BYTES:
            raise ValueError("it hung up" if not part else "its line is too long")
    return json.loads(line.decode())


def warn_once(text: str) -> None:
    """Log a warning that was not logged before."""
    if text not in _warned:
        _warned[text] = None
        _log.warning(text)


_warned: Dict[str, None] = {}


def _make_room(connections: int) -> None:
    """Let this process open a file for each who comes; some runtimes start it with 1024 at most."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _OTHER_FILES
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if resource.RLIM_INFINITY != soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _serve(gang: Roster, port: int, key: Optional[bytes]) -> None:
    """Start the hub, unless this process or another one of the Pod has."""
    sources = os.environ.get("FB_BARRIER_SOURCES") or "roster"
    if sources not in {"roster", "any"}:
        raise ValueError(f"FB_BARRIER_SOURCES={sources!r:.80}: write roster or any")
    address = gang.ranked[0].address
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
        hub = _Hub(listener, gang, key, takes_any=sources == "any")
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
    )
