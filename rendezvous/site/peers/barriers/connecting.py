"""TCP connections between members."""

import contextlib
import errno
import socket
from typing import Optional

from ..generations import Peer

CONNECT_SECONDS = 2.0


def connect(own: Optional[Peer], address: str, port: int) -> socket.socket:
    """Connect from an address that the roster has for this Pod, if it has one.

    Raises:
        OSError: The address does not listen, or does not answer in time.
    """
    for source in own.addresses if own else ():
        if (":" in source) == (":" in address):
            try:
                return socket.create_connection((address, port), CONNECT_SECONDS, (source, 0))
            except OSError as e:
                if e.errno != errno.EADDRNOTAVAIL:
                    raise
    return socket.create_connection((address, port), CONNECT_SECONDS)


def keep_alive(connected: socket.socket) -> None:
    """Let the kernel detect a peer whose node is gone."""
    for level, name, value in (
        (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
        (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 30),
        (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 10),
        (socket.IPPROTO_TCP, "TCP_KEEPCNT", 3),
    ):
        with contextlib.suppress(OSError, AttributeError):
            connected.setsockopt(level, getattr(socket, name), value)
