"""The program that forks the supervisors of all containers.

A fork costs a small part of the start of a Python program. ``forkserver_process`` starts this one
and sends requests:

    start     with the open files that ``run_supervisor`` takes. The answer comes at the end of the
              supervisor: its exit code, or the negative number of the signal that ended it.
    signal    with the number of a start request, and of a signal. It has no answer.

It ends with the kubelet. Its end kills every container, because supervisors ask for a signal at the
death of their parent. Signals are sent here, where a process that has ended keeps its number until
it is reaped, so that no other process gets them.

Single-threaded and standard library only: a fork copies one thread, and all that is imported.
"""

import gc
import os
import select
import signal
import socket
import sys

from localcluster import messages, syscalls
from localcluster.kubelet.container import launcher


def main() -> None:
    """Serve the parent process until it ends."""
    parent, control = map(int, sys.argv[-2:])
    syscalls.end_with_parent(parent)
    # The present objects are never garbage; a collection in a child would copy their memory.
    gc.freeze()
    with socket.socket(fileno=control) as connection:
        ForkServer(connection).serve()


class ForkServer:
    """The supervisors that run, by the numbers of their requests."""

    def __init__(self, connection: socket.socket) -> None:
        """Serve a connection."""
        self._connection = connection
        self._wakeup = launcher.open_wakeup({signal.SIGCHLD})
        self._pids: dict[int, int] = {}
        self._numbers: dict[int, int] = {}

    def serve(self) -> None:
        """Serve until the connection ends."""
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        poll.register(self._wakeup, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == self._wakeup:
                    os.read(self._wakeup, 4096)
                    self._reap()
                elif not self._serve_request():
                    return

    def _serve_request(self) -> bool:
        """Serve the next request; return False if there will be none."""
        request, descriptors = messages.receive(self._connection)
        if request is None:
            return False
        number, verb, arguments = request
        if verb == "start":
            self._start(number, descriptors)
        else:
            self._signal(*arguments)
        for descriptor in descriptors:
            os.close(descriptor)
        return True

    def _start(self, number: int, descriptors: "list[int]") -> None:
        parent = os.getpid()
        signal.pthread_sigmask(signal.SIG_BLOCK, launcher.WAITED)
        try:
            pid = os.fork()
        except OSError as error:
            launcher.report(descriptors[4], {"error": f"fork: {error.strerror}"})
            self._answer(number, launcher.START_FAILED)
        else:
            if pid == 0:
                self._connection.close()
                launcher.close_wakeup(self._wakeup)
                launcher.run_supervisor(parent, descriptors)
            self._pids[number] = pid
            self._numbers[pid] = number
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, launcher.WAITED)

    def _signal(self, number: int, sent: int) -> None:
        pid = self._pids.get(number)
        if pid is not None:
            os.kill(pid, sent)

    def _reap(self) -> None:
        while self._numbers:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            number = self._numbers.pop(pid)
            del self._pids[number]
            self._answer(number, os.waitstatus_to_exitcode(status))

    def _answer(self, number: int, code: int) -> None:
        messages.send(self._connection, (number, code, None), [])
