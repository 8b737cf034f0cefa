"""Child processes of an agent that may be PID 1. It also reaps the orphans that it inherits.

``subprocess`` does not wait for these children: ``reap`` would take their exit codes from it.
"""

import contextlib
import os
import signal
import subprocess
import threading
from typing import IO, Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Set

from framework.agent.clock import AgentClock
from framework.agent.signals import SIGNAL_EXIT_BASE
from rendezvous.process.processes import list_processes, read_stat

_FIRST_LOOK_SECONDS = 0.001
_LOOK_SECONDS = 0.05
_LEFTOVER_ROUNDS = 100
_PR_SET_CHILD_SUBREAPER = 36
_NOT_FOUND_CODE = 127
_NOT_EXECUTABLE_CODE = 126


class StartError(Exception):
    """A command cannot be started; ``exit_code`` is that of a shell in this case."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Pipes(NamedTuple):
    """A child with pipes as its streams. The caller closes the descriptors."""

    pid: int
    stdin: int
    stdout: int
    stderr: int


class Children:
    """Starts, awaits and reaps child processes."""

    def __init__(self, clock: AgentClock) -> None:
        """Start without children."""
        self._clock = clock
        self._changed = threading.Condition()
        self._awaited: Set[int] = set()
        self._codes: Dict[int, int] = {}
        self._on_end: Dict[int, Callable[[], None]] = {}

    def start(
        self,
        argv: List[str],
        env: Mapping[str, str],
        stdin: Optional[bytes] = None,
        output: Optional[int] = None,
        errors: Optional[int] = None,
    ) -> int:
        """Start a command in a session of its own; return its id.

        Args:
            argv: the command.
            env: its variables.
            stdin: its input; None: the input of the agent.
            output: descriptor of its output; None: the output of the agent.
            errors: descriptor of its errors; None: its output.

        Raises:
            StartError: There is no such program, or it cannot be executed.
        """
        with self._changed:
            pipe = None if stdin is None else subprocess.PIPE
            stderr = output if errors is None else errors
            child = self._open(argv, env, stdin=pipe, stdout=output, stderr=stderr)
        if child.stdin is not None:
            # A thread, because a command that never reads its input must not block the agent.
            feed = threading.Thread(target=_feed, args=(child.stdin, stdin), daemon=True)
            feed.start()
        return child.pid

    def start_piped(
        self, argv: List[str], env: Mapping[str, str], on_end: Callable[[], None]
    ) -> Pipes:
        """Start a command in a session of its own, with pipes as its streams.

        The thread that reaps it calls ``on_end`` once; it must return at once.

        Raises:
            StartError: There is no such program, or it cannot be executed.
        """
        with self._changed:
            pipe = subprocess.PIPE
            child = self._open(argv, env, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0)
            self._on_end[child.pid] = on_end
        streams = child.stdin, child.stdout, child.stderr
        # The caller closes the pipes, in an order of its own.
        stdin, stdout, stderr = (os.dup(stream.fileno()) for stream in streams if stream)
        for stream in streams:
            if stream:
                stream.close()
        return Pipes(child.pid, stdin, stdout, stderr)

    def _open(
        self, argv: List[str], env: Mapping[str, str], **options: Any
    ) -> "subprocess.Popen[bytes]":
        try:
            child = subprocess.Popen(argv, env=dict(env), start_new_session=True, **options)
        except FileNotFoundError as e:
            raise StartError(f"{argv[0]}: no such program", _NOT_FOUND_CODE) from e
        except (OSError, ValueError) as e:
            raise StartError(f"{argv[0]}: {e}", _NOT_EXECUTABLE_CODE) from e
        self._awaited.add(child.pid)
        child.returncode = 0  # so that subprocess never waits for it: ``reap`` does
        return child

    def reap(self) -> None:
        """Reap all children that have ended."""
        with self._changed:
            while True:
                try:
                    pid, status = os.waitpid(-1, os.WNOHANG)
                except ChildProcessError:
                    return
                if pid == 0:
                    return
                if pid in self._awaited:
                    self._codes[pid] = _translate(status)
                    self._changed.notify_all()
                    self._on_end.pop(pid, _do_nothing)()

    def take_code(self, pid: int) -> Optional[int]:
        """Return the exit code of a reaped child, once; None if it was not reaped."""
        with self._changed:
            code = self._codes.pop(pid, None)
            if code is not None:
                self._awaited.discard(pid)
            return code

    def wait(self, pid: int, seconds: float) -> Optional[int]:
        """Wait for a child; None if it has not ended in time."""
        deadline = self._clock.monotonic() + seconds
        pause = _FIRST_LOOK_SECONDS
        while True:
            self.reap()
            code = self.take_code(pid)
            left = deadline - self._clock.monotonic()
            if code is not None or left <= 0:
                return code
            with self._changed:
                if pid not in self._codes:
                    self._changed.wait(min(left, pause))
            pause = min(2 * pause, _LOOK_SECONDS)

    def kill(self, pid: int, number: int = signal.SIGKILL) -> None:
        """Send a signal to a child that was not reaped yet.

        A child that has become another user (sudo) may not be signalled. The agent still waits for
        its end.
        """
        with self._changed, contextlib.suppress(PermissionError):
            if pid in self._awaited and pid not in self._codes:
                os.kill(pid, number)

    def signal_group(self, pid: int, number: int) -> None:
        """Send a signal to the process group of a child that was not reaped yet."""
        with self._changed, contextlib.suppress(PermissionError, ProcessLookupError):
            if pid in self._awaited and pid not in self._codes:
                os.killpg(pid, number)

    def kill_session(self, pid: int) -> None:
        """Kill the process group of a child, also after the child itself has ended."""
        try:
            os.killpg(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return

    def kill_leftovers(self, *, with_piped: bool = False) -> bool:
        """Kill the processes that a child has left behind when it ended, in any session.

        They are orphans, so they are children of this process: PID 1, or the subreaper.

        Args:
            with_piped: whether to kill also the children of ``start_piped``: remote commands.

        Returns:
            Whether all are gone. A process that waits in the kernel, for example for a device, is
            not.
        """
        for _ in range(_LEFTOVER_ROUNDS):
            self.reap()
            with self._changed:
                spared = self._awaited - self._on_end.keys() if with_piped else self._awaited
                left = [pid for pid in _list_children() if pid not in spared]
                for pid in left:
                    with contextlib.suppress(OSError):
                        os.kill(pid, signal.SIGKILL)
            if not left:
                return True
            self._clock.sleep(_FIRST_LOOK_SECONDS)
        return False


def become_subreaper() -> None:
    """Inherit the orphans of the own descendants. PID 1 inherits them without this."""
    if os.getpid() == 1:
        return
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _list_children() -> List[int]:
    """List the running children of this process."""
    found = []
    for pid in list_processes():
        state, parent, *_ = read_stat(pid) or (b"X", b"0")
        if int(parent) == os.getpid() and state not in {b"Z", b"X"}:
            found.append(pid)
    return found


def _do_nothing() -> None:
    """Do nothing: no caller waits for the end of this child."""


def _feed(pipe: IO[bytes], content: bytes) -> None:
    with contextlib.suppress(OSError), pipe:
        pipe.write(content)


def _translate(status: int) -> int:
    """Translate a wait status as shells do."""
    if os.WIFSIGNALED(status):
        return SIGNAL_EXIT_BASE + os.WTERMSIG(status)
    return os.WEXITSTATUS(status)
