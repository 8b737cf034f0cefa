"""One connection of a remote command, non-blocking: handshake, frames in, bytes out.

Neither end waits in a call: it polls ``fileno`` for ``events`` and then calls ``flush`` and
``receive``. The caller reads ``backlog`` to limit the bytes that are not sent yet.
"""

import select
import socket
import ssl
from typing import FrozenSet, List, Optional

from framework.agent.clock import AgentClock
from rendezvous.rsh.credentials import Credentials
from rendezvous.rsh.frames import Decoder, Frame, Kind
from rendezvous.site.peers.barriers.connecting import keep_alive

_READ_BYTES = 64 * 1024
# Reads of one turn, so that other streams have their turn, too.
_READS = 8
_LINGER_SECONDS = 5.0


class ChannelError(Exception):
    """The connection has failed, or the other end has closed it too early."""


class AuthenticationError(ChannelError):
    """The other end does not have the key of the attempt."""


class Channel:
    """An authenticated connection."""

    def __init__(
        self,
        connected: socket.socket,
        credentials: Credentials,
        incoming: FrozenSet[Kind],
        *,
        is_server: bool,
    ) -> None:
        """Take over a connected socket; ``incoming`` are the frames that the other end may send.

        Raises:
            ChannelError: It was closed meanwhile.
        """
        connected.settimeout(0.0)
        keep_alive(connected)
        try:
            self._socket = credentials.context.wrap_socket(
                connected, server_side=is_server, do_handshake_on_connect=False
            )
        except (OSError, ValueError) as e:
            connected.close()
            raise ChannelError(str(e)) from e
        self._certificate = credentials.certificate
        self._decoder = Decoder(incoming)
        self._outgoing = bytearray()
        self._unread: List[Frame] = []
        self.is_ended = False

    @property
    def backlog(self) -> int:
        """The number of bytes that are not sent yet."""
        return len(self._outgoing)

    @property
    def has_more(self) -> bool:
        """Whether there are received bytes that a poll does not show."""
        return bool(self._unread) or (not self.is_ended and self._socket.pending() > 0)

    @property
    def events(self) -> int:
        """The events to poll for."""
        return select.POLLIN | (select.POLLOUT if self._outgoing else 0)

    def fileno(self) -> int:
        """Return the descriptor to poll."""
        return self._socket.fileno()

    def shake_hands(self, deadline: float, clock: AgentClock) -> None:
        """Do the handshake, which proves that the other end has the key.

        Raises:
            AuthenticationError: The other end does not have the key.
            ChannelError: It takes too long, or the other end hangs up.
        """
        while True:
            try:
                self._socket.do_handshake()
                break
            except ssl.SSLWantReadError:
                wait_for(self.fileno(), select.POLLIN, deadline, clock)
            except ssl.SSLWantWriteError:
                wait_for(self.fileno(), select.POLLOUT, deadline, clock)
            except OSError as e:
                raise _translate(e) from e
        if self._socket.getpeercert(binary_form=True) != self._certificate:
            raise AuthenticationError("it shows another certificate")

    def send(self, encoded: bytes) -> None:
        """Queue encoded frames."""
        self._outgoing += encoded

    def flush(self) -> None:
        """Send the queued bytes that can be sent now; none after the end of the connection.

        Raises:
            ChannelError: The connection has failed.
        """
        if self.is_ended:
            # OpenSSL would raise an error, and the frames received before it would be lost.
            self._outgoing.clear()
        while self._outgoing:
            try:
                sent = self._socket.send(bytes(self._outgoing[:_READ_BYTES]))
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            except OSError as e:
                raise _translate(e) from e
            del self._outgoing[:sent]

    def receive(self) -> List[Frame]:
        """Return the received frames. Sets ``is_ended`` at the end of the connection.

        Raises:
            ChannelError: The connection has failed.
            FrameError: The other end violates the protocol.
        """
        frames, self._unread = self._unread, []
        for _ in range(_READS):
            try:
                part = self._socket.recv(_READ_BYTES)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                break
            except OSError as e:
                if frames:
                    break  # the next call reports it
                raise _translate(e) from e
            if not part:
                self.is_ended = True
                break
            frames += self._decoder.feed(part)
        return frames

    def receive_one(self) -> Optional[Frame]:
        """Return the next frame, if it was received; ``receive`` returns the others.

        Raises:
            ChannelError, FrameError: As for ``receive``.
        """
        frames = self.receive()
        self._unread = frames[1:]
        return frames[0] if frames else None

    def finish(self, deadline: float, clock: AgentClock) -> None:
        """Send all bytes, then the end of the stream, and wait until the other end hangs up.

        Closing at once, with bytes not read yet, would reset the connection, and the other end
        could lose bytes that it has not read yet.

        Raises:
            ChannelError: The connection has failed, or the other end takes too long.
        """
        while self._outgoing:
            self.flush()
            if self._outgoing:
                wait_for(self.fileno(), select.POLLOUT, deadline, clock)
        try:
            self._socket.shutdown(socket.SHUT_WR)
            deadline = min(deadline, clock.monotonic() + _LINGER_SECONDS)
            while True:
                wait_for(self.fileno(), select.POLLIN, deadline, clock)
                if not self._socket.recv(_READ_BYTES):
                    return
        except OSError as e:
            raise _translate(e) from e

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


def wait_for(descriptor: int, events: int, deadline: float, clock: AgentClock) -> None:
    """Wait until a descriptor is ready.

    Raises:
        ChannelError: It is not ready in time.
    """
    seconds = deadline - clock.monotonic()
    poller = select.poll()
    poller.register(descriptor, events)
    if seconds <= 0 or not poller.poll(clock.to_machine(seconds) * 1000):
        raise ChannelError("no answer in time")


def _translate(error: OSError) -> ChannelError:
    """Distinguish a wrong key from a connection that ended."""
    ended = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
    if isinstance(error, ssl.SSLError) and not isinstance(error, ended):
        return AuthenticationError(error.reason or str(error))
    return ChannelError(str(error) or type(error).__name__)
