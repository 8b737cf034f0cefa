"""The endpoint of remote commands, in the agent of a member: ``run`` with FB_RSH_SERVER_PORT.

It listens on the address that the roster has for its Pod. For each connection, in a thread:

1. Hang up unless the address belongs to a member (``admission``).
2. Do the handshake: both ends prove the key of the attempt. Read one request. Both steps together
   have 10 s, and the number of connections in them is limited.
3. Run the command (``session``), or send the reason of a refusal.

Invariants: no request is read before the client has proven the key; a client that violates the
protocol loses only its connection; when the agent ends, all commands are killed.
"""

import contextlib
import os
import socket
import threading
from typing import Callable, Dict, NamedTuple, Optional, Tuple

from framework.agent.clock import AgentClock
from framework.agent.report import LineReporter
from rendezvous.process.children import Children
from rendezvous.rsh.admission import (
    PENDING_SECONDS,
    choose_evicted,
    find_refusal,
    is_member_address,
)
from rendezvous.rsh.channel import AuthenticationError, Channel, ChannelError, wait_for
from rendezvous.rsh.credentials import Credentials
from rendezvous.rsh.frames import (
    FROM_CLIENT,
    FrameError,
    Kind,
    Request,
    encode_refusal,
    parse_request,
)
from rendezvous.rsh.session import Session, build_login_env
from rendezvous.site.peers.generations import Roster

_BACKLOG = 128
_REFUSAL_SECONDS = 5.0
_PAUSE_SECONDS = 0.05


class Parts(NamedTuple):
    """The identity and the collaborators of an endpoint."""

    own: Tuple[str, str, int]
    """The attempt, and role and index of the Task."""
    credentials: Credentials
    """The certificate of the attempt."""
    read_roster: Callable[[], Roster]
    """Reads the current generation."""
    children: Children
    """Starts the commands. The wrapper reaps them."""
    grace_seconds: float
    """From SIGTERM to SIGKILL, for a command whose client is gone."""
    reporter: LineReporter
    """Prints warnings."""
    clock: AgentClock
    """Measures the limits."""


class Endpoint:
    """Serves until the process ends."""

    def __init__(self, parts: Parts, address: str, port: int) -> None:
        """Listen.

        Raises:
            OSError: The port is taken, or the address is not of this host.
        """
        self._parts = parts
        self._lock = threading.Lock()
        self._pending: Dict[socket.socket, str] = {}
        self._sessions: Dict[Session, None] = {}
        self._is_closed = False
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.bind((address, port))
            self._listener.listen(_BACKLOG)
        except OSError:
            self._listener.close()
            raise
        self._address, self.port = self._listener.getsockname()[:2]

    def start(self) -> None:
        """Accept connections, in a thread of its own."""
        threading.Thread(target=self._accept_all, name="rsh", daemon=True).start()

    def close(self) -> None:
        """Kill all commands; the process ends next, and with it their connections."""
        with self._lock:
            self._is_closed = True
            sessions = list(self._sessions)
        for session in sessions:
            session.kill()

    def _accept_all(self) -> None:
        while True:
            try:
                connected, peer = self._listener.accept()
            except OSError:
                # No descriptor is free: the connection is still there.
                self._parts.clock.sleep(_PAUSE_SECONDS)
                continue
            try:
                self._admit(connected, peer[0])
            except Exception as e:  # noqa: BLE001 later connections must be accepted
                # The Pod is at its limit of files or processes, or a program has damaged the files.
                text = f"rsh: a connection is not served: {type(e).__name__}: {e}"
                self._parts.reporter.say_once(text, "warning")
                self._drop(connected)

    def _admit(self, connected: socket.socket, address: str) -> None:
        if not is_member_address(self._parts.read_roster(), self._address, address):
            connected.close()
            text = f"rsh: refused connections from {address}, which is not of a member"
            self._parts.reporter.say_once(text, "warning")
            return
        with self._lock:
            evicted = choose_evicted(list(self._pending.values()))
            if evicted is not None:
                oldest = list(self._pending)[evicted]
                del self._pending[oldest]
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)  # its thread closes it
            self._pending[connected] = address
        name = f"rsh-{address}"
        threading.Thread(target=self._serve, args=(connected,), name=name, daemon=True).start()

    def _serve(self, connected: socket.socket) -> None:
        parts = self._parts
        deadline = parts.clock.monotonic() + PENDING_SECONDS
        try:
            duplicate = connected.dup()
            channel = Channel(duplicate, parts.credentials, FROM_CLIENT, is_server=True)
        except (ChannelError, OSError):
            # It was closed meanwhile, or no descriptor is free: the client tries again.
            self._drop(connected)
            return
        try:
            channel.shake_hands(deadline, parts.clock)
            request = self._read_request(channel, deadline)
            self._forget(connected)
            self._run(channel, request)
        except AuthenticationError as e:
            text = f"rsh: a client at {self._describe(connected)} does not have the gang key: {e}"
            parts.reporter.say_once(text, "warning")
        except FrameError as e:
            self._refuse(channel, str(e))
        except ChannelError:
            return
        except OSError as e:
            # No free descriptor or process: the client tries again.
            self._refuse(channel, f"the command cannot be started: {e}")
        finally:
            channel.close()
            self._drop(connected)

    def _read_request(self, channel: Channel, deadline: float) -> Request:
        while True:
            frame = channel.receive_one()
            if frame is not None:
                if frame.kind is not Kind.REQUEST:
                    raise FrameError("the first frame is not a request")
                return parse_request(frame.content)
            if channel.is_ended:
                raise ChannelError("no request")
            if not channel.has_more:
                wait_for(channel.fileno(), channel.events, deadline, self._parts.clock)

    def _run(self, channel: Channel, request: Request) -> None:
        parts = self._parts
        session: Optional[Session] = None
        with self._lock:
            refusal = find_refusal(request, parts.own, len(self._sessions))
            if self._is_closed:
                refusal = "the agent ends"
            if not refusal:
                # Only ``run`` closes its pipes, so it is not created for a refused request.
                session = Session(channel, parts.children, parts.clock, parts.grace_seconds)
                self._sessions[session] = None
        if session is None:
            self._refuse(channel, refusal)
            return
        try:
            session.run(request.command, build_login_env(os.environ))
        finally:
            with self._lock:
                self._sessions.pop(session, None)

    def _refuse(self, channel: Channel, text: str) -> None:
        channel.send(encode_refusal(text))
        clock = self._parts.clock
        with contextlib.suppress(ChannelError):
            channel.finish(clock.monotonic() + _REFUSAL_SECONDS, clock)

    def _describe(self, connected: socket.socket) -> str:
        with self._lock:
            return self._pending.get(connected, "an address that has many connections")

    def _forget(self, connected: socket.socket) -> None:
        with self._lock:
            self._pending.pop(connected, None)

    def _drop(self, connected: socket.socket) -> None:
        self._forget(connected)
        connected.close()
