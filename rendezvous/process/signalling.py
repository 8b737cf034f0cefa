"""Signals that notify a process of a change, sent when the process is ready for them.

Training code imports for seconds before it has a handler. Until then SIGHUP, SIGUSR1 and similar
signals would end it. So a thread waits before it sends such a signal:

1. Read the masks of the process. It is ready if it catches, ignores or blocks the signal, or waits
   for it by ``sigwait``.
2. A process that blocks all signals is not ready: shells and ``posix_spawn`` do so for the moment
   in which they start a program, and the signal would end that program.
3. Read again every 50 ms. After 20 reads in a row with all signals blocked, the process counts as
   ready.
4. Send the signal, unless the process has ended meanwhile.
"""

import signal
import threading
from typing import Callable, Dict, Set, Tuple

from framework.agent.clock import AgentClock
from framework.agent.report import LineReporter
from rendezvous.process.processes import read_file, read_stat

_LOOK_SECONDS = 0.05
# Without a handler, these signals end a process.
_NOTIFYING = {signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM}
_BLOCKED, _IGNORED, _CAUGHT = b"SigBlk", b"SigIgn", b"SigCgt"
# Reads of a process that blocks all signals; far more than the start of a program needs.
_LAST_LOOK = 20
_START_TIME_FIELD = 19  # after the name
_SIGWAIT = b"sigtimedwait"


class Signaller:
    """Sends one signal to processes."""

    def __init__(
        self, number: int, send: Callable[[int], None], reporter: LineReporter, clock: AgentClock
    ) -> None:
        """Send signal ``number`` by ``send``, which takes the process id and does not raise."""
        self._number = number
        self._send = send
        self._reporter = reporter
        self._clock = clock
        self._lock = threading.Lock()
        # With the start time: another process may get the id of a process that has ended.
        self._waiting: Set[Tuple[int, bytes]] = set()

    def signal(self, pid: int) -> None:
        """Send it now, or once as soon as the process has a handler."""
        started = _read_start_time(pid)
        if is_ready(pid, self._number):
            self._send(pid)
            return
        with self._lock:
            if (pid, started) in self._waiting:
                return
            threading.Thread(target=self._wait, args=(pid, started), daemon=True).start()
            self._waiting.add((pid, started))
        name = signal.Signals(self._number).name
        text = f"{name}: process {pid} has no handler for it yet and gets it when it has"
        self._reporter.say_once(text)

    def _wait(self, pid: int, started: bytes) -> None:
        looks = 0
        while _read_start_time(pid) == started != b"" and not is_ready(pid, self._number):
            looks = looks + 1 if _blocks_all(_read_masks(pid)) else 0
            if looks > _LAST_LOOK:
                break
            self._clock.sleep(_LOOK_SECONDS)
        with self._lock:
            self._waiting.discard((pid, started))
        if _read_start_time(pid) == started != b"":
            self._send(pid)


def is_ready(pid: int, number: int) -> bool:
    """Return whether a signal may be sent to a process; True if /proc does not say."""
    if number not in _NOTIFYING and not signal.SIGRTMIN <= number <= signal.SIGRTMAX:
        return True
    masks = _read_masks(pid)
    harmless = (_IGNORED, _CAUGHT) if _blocks_all(masks) else (_IGNORED, _CAUGHT, _BLOCKED)
    if not masks or any(_holds(masks, name, number) for name in harmless):
        return True
    # During sigwait, the kernel shows the signal as neither blocked nor caught.
    return _SIGWAIT in read_file(pid, "wchan")


def is_caught(pid: int, number: int) -> bool:
    """Return whether a process has a handler for a signal."""
    return _holds(_read_masks(pid), _CAUGHT, number)


def _read_masks(pid: int) -> Dict[bytes, int]:
    """Read which signals a process blocks, ignores and catches; {} if it has ended."""
    pairs = [line.partition(b":")[::2] for line in read_file(pid, "status").splitlines()]
    return {name: int(mask, 16) for name, mask in pairs if name in {_BLOCKED, _IGNORED, _CAUGHT}}


def _blocks_all(masks: Dict[bytes, int]) -> bool:
    """Return whether all signals are blocked: no program blocks SIGSEGV alone."""
    return _holds(masks, _BLOCKED, signal.SIGSEGV)


def _holds(masks: Dict[bytes, int], name: bytes, number: int) -> bool:
    return bool(masks.get(name, 0) >> (number - 1) & 1)


def _read_start_time(pid: int) -> bytes:
    """Read when a process was started; b"" if it has ended."""
    fields = read_stat(pid)
    is_running = len(fields) > _START_TIME_FIELD and fields[0] not in {b"Z", b"X"}
    return fields[_START_TIME_FIELD] if is_running else b""
