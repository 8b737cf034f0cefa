"""The hub of the barrier, a thread in the process of rank 0. ``client`` starts it.

``protocol`` describes the messages, ``limits`` the number of connections. The thread repeats these
steps:

1. Wait for connections and lines: for 50 ms while a process waits at a barrier, for 1 s while a
   connection has not arrived at a barrier, otherwise without a limit.
2. Accept each new connection if the roster has its address and there is room; close it otherwise.
   Take each line: a proof of the gang key, or an arrival.
3. Close the connections that have not arrived after 10 s.
4. Read a new generation: from now on its Pods are expected.
5. Release all processes at each barrier to which one process of every expected Pod has come.

In an agent that looks for hangs, the hub also answers the reports of the other agents
(``answer_reports``).
"""

import contextlib
import errno
import os
import selectors
import socket
import threading
import time
from collections import Counter
from typing import Any, Callable, Dict, FrozenSet, Iterable, List, NamedTuple, Optional, Set, Tuple

from ..gang_key import draw_nonce, is_proof
from ..generations import LOOK_SECONDS, Roster, read_older, roster
from ..logs import log
from .connecting import keep_alive
from .limits import PER_POD, Limits, is_loopback, list_addresses, normalize
from .protocol import (
    FIRST_LINE_SECONDS,
    MAX_LINE_BYTES,
    MEMBER,
    RANK_0,
    compute_side_proof,
    decode_line,
    encode_go,
    encode_line,
    mark_members,
)

# At most this many addresses are logged, so that foreign clients do not fill the log.
_NAMED_STRANGERS = 8
# A refused address is logged after this time: a member that joins the gang may have the next
# generation earlier than rank 0, whose agent may hold that generation back (FB_REACH).
_JOIN_SECONDS = 60.0
_MAX_TOKEN_LENGTH = 64
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def serve(gang: Roster, port: int, key: Optional[bytes]) -> bool:
    """Start the hub, unless this process or another process of the Pod serves it.

    Returns:
        Whether this process serves.

    Raises:
        ValueError: $FB_BARRIER_SOURCES is neither roster nor any.
    """
    sources = os.environ.get("FB_BARRIER_SOURCES") or "roster"
    if sources not in {"roster", "any"}:
        raise ValueError(f"FB_BARRIER_SOURCES={sources!r:.80}: write roster or any")
    address = gang.ranked[0].address
    with _serving:
        if any(hub.place == (address, port) for hub in _hubs):
            return True
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address, port))
            listener.listen(4096)
        except OSError:
            listener.close()
            return False
        hub = Hub(listener, gang, key, takes_any=sources == "any")
        os.register_at_fork(after_in_child=hub.leave_to_parent)
        hub.place = address, port
        hub.start()
        _hubs.append(hub)
        return True


def list_missing(name: str) -> Tuple[str, ...]:
    """List the fingerprints of the Pods that the hub of this process waits for at a barrier.

    Empty if another process serves.
    """
    return _hubs[-1].list_missing(name) if _hubs else ()


def answer_reports(answer: Callable[[Tuple[str, int, str], Any], Dict[str, Any]]) -> None:
    """Answer reports of agents, in the process that serves the hub.

    ``answer`` is called by the hub's thread, with the role, index and fingerprint of the member and
    the report, which is any JSON. For what is no report, it raises ValueError, TypeError or
    KeyError, and the connection is closed.
    """
    _answers[:] = [answer]


class _Arrival(NamedTuple):
    """One process at a barrier. ``key`` is its Pod, ``members`` the mark of those it knows."""

    key: Tuple[str, int, str]
    token: str
    members: str = ""


class _Connection:
    """One connection to the hub. ``name`` is that of the barrier it is at; None: silent so far."""

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


class Hub(threading.Thread):
    """Runs in rank 0: counts the processes that have arrived and releases them together.

    Connections come from addresses of the roster only, unless ``takes_any`` says otherwise. A
    connection is silent until it has proven the gang key, if there is one, and has named a barrier.
    Silent ones have a deadline. When there is no room for a new connection, the oldest silent one
    goes, first of the address that has most of them. So foreign clients cannot keep members out.
    """

    def __init__(
        self, listener: socket.socket, gang: Roster, key: Optional[bytes], *, takes_any: bool
    ) -> None:
        super().__init__(name="peers-barrier", daemon=True)
        # The address and the port that it serves; None in a forked child.
        self.place: Optional[Tuple[str, int]] = None
        self._listener = listener
        self._key = key
        self._takes_any = takes_any
        self._is_on_loopback = is_loopback(listener.getsockname()[0])
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._held: Dict[_Connection, None] = {}
        # By address; the oldest first.
        self._silent: Dict[str, Dict[_Connection, None]] = {}
        self._silent_count = 0
        self._by_address: Counter[str] = Counter()
        self._arrived: Dict[str, Dict[_Connection, None]] = {}
        # Tokens of released processes, which may have missed the answer, with the released mark.
        self._released: Dict[str, Optional[str]] = {}
        # By address, when its first connection was refused; infinity once the address is logged.
        self._strangers: Dict[str, float] = {}
        self._former: Dict[Tuple[str, int, str], Tuple[str, ...]] = {}
        self._gang = gang
        for older in sorted(read_older(gang), key=lambda each: each.generation):
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

    def list_missing(self, name: str) -> Tuple[str, ...]:
        """List the fingerprints of the Pods that have not come to a barrier."""
        pods = self._count_pods_at(list(self._arrived.get(name, ())))
        return tuple(sorted(fingerprint for _, _, fingerprint in self._expected - pods))

    def leave_to_parent(self) -> None:
        """Close all sockets in a forked child, which does not serve them."""
        self.place = None
        for held in [self._listener, *(connection.socket for connection in self._held)]:
            held.close()
        self._selector.close()

    def _get_wait_seconds(self) -> Optional[float]:
        if self._arrived:
            return LOOK_SECONDS
        return FIRST_LINE_SECONDS / 10 if self._silent_count else None

    def _follow(self, gang: Roster) -> None:
        """Take a generation. Pods that leave may connect as long as the roster lists them."""
        known = {(p.role, p.index, p.fingerprint): list_addresses(p) for p in self._gang.peers}
        known.update(self._former)
        self._former = {key: known[key] for key in gang.leaving if key in known}
        self._gang = gang
        self._limits = Limits(gang, self._former)
        self._strangers = {
            address: at for address, at in self._strangers.items() if not self._limits.pods[address]
        }
        self._expected: FrozenSet[Tuple[str, int, str]] = frozenset(
            (peer.role, peer.index, peer.fingerprint) for peer in gang.ranked
        )
        self._mark = mark_members(self._expected)

    # --- connections

    def _accept(self) -> None:
        try:
            connected, peer = self._listener.accept()
        except OSError as e:
            if e.errno in _NO_ROOM:
                time.sleep(LOOK_SECONDS)  # the connection is still there, and reported again
            return
        address = normalize(peer[0])
        if not self._make_place(address):
            connected.close()
            return
        connected.settimeout(0.0)
        keep_alive(connected)
        connection = _Connection(connected, address, time.monotonic() + FIRST_LINE_SECONDS)
        self._held[connection] = None
        self._by_address[address] += 1
        self._silent.setdefault(address, {})[connection] = None
        self._silent_count += 1
        self._selector.register(connected, selectors.EVENT_READ, connection)
        if self._key is not None:
            connection.nonce = draw_nonce()
            self._send(connection, {"nonce": connection.nonce})

    def _make_place(self, address: str) -> bool:
        """Return whether to accept a connection; silent connections may be closed for it."""
        pods = self._count_pods(address)
        if not pods:
            self._log_stranger(address)
            return False
        if self._by_address[address] >= PER_POD * pods and not self._evict(address):
            return False
        if self._silent_count >= self._limits.silent or len(self._held) >= self._limits.total:
            most = max(self._silent.items(), key=lambda item: len(item[1]), default=("", {}))[0]
            return self._evict(most)
        return True

    def _count_pods(self, address: str) -> int:
        """Count the Pods that may connect from an address."""
        if self._takes_any:
            return self._limits.all_pods
        known = self._limits.pods[address]
        if not known and self._is_on_loopback and address in {"127.0.0.1", "::1"}:
            return self._limits.all_pods
        return known

    def _evict(self, address: str) -> bool:
        """Drop the oldest silent connection of an address; False if there was none."""
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

    def _log_stranger(self, address: str) -> None:
        """Log an address that is still refused after a joining member would be in the roster."""
        now = time.monotonic()
        if len(self._strangers) < _NAMED_STRANGERS:
            self._strangers.setdefault(address, now)
        if now - self._strangers.get(address, now) < _JOIN_SECONDS:
            return
        self._strangers[address] = float("inf")
        log.warning(
            "barrier: refused a connection from %s, which is not an address of the roster; if "
            "addresses are translated between Pods, set FB_BARRIER_SOURCES=any",
            address,
        )

    def _send(self, connection: _Connection, wire: Dict[str, Any]) -> None:
        try:
            connection.socket.send(encode_line(wire))
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
            part = connection.socket.recv(MAX_LINE_BYTES + 1 - len(connection.received))
        except BlockingIOError:
            return
        except OSError:
            part = b""
        connection.received += part
        is_over = connection.arrival is not None  # a waiting client sends nothing more
        if not part or is_over or len(connection.received) > MAX_LINE_BYTES:
            self._drop(connection)
        elif connection.received.endswith(b"\n"):
            line, connection.received = connection.received, b""
            try:
                self._take_line(connection, decode_line(line))
            except (OSError, ValueError, KeyError, TypeError, RecursionError):
                self._drop(connection)

    def _take_line(self, connection: _Connection, wire: Dict[str, Any]) -> None:
        if self._key is not None and not connection.is_proven:
            nonces = (self._gang.attempt, connection.nonce, str(wire["nonce"]))
            if not is_proof(wire["proof"], compute_side_proof(self._key, MEMBER, nonces)):
                raise ValueError("no proof of the gang key")
            connection.is_proven = True
            proof = compute_side_proof(self._key, RANK_0, nonces)
            self._send(connection, {"proof": proof})
            return
        if wire["attempt"] != self._gang.attempt:
            raise ValueError("of another attempt")
        if "report" in wire:
            self._answer(connection, wire)
            return
        token = wire["token"]
        if not isinstance(token, str) or len(token) > _MAX_TOKEN_LENGTH:
            raise ValueError("no token")
        members = str(wire.get("members", ""))
        arrival = _Arrival((wire["role"], wire["index"], wire["pod"]), token, members)
        hash(arrival)  # an unhashable value would end this thread, and with it every barrier
        self._arrive(connection, str(wire["name"]), arrival)

    def _answer(self, connection: _Connection, wire: Dict[str, Any]) -> None:
        """Answer the report of an agent; its connection stays open and is no longer silent."""
        member = wire["role"], wire["index"], wire["pod"]
        if not _answers or member not in self._expected:
            raise ValueError("no member, or no watch")
        self._forget_silent(connection)
        self._send(connection, _answers[0](member, wire["report"]))

    def _arrive(self, connection: _Connection, name: str, arrival: _Arrival) -> None:
        if arrival.token in self._released:
            self._let_go(connection, self._released[arrival.token])
            return
        self._forget_silent(connection)
        connection.name, connection.arrival = name, arrival
        self._arrived.setdefault(name, {})[connection] = None

    def _release(self) -> None:
        for arrived in list(self._arrived.values()):
            if len(arrived) < len(self._expected):
                continue
            if not self._expected or not self._expected <= self._count_pods_at(arrived):
                continue
            # The own process last: it may end at once, and this thread with it.
            own = (self._gang.role, self._gang.index)
            for connection in sorted(arrived, key=lambda each: _is_of(each, own)):
                has_mark = connection.arrival is not None and connection.arrival.members
                mark = self._mark if has_mark else None
                if connection.arrival is not None:
                    self._released[connection.arrival.token] = mark
                self._let_go(connection, mark)
        while len(self._released) > self._limits.tokens:
            del self._released[next(iter(self._released))]

    def _count_pods_at(self, arrived: Iterable[_Connection]) -> Set[Tuple[str, int, str]]:
        """Collect the Pods at a barrier, without those that would start with other members."""
        arrivals = (connection.arrival for connection in arrived)
        return {each.key for each in arrivals if each and each.members in {"", self._mark}}

    def _let_go(self, connection: _Connection, mark: Optional[str]) -> None:
        with contextlib.suppress(OSError):
            connection.socket.send(encode_go(mark))
        self._drop(connection)


def _is_of(connection: _Connection, task: Tuple[str, int]) -> bool:
    return connection.arrival is not None and connection.arrival.key[:2] == task


_serving = threading.Lock()
_hubs: List[Hub] = []
_answers: List[Callable[[Tuple[str, int, str], Any], Dict[str, Any]]] = []
