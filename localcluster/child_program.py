"""Starts a child program and sends it requests; the program may answer them in any order.

The program is a module of this package with a function ``main``. Its last two arguments are the id
of this process and the descriptor of its connection; it ends with the connection. ``messages`` has
the form of requests and answers: ``(number, verb, arguments)`` and ``(number, value, error)``. A
request with the number 0 has no answer.

    RequestError             the program refuses a request
    `-- ProgramEndedError    the program has ended
"""

import asyncio
import itertools
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from localcluster import messages

_ROOM = Path(__file__).parents[1]
_BOOT = (
    "import importlib, sys; sys.path.insert(0, sys.argv[1]); "
    "importlib.import_module(sys.argv[2]).main()"
)
_STOP_SECONDS = 5.0


class RequestError(Exception):
    """The program cannot carry out the request."""


class ProgramEndedError(RequestError):
    """The program has ended, or was asked to end."""


class Answer(NamedTuple):
    """The answer of a program."""

    value: Any
    descriptors: list[int]
    """Open files; the receiver closes them."""


class Request(NamedTuple):
    """A request that was sent."""

    number: int
    answered: "asyncio.Future[Answer]"
    """Raises ``RequestError``."""


class ChildProgram:
    """A started program."""

    def __init__(self, module: str, *arguments: str) -> None:
        """Start the program, in the thread of the event loop.

        The thread must outlive the program: the program is killed when its parent ends, and for the
        kernel, the parent is the thread that started it.

        Args:
            module: its name; it may import only the standard library and modules of this package.
            arguments: its first arguments.
        """
        self._loop = asyncio.get_running_loop()
        self._answers: dict[int, asyncio.Future[Answer]] = {}
        self._numbers = itertools.count(1)
        self._backlog: deque[tuple[messages.Message, list[int]]] = deque()
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            control = theirs.fileno()
            own = [module, *arguments, str(os.getpid()), str(control)]
            self._popen = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _BOOT, str(_ROOM), *own],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[control],
                start_new_session=True,
                cwd="/",
            )
        self._connection.setblocking(False)  # noqa: FBT003 the standard library's
        self._loop.add_reader(self._connection, self._read)

    @property
    def pid(self) -> int:
        """The process."""
        return self._popen.pid

    @property
    def has_ended(self) -> bool:
        """Return whether the program accepts no more requests."""
        return self._connection.fileno() < 0

    def request(self, verb: str, *arguments: Any, descriptors: Sequence[int] = ()) -> Request:
        """Send a request; do not wait for the answer.

        The arguments are values that ``marshal`` can write. The program gets duplicates of the open
        files ``descriptors``. If it has ended, this raises ProgramEndedError.
        """
        if self.has_ended:
            raise ProgramEndedError("it has ended")
        number = next(self._numbers)
        answered = self._answers[number] = self._loop.create_future()
        self._send((number, verb, arguments), list(descriptors))
        return Request(number, answered)

    def notify(self, verb: str, *arguments: Any) -> None:
        """Send a request without an answer; nothing happens if the program has ended."""
        if not self.has_ended:
            self._send((0, verb, arguments), [])

    def _send(self, message: messages.Message, descriptors: list[int]) -> None:
        if self._backlog or not self._try_to_send(message, descriptors):
            self._backlog.append((message, [os.dup(descriptor) for descriptor in descriptors]))
            self._loop.add_writer(self._connection, self._send_backlog)

    def _try_to_send(self, message: messages.Message, descriptors: list[int]) -> bool:
        """Send a message; return False if there is no room for it."""
        try:
            messages.send(self._connection, message, descriptors)
        except BlockingIOError:
            return False
        except OSError:
            # ``_read`` finds out that the program has ended, and fails the request.
            return True
        return True

    def _send_backlog(self) -> None:
        while self._backlog and self._try_to_send(*self._backlog[0]):
            _close_all(self._backlog.popleft()[1])
        if not self._backlog:
            self._loop.remove_writer(self._connection)

    def _read(self) -> None:
        try:
            message, descriptors = messages.receive(self._connection)
        except BlockingIOError:
            return
        except OSError:
            message, descriptors = None, []
        if message is None:
            self._close()
            return
        number, value, error = message
        answered = self._answers.pop(number)
        if answered.done():
            # Its caller was cancelled.
            _close_all(descriptors)
        elif error is not None:
            answered.set_exception(RequestError(error))
        else:
            answered.set_result(Answer(value, descriptors))

    def kill(self) -> None:
        """End it at once."""
        self._close()
        self._popen.kill()
        self._popen.wait()

    async def stop(self) -> None:
        """End it."""
        self._close()
        try:
            await asyncio.to_thread(self._popen.wait, _STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            await asyncio.to_thread(self._popen.wait)

    def _close(self) -> None:
        if self.has_ended:
            return
        self._loop.remove_reader(self._connection)
        self._loop.remove_writer(self._connection)
        self._connection.close()
        while self._backlog:
            _close_all(self._backlog.popleft()[1])
        for answered in self._answers.values():
            if not answered.done():
                answered.set_exception(ProgramEndedError("it has ended"))
                # The caller may have been cancelled; asyncio reports an error that no caller reads.
                answered.exception()
        self._answers.clear()


def _close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
