"""``progress`` and ``pause``: the progress of this process, for the agent of its Pod.

A call sends nothing and starts no thread, and only the first call opens a file: values are copied
into a page of memory that the agent reads (``progress_page``). So a call takes a few microseconds.
If there is no volume, or it cannot be written, the first call logs a warning, and calls do nothing.

The first call registers ``STACKS_SIGNAL`` for the stacks of all threads, unless the program has a
handler for it.
"""

import contextlib
import errno
import faulthandler
import json
import mmap
import os
import signal
import threading
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ..generations import find_current
from ..logs import log
from . import progress_page
from .progress_page import MAX_STEP, NONE, STACKS_SIGNAL, STEP, STEP_OFFSET

_METRICS_SECONDS = 1.0
_MAX_NAME = 64
_LAST_SECOND = 1e18


def progress(step: int, total: Optional[int] = None, **metrics: float) -> None:
    """Report how many steps this process has done.

    Args:
        step: at least 0; it counts up. A number below the last one is a new start. The number of
            the last step, from 0 to ``total - 1``, works, too.
        total: how many steps there are, if that is known.
        metrics: numbers, at most 16; others are ignored. They are stored at most once per second.
            ``busy_seconds`` has a meaning: how long this step took without the wait for other
            ranks. It shows which rank is slow if all ranks end a step together.
    """
    page = _pages[0] if _pages else _open_page()
    if page is not None:
        with page.writing:
            page.write_step(step, total, metrics)


@contextlib.contextmanager
def pause(name: str, limit_seconds: float) -> Iterator[None]:
    """Declare that no step ends for a while: a checkpoint, an evaluation, a compilation.

    The gang does not count as hung until ``limit_seconds`` have passed, or this block ends. Pauses
    may be nested, and those of several threads may overlap: the latest end counts.
    """
    page = _pages[0] if _pages else _open_page()
    if page is None:
        yield
        return
    pause_of_this_block = page.open_pause(name, time.monotonic() + limit_seconds)
    try:
        yield
    finally:
        # A child that was forked inside this block has another page.
        if _pages and _pages[0] is page:
            page.close_pause(pause_of_this_block)


class _OpenPage:
    """The page of this process."""

    def __init__(self, page: Any, stacks: Optional[int]) -> None:
        self._page = page
        self._stacks = stacks
        self._sequence = 0
        self._step = NONE
        self._total = NONE
        self._busy = 0.0
        self._stepped_at = 0.0
        self._metrics_at = 0.0
        self._paused_until = 0.0
        self._pauses: Dict[object, Tuple[str, float]] = {}
        # Reentrant: a signal handler may report during a report of its thread.
        self.writing = threading.RLock()

    def close(self) -> None:
        """Give back the signal and the descriptors; the page stays."""
        if self._stacks is not None:
            faulthandler.unregister(STACKS_SIGNAL)
            os.close(self._stacks)
        self._page.close()

    def write_step(self, step: int, total: Optional[int], metrics: Any) -> None:
        now = time.monotonic()
        if metrics:
            busy = _to_seconds(metrics.get("busy_seconds"))
            if now - self._metrics_at >= _METRICS_SECONDS:
                self._metrics_at = now
                self._write_metrics(metrics)
        else:
            busy = None
        if busy is None:
            # A pause does not belong to a step.
            since = max(self._stepped_at, min(self._paused_until, now))
            busy = now - since if self._stepped_at else 0.0
        self._busy += busy
        self._stepped_at = now
        self._step = int(step) if 0 <= step < MAX_STEP else NONE
        self._total = int(total) if total is not None and 0 <= total < MAX_STEP else NONE
        self._write()

    def open_pause(self, name: str, until: float) -> object:
        key = object()
        with self.writing:
            self._pauses[key] = name, min(until, _LAST_SECOND)
            self._write_pauses(0.0)
        return key

    def close_pause(self, key: object) -> None:
        with self.writing:
            del self._pauses[key]
            # Not at 0: the time until the next step counts from now.
            self._write_pauses(time.monotonic())

    def _write_pauses(self, earliest: float) -> None:
        pauses = list(self._pauses.values())
        name = pauses[-1][0] if pauses else ""
        self._paused_until = max([earliest, *(until for _, until in pauses)])
        text = name[:_MAX_NAME].encode("utf-8", "replace")[: progress_page.PAUSE_BYTES]
        progress_page.write_text(
            self._page, progress_page.PAUSE_OFFSET, progress_page.PAUSE_BYTES, text
        )
        self._write()

    def _write(self) -> None:
        self._sequence = number = self._sequence + 1
        STEP.pack_into(
            self._page,
            STEP_OFFSET,
            number,
            self._step,
            self._total,
            self._busy,
            self._paused_until,
            number,
        )

    def _write_metrics(self, metrics: Any) -> None:
        kept = {}
        for name, value in list(metrics.items())[: progress_page.MAX_METRICS]:
            with contextlib.suppress(TypeError, ValueError, OverflowError):
                kept[str(name)[:_MAX_NAME]] = float(value)
        progress_page.write_text(
            self._page,
            progress_page.METRICS_OFFSET,
            progress_page.METRICS_BYTES,
            json.dumps(kept).encode(),
        )


def _to_seconds(value: Any) -> Optional[float]:
    """Return a metric as seconds; None if it is not a valid time."""
    try:
        seconds = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return seconds if 0.0 <= seconds < MAX_STEP else None


def _open_page() -> Optional[_OpenPage]:
    """Make the page of this process; None if that is not possible, which is logged once."""
    with _opening[0]:
        if not _pages:
            _pages.append(_make_page())
        return _pages[0]


def _make_page() -> Optional[_OpenPage]:
    try:
        directory = os.path.join(os.path.dirname(find_current()), progress_page.DIRECTORY)
        os.makedirs(directory, exist_ok=True)
        path = os.path.join(directory, str(os.getpid()))
        if not _remove(path):
            path += f".{os.geteuid()}"
            _remove(path)
        page = _map(path)
        stacks = _take_signal(progress_page.find_stacks(path))
    except (OSError, ValueError) as e:
        log.warning("progress: not reported: %s", e)
        return None
    rank = os.environ.get("RANK", "")
    number = STACKS_SIGNAL if stacks is not None else 0
    own_rank = int(rank) if rank.isdigit() and len(rank) < len(str(MAX_STEP)) else NONE
    opened = _OpenPage(page, stacks)
    opened.write_step(NONE, None, {})
    # The magic comes last: before it, this is no page.
    started = _read_start()
    progress_page.FIXED.pack_into(page, 0, progress_page.MAGIC, own_rank, number, started)
    return opened


def _read_start() -> int:
    """Read when this process was started; 0 if it is not known."""
    try:
        with open("/proc/self/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[progress_page.START_FIELD])
    except (OSError, ValueError, IndexError):
        return 0


def _remove(path: str) -> bool:
    """Remove the page of an earlier process with this id; return whether the name is free."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _map(path: str) -> Any:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o644)
    try:
        # Allocate the page now: on a full disk, a write into a hole would end this process.
        if os.write(descriptor, bytes(progress_page.PAGE_BYTES)) < progress_page.PAGE_BYTES:
            raise OSError(errno.ENOSPC, "no room for a page")
        return mmap.mmap(descriptor, progress_page.PAGE_BYTES)
    finally:
        os.close(descriptor)


def _take_signal(path: str) -> Optional[int]:
    """Register the signal for stacks; None if the program uses it, or this is not possible."""
    if not STACKS_SIGNAL or signal.getsignal(STACKS_SIGNAL) is not signal.SIG_DFL:
        return None
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        stacks = os.open(path, flags, 0o644)
    except OSError as e:
        log.warning("progress: without stacks: %s", e)
        return None
    try:
        faulthandler.register(STACKS_SIGNAL, file=stacks, all_threads=True, chain=False)
    except (AttributeError, RuntimeError, OSError, ValueError):
        os.close(stacks)
        return None
    return stacks


def _forget() -> None:
    """Let a forked child create its own page, with its first call."""
    for opened in _pages:
        if opened is not None:
            opened.close()
    _pages.clear()
    # A new lock: another thread of the parent may have held the old one.
    _opening[0] = threading.Lock()


_opening = [threading.Lock()]
_pages: List[Optional[_OpenPage]] = []
os.register_at_fork(after_in_child=_forget)
