"""Long-polls on the loopback: ``GET /changes?after=NUMBER`` answers when there is a newer change.

They are for processes, in any language, that may be neither signalled nor restarted. Only this Pod
can connect; with hostNetwork, all processes of the node can. For each connection:

1. Accept it. If 64 are open, close the oldest without a request, or else answer the oldest poll
   early. If no connection ends within 1 s, refuse the new one.
2. Read a request of at most 8 KiB, for at most 10 s.
3. If the agent has the gang key: ``GET /challenge?nonce=TEXT`` is answered with a nonce and the
   agent's proof. ``/changes`` is answered 401 until the client has sent its proof, in the header
   ``Gang-Proof``, on the same connection.
4. Wait until there is a change after NUMBER, at most for ``timeout`` seconds (default 30, at most
   300), or until the client hangs up or step 1 ends the poll. Answer with all changes after NUMBER.

Invariants: numbers of changes grow, also when the agent starts again; at most 100 changes of 20,000
members together are kept, but always the newest; a client that asks with the last number it got
misses no change, or gets ``isComplete: false``; a proof is valid for one connection and its nonces.

Example: a client asks ``after=0`` and gets change 100, the first of generation 1. It asks
``after=100`` and waits. With generation 2 it gets change 200. The agent is killed and starts again:
``after=200`` is answered at once with number 299 and no change, and ``after=299`` waits.
"""

import json
import math
import select
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import ThreadingMixIn
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple
from urllib.parse import parse_qs, urlsplit

from rendezvous.core.notifying.notification import Notify
from rendezvous.site.peers import compute_proof, draw_nonce, is_proof

PROOF_HEADER = "Gang-Proof"
_CHANNEL = "changes"
_KEPT = 100
_KEPT_MEMBERS = 20000
_PER_GENERATION = 100
_MAX_TIMEOUT_SECONDS = 300.0
_DEFAULT_TIMEOUT_SECONDS = 30.0
_MAX_CONNECTIONS = 64
_REQUEST_SECONDS = 10.0
_MAX_REQUEST_BYTES = 8192
_MAX_NONCE_LENGTH = 128
# How often a waiting thread checks that its client is still connected.
_LOOK_SECONDS = 1.0
_PLACE_SECONDS = 1.0


class Key(NamedTuple):
    """The gang key, and the attempt whose Pods have it."""

    secret: bytes
    attempt: str


class Changes:
    """The last changes, numbered in their order; a generation may have several.

    The numbers follow the generations, with gaps. So they continue when the agent starts again, and
    a client that asks with its last number misses no change and gets none twice.
    """

    def __init__(self, generation: int = 0) -> None:
        """Start without changes; an earlier agent has reported up to ``generation``."""
        self._arrived = threading.Condition()
        self._kept: List[Dict[str, Any]] = []
        self._kept_members = 0
        self._forgotten = generation * _PER_GENERATION
        self._last = self._forgotten + _PER_GENERATION - 1 if generation else 0
        self._generation = generation

    def __call__(self, notification: Notify, _env: Mapping[str, str]) -> None:
        """Take a notification: this is a notifier."""
        with self._arrived:
            self._generation = notification.diff.generation
            self._last = max(self._last + 1, self._generation * _PER_GENERATION)
            self._kept.append({**notification.to_wire(), "number": self._last})
            self._kept_members += _count_members(self._kept[-1])
            while len(self._kept) > 1 and (
                len(self._kept) > _KEPT or self._kept_members > _KEPT_MEMBERS
            ):
                self._kept_members -= _count_members(self._kept[0])
                self._forgotten = self._kept.pop(0)["number"]
            self._arrived.notify_all()

    def wait(
        self, after: int, timeout_seconds: float, is_over: Callable[[], bool] = lambda: False
    ) -> Dict[str, Any]:
        """Wait for changes with a number above ``after``; after the timeout there may be none.

        ``is_over`` is called about each second, and ends the wait early.
        """
        deadline = time.monotonic() + timeout_seconds
        with self._arrived:
            while self._last <= after and not is_over():
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                self._arrived.wait(min(left, _LOOK_SECONDS))
            return {
                "generation": self._generation,
                "number": max(self._last, after),
                # False: some were forgotten, so read the files instead.
                "isComplete": after >= self._forgotten,
                "changes": [wire for wire in self._kept if wire["number"] > after],
            }

    def wake(self) -> None:
        """Wake all waiting polls, so that they call ``is_over``."""
        with self._arrived:
            self._arrived.notify_all()


def _count_members(wire: Mapping[str, Any]) -> int:
    return sum(
        len(wire.get(name, ())) for name in ("added", "removed", "moved", "failed", "leaving")
    )


class _Poll:
    """One connection: it reads its request, or waits for changes."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.is_waiting = False
        self.is_ended = False

    def is_over(self) -> bool:
        """Return whether the wait ends: the poll was ended, or the client has hung up."""
        if self.is_ended:
            return True
        poller = select.poll()
        try:
            poller.register(self.connection, select.POLLIN)
            # Read only if there are bytes: a socket with a timeout would wait for them.
            return bool(poller.poll(0)) and not self.connection.recv(1, socket.MSG_PEEK)
        except (OSError, ValueError):
            return True

    def end(self) -> None:
        """End it: answer a poll early, or close a connection without a request."""
        self.is_ended = True
        if not self.is_waiting:
            try:
                self.connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                return  # it is gone already


class _Server(ThreadingMixIn, HTTPServer):
    daemon_threads = True
    request_queue_size = 2 * _MAX_CONNECTIONS
    changes: Changes
    key: Optional[Key]

    def __init__(self, address: Tuple[str, int], handler: Any) -> None:
        self._place = threading.Condition()
        self._polls: Dict[socket.socket, _Poll] = {}
        super().__init__(address, handler)

    def find_poll(self, connection: socket.socket) -> _Poll:
        """Return the poll of a connection."""
        return self._polls[connection]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread; if too many are open, end the oldest first."""
        with self._place:
            if len(self._polls) >= _MAX_CONNECTIONS:
                self._end_oldest()
                self._place.wait_for(self._has_place, _PLACE_SECONDS)
            is_taken = self._has_place()
            if is_taken:
                self._polls[request] = _Poll(request)
        if is_taken:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, and forget it."""
        super().shutdown_request(request)
        with self._place:
            self._polls.pop(request, None)
            self._place.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: the log is for the gang."""

    def _has_place(self) -> bool:
        return len(self._polls) < _MAX_CONNECTIONS

    def _end_oldest(self) -> None:
        polls = [poll for poll in self._polls.values() if not poll.is_ended]
        for poll in sorted(polls, key=lambda each: each.is_waiting)[:1]:
            poll.end()
            self.changes.wake()


def serve(address: Tuple[str, int], changes: Changes, key: Optional[Key] = None) -> int:
    """Serve in threads of their own until the program ends; return the port.

    Raises:
        OSError: The port is taken.
    """
    server_class = _Server6 if ":" in address[0] else _Server
    server = server_class(address, _Handler)
    server.changes = changes
    server.key = key
    threading.Thread(target=server.serve_forever, name="long-poll", daemon=True).start()
    return int(server.server_address[1])


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Head:
    """Reads the lines of one request, within limits of time and size."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._received = b""
        self.begin()

    def begin(self) -> None:
        """Allow for a new request."""
        self._left = _MAX_REQUEST_BYTES
        self._deadline = time.monotonic() + _REQUEST_SECONDS

    def readline(self, _limit: int = -1) -> bytes:
        """Read a line; at socket.timeout the base class ends the connection."""
        while b"\n" not in self._received:
            seconds = self._deadline - time.monotonic()
            if seconds <= 0 or len(self._received) >= self._left:
                raise socket.timeout("no request in time and size")
            self._connection.settimeout(seconds)
            part = self._connection.recv(_MAX_REQUEST_BYTES)
            if not part:
                return b""
            self._received += part
        line, _, self._received = self._received.partition(b"\n")
        self._left -= len(line) + 1
        if self._left < 0:
            raise socket.timeout("no request in size")
        return line + b"\n"

    def close(self) -> None:
        """Do nothing: the server closes the connection."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = _REQUEST_SECONDS
    _nonces = ("", "")
    _is_proven = False

    def setup(self) -> None:
        """Read through ``_Head``, which limits a request."""
        super().setup()
        self._poll = self.server.find_poll(self.connection)
        self._head = _Head(self.connection)
        self.rfile = self._head  # type: ignore[assignment]  # only lines are read from it

    def handle_one_request(self) -> None:
        """Give each request of a connection the same time."""
        self._head.begin()
        super().handle_one_request()

    def do_GET(self) -> None:
        """Answer a poll."""
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        if url.path == "/challenge" and self.server.key is not None:
            self._answer_challenge(self.server.key, query.get("nonce", [""])[0])
        elif url.path != "/changes":
            self.send_error(404, "there is only /changes")
        elif not self._has_proof():
            self.send_error(401, "prove the gang key: GET /challenge first, then " + PROOF_HEADER)
        else:
            self._answer_poll(query)

    def _answer_challenge(self, key: Key, nonce: str) -> None:
        if not 0 < len(nonce) <= _MAX_NONCE_LENGTH:
            self.send_error(400, "nonce is a text that was never used before")
            return
        self._nonces = draw_nonce(), nonce
        proof = compute_proof(key.secret, _CHANNEL, "agent", key.attempt, *self._nonces)
        self._send({"nonce": self._nonces[0], "proof": proof})

    def _has_proof(self) -> bool:
        """Return whether this connection has proven the gang key, once, if there is one."""
        key = self.server.key
        if key is None or self._is_proven:
            return True
        nonces, self._nonces = self._nonces, ("", "")
        given = self.headers.get(PROOF_HEADER, "")
        expected = compute_proof(key.secret, _CHANNEL, "client", key.attempt, *nonces)
        self._is_proven = bool(nonces[0]) and is_proof(given, expected)
        return self._is_proven

    def _answer_poll(self, query: Mapping[str, List[str]]) -> None:
        try:
            after = int(query.get("after", ["0"])[0])
            seconds = float(query.get("timeout", [str(_DEFAULT_TIMEOUT_SECONDS)])[0])
            if math.isnan(seconds):  # no wait takes it
                raise ValueError
        except ValueError:
            self.send_error(400, "after and timeout are numbers")
            return
        self._poll.is_waiting = True
        seconds = min(max(seconds, 0.0), _MAX_TIMEOUT_SECONDS)
        answer = self.server.changes.wait(after, seconds, self._poll.is_over)
        self._send(answer)
        self._poll.is_waiting = False
        self.close_connection = self.close_connection or self._poll.is_ended

    def _send(self, wire: Mapping[str, Any]) -> None:
        body = json.dumps(wire, separators=(",", ":")).encode() + b"\n"
        self.connection.settimeout(_REQUEST_SECONDS)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 the base's
        """Log nothing: the log is for the gang."""
