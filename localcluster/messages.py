"""Messages between this program and its child programs, with open files. Linux.

A message is a tuple of values that ``marshal`` can write: text, numbers, lists. Both ends have the
same Python. A child program must start fast, so this module imports only the standard library.
"""

import marshal
import os
import socket
from typing import Any, TypeAlias

Message: TypeAlias = "tuple[Any, ...]"

_MESSAGE_LIMIT = 65536
# Maximum in one message.
_MAX_DESCRIPTORS = 8


def send(connection: socket.socket, message: Message, descriptors: "list[int]") -> None:
    """Send a message; the receiver gets duplicates of the open files.

    Raises:
        BlockingIOError: the connection does not block, and the receiver is slow.
        OSError: the receiver has ended.
    """
    socket.send_fds(connection, [marshal.dumps(message)], descriptors)


def receive(connection: socket.socket) -> "tuple[Message | None, list[int]]":
    """Return the next message and its open files, which ``exec`` closes; None at the end.

    Raises:
        BlockingIOError: the connection does not block, and there is no message.
        OSError: the connection is broken.
    """
    raw, descriptors, _, _ = socket.recv_fds(connection, _MESSAGE_LIMIT, _MAX_DESCRIPTORS)
    for descriptor in descriptors:
        # ``recv_fds`` takes flags, but Python 3.11 does not pass MSG_CMSG_CLOEXEC on.
        os.set_inheritable(descriptor, False)  # noqa: FBT003 a system call's flag
    return (marshal.loads(raw) if raw else None), descriptors  # noqa: S302 our own program's
