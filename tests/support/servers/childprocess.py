"""Child processes of tests: ended by the id they were started with, never left behind."""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.waiting import HANG_SECONDS

TAIL_BYTES = 2000
_PR_SET_PDEATHSIG = 1


class ChildError(Exception):
    """A child ended or was not ready; the message holds the end of its log."""


class ChildProcess:
    """One program in its own process group, so that Ctrl-C reaches it only through us."""

    def __init__(
        self, name: str, command: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as stream:
            self._popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env=None if env is None else dict(env),
                start_new_session=True,
                preexec_fn=_die_with_parent if _LIBC is not None else None,  # noqa: PLW1509 one call
            )

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its group."""
        return self._popen.pid

    def is_running(self) -> bool:
        return self._popen.poll() is None

    def raise_if_ended(self) -> None:
        """Raise with the end of the log if the child is no more."""
        code = self._popen.poll()
        if code is not None:
            raise ChildError(f"{self.name} ended with {code}\n{self.tail()}")

    def tail(self) -> str:
        return self.log.read_bytes()[-TAIL_BYTES:].decode(errors="replace")

    def terminate(self) -> int:
        """Ask to end, kill when that takes too long; give the exit code."""
        if self.is_running():
            self._popen.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self._popen.wait(HANG_SECONDS)
        return self.kill()

    def kill(self) -> int:
        """Kill the whole group and reap the child."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        return self._popen.wait()


def find_free_ports(count: int) -> list[int]:
    """Find ports of 127.0.0.1 that were free a moment ago, all different."""
    with contextlib.ExitStack() as stack:
        ports = []
        for _ in range(count):
            listener = stack.enter_context(socket.socket())
            listener.bind(("127.0.0.1", 0))
            ports.append(int(listener.getsockname()[1]))
        return ports


_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def _die_with_parent() -> None:
    """Have the kernel kill the child if the tests are killed. Runs between fork and exec."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
