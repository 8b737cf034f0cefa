"""Child processes of tests: ended by their process id, never left behind."""

import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.machine.processes import die_with_parent
from tests.support.waiting import HANG_SECONDS

TAIL_BYTES = 2000
# Below the ports that the kernel chooses, and those of NodePorts.
_PORTS = range(20_000, 29_000)
# Processes begin at different ports, so few ports are tried by two of them.
_FIRST = os.getpid() * 97 % len(_PORTS)
_candidates = itertools.chain(_PORTS[_FIRST:], _PORTS[:_FIRST])


class ChildError(Exception):
    """A child ended or was not ready; the message has the end of its log."""


class ChildProcess:
    """A program in its own process group, so that Ctrl-C reaches it only through the tests."""

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
                preexec_fn=die_with_parent,  # noqa: PLW1509 one call
            )

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its group."""
        return self._popen.pid

    def is_running(self) -> bool:
        return self._popen.poll() is None

    def raise_if_ended(self) -> None:
        """Raise ChildError with the end of the log if the child has ended."""
        code = self._popen.poll()
        if code is not None:
            raise ChildError(f"{self.name} ended with {code}\n{self.tail()}")

    def tail(self) -> str:
        return self.log.read_bytes()[-TAIL_BYTES:].decode(errors="replace")

    def terminate(self) -> int:
        """Terminate the child, or kill it if that takes too long; return the exit code."""
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
    """Reserve free ports for this process until it ends, all different.

    No other program takes them: the kernel gives connections and listeners other ports, and each
    process of tests on this machine reserves its ports.
    """
    ports = []
    for port in _candidates:
        if _reserve(port):
            ports.append(port)
        if len(ports) == count:
            return ports
    raise AssertionError(f"no {count} free ports in {_PORTS}")


def _reserve(port: int) -> bool:
    """Reserve a port that no program uses; return whether it is reserved."""
    with socket.socket(socket.AF_UNIX) as holder, socket.socket() as listener:
        try:
            listener.bind(("", port))
            if sys.platform == "linux":
                # An abstract name belongs to a network namespace, like a port.
                holder.bind(f"\0frameworkbarrier-test-port-{port}")
        except OSError:
            return False
        # Never closed: the name is reserved as long as this process runs.
        holder.detach()
        return True


def build_own_address(number: int) -> str:
    """Build an address of the loopback network.

    No other process of the tests has it, as long as none has a number above 249 (at most 1,249).
    """
    high, low = divmod(os.getpid() % 62_500, 250)
    return f"127.{1 + high}.{1 + low + number // 250}.{1 + number % 250}"
