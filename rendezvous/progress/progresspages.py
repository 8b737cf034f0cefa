"""The processes of this Pod that report progress: their pages, and their stacks.

``observe`` reads at most 32 pages. ``take_stacks`` sends each process the signal for which it has
registered its stacks, never a process without a handler, which would end. A process that does not
react within 2 s has no stack.

Any process of the Pod may replace the folder, and the agent may be root. So each use opens the
folder once, never through a link, and opens its files relative to that descriptor.
"""

import contextlib
import os
from collections import deque
from itertools import islice
from typing import Callable, Deque, Dict, Iterator, List, Optional, Tuple

from framework.agent.clock import AgentClock
from framework.agent.report import LineReporter
from rendezvous.core.hangs.reports import BUSY_WINDOW_SECONDS, MAX_PROCESSES, ProcessReport
from rendezvous.process.processes import read_stat
from rendezvous.process.signalling import is_caught
from rendezvous.progress.stacks import Stacks, empty_stacks, get_size, is_whole, read_stacks
from rendezvous.progress.steptext import StepText
from rendezvous.settings.progresspattern import TextStep
from rendezvous.site.peers.reporting.progress_page import (
    DIRECTORY,
    START_FIELD,
    Page,
    find_stacks,
    read_page,
)

_MAX_FILES = 1024
_MAX_STATUS_BYTES = 4096
_MAX_PAUSE_SECONDS = 7 * 86400.0
_MAX_WINDOW = 64
_STACKS_SECONDS = 2.0
_LOOK_SECONDS = 0.05
# As for /tmp: each user may create files, and remove only their own.
_OPEN_TO_ALL = 0o1777


class _Seen:
    """The pages of a process over time."""

    def __init__(self, page: Page, now: float) -> None:
        self.page = page
        self.changed_at = now
        self.moved_at: Optional[float] = None
        # When the current end of the pause was first seen.
        self.paused_at = now
        self.stack = ""
        self.window: Deque[Tuple[float, int, float]] = deque(maxlen=_MAX_WINDOW)


class ProgressPages:
    """The pages of one Pod. One thread uses it; only ``begin_command`` is called by another."""

    def __init__(
        self,
        directory: str,
        get_rank: Callable[[], int],
        reporter: LineReporter,
        clock: AgentClock,
        read_text: Callable[[], Optional[TextStep]] = lambda: None,
        text_setting: str = "",
    ) -> None:
        """Read the pages in the volume ``directory``; ``get_rank`` returns the rank of the Pod.

        ``read_text`` returns the step of processes without pages, from a file or their output.
        ``text_setting`` is the setting that says so; "" if there is none.
        """
        self._directory = os.path.join(directory, DIRECTORY)
        self._get_rank = get_rank
        self._text = StepText(read_text, text_setting, reporter)
        self._reporter = reporter
        self._clock = clock
        self._seen: Dict[int, _Seen] = {}
        self._newest: Dict[int, _Seen] = {}
        # When a process with a page was last seen: it may have declared a pause for the others.
        self._paged_at = float("-inf")
        self.is_command_running: Callable[[], bool] = lambda: True
        self._started_at = clock.monotonic()

    def begin_command(self) -> None:
        """Forget the processes of the earlier command: a new command starts now."""
        self._started_at, self._seen, self._newest = self._clock.monotonic(), {}, {}
        self._paged_at = float("-inf")
        self._text.begin_command()
        # A process may run as another user than the agent, so the folder has the mode of /tmp.
        with contextlib.suppress(OSError):
            os.makedirs(self._directory, exist_ok=True)
        with self._open_folder() as folder:
            if folder:
                with contextlib.suppress(OSError):
                    os.chmod(folder, _OPEN_TO_ALL)
            for name in _list_files(folder):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(folder, name))

    def observe(self) -> Tuple[ProcessReport, ...]:
        """Report the processes; none if no command runs, or if all reporting processes have ended.

        Until the command has a page, the Pod is reported as one process before its first step. If
        its steps come from a file or its output, this report is used whenever there is no page.
        """
        if not self.is_command_running():
            return ()
        now, seen = self._clock.monotonic(), self._seen
        running: Dict[int, _Seen] = {}
        with self._open_folder() as folder:
            for name in _list_pages(folder):
                page = _read_running(folder, name) if len(running) < MAX_PROCESSES else None
                if page is not None:
                    running[page.pid] = _follow(seen.get(page.pid), page, now)
        if seen is self._seen:
            self._seen = running
            if running:
                self._newest, self._paged_at = running, now
        if not running:
            has_ended = self._newest and not self._text.describe()
            return () if has_ended else (self._report_text(now),)
        return tuple(self._report(each, now) for each in running.values())

    def observe_last(self) -> Tuple[ProcessReport, ...]:
        """Report the last steps of the processes, which have ended."""
        now, last = self._clock.monotonic(), []
        with self._open_folder() as folder:
            # If none was seen running, the command was shorter than the pause between two reads.
            names = [seen.page.name for seen in self._newest.values()] or _list_pages(folder)
            for name in islice(names, MAX_PROCESSES):
                page = read_page(os.path.join(folder, name)) if folder else None
                if page is not None:
                    seen = _follow(self._newest.get(page.pid), page, now)
                    last.append(self._report(seen, now))
        return tuple(last) or (self._report_text(now),)

    def _report_text(self, now: float) -> ProcessReport:
        step, total, changed_at, moved_at = self._text.observe(self._started_at, now)
        return ProcessReport(
            self._get_rank(),
            step,
            total,
            max(0.0, now - max(changed_at, self._paged_at)),
            moved_seconds=None if moved_at is None else now - moved_at,
        )

    def take_stacks(self) -> None:
        """Print the stacks of all processes, and remember the stacks of their main threads."""
        with self._open_folder() as folder:
            if folder:
                self._take_stacks(folder)

    def _take_stacks(self, folder: str) -> None:
        asked: Dict[int, str] = {}
        for pid, each in self._seen.items():
            path = find_stacks(os.path.join(folder, each.page.name))
            if _is_stopped(pid):
                self._reporter.say(f"stacks of process {pid}: none, it is stopped")
            elif not each.page.signal or not is_caught(pid, each.page.signal):
                self._reporter.say(
                    f"stacks of process {pid}: none, it has another handler of the signal"
                )
            elif not empty_stacks(path, pid):
                self._reporter.say(f"stacks of process {pid}: none, their file is not its own")
            else:
                with contextlib.suppress(OSError):
                    os.kill(pid, each.page.signal)
                    asked[pid] = path
        deadline = self._clock.monotonic() + _STACKS_SECONDS
        sizes: Dict[int, int] = {}
        while self._clock.monotonic() < deadline:
            self._clock.sleep(_LOOK_SECONDS)
            before, sizes = sizes, {pid: get_size(path) for pid, path in asked.items()}
            if sizes == before and all(map(is_whole, asked.values())):
                break
        for pid, path in asked.items():
            self._keep(pid, read_stacks(path))
        if not self._seen:
            why = self._text.describe() or "no running process has called peers.progress"
            self._reporter.say(f"stacks: none, {why}")

    def _keep(self, pid: int, stacks: Stacks) -> None:
        if pid in self._seen:
            self._seen[pid].stack = stacks.main
        text = "" if stacks.lines else ": none, it does not react"
        self._reporter.say(f"stacks of process {pid}, the newest call first{text}")
        for line in stacks.lines:
            self._reporter.say(f"[{pid}] {line}")

    def _report(self, seen: _Seen, now: float) -> ProcessReport:
        page = seen.page
        paused_until = min(page.paused_until, seen.paused_at + _MAX_PAUSE_SECONDS)
        active_at = max(seen.changed_at, paused_until if paused_until <= now else 0.0)
        return ProcessReport(
            rank=page.rank if page.rank >= 0 else self._get_rank(),
            step=page.step,
            total=page.total,
            quiet_seconds=max(0.0, now - active_at),
            pause_seconds=max(0.0, paused_until - now),
            is_stopped=_is_stopped(page.pid),
            stack=seen.stack,
            busy_seconds=_compute_busy(seen),
            moved_seconds=None if seen.moved_at is None else now - seen.moved_at,
        )

    @contextlib.contextmanager
    def _open_folder(self) -> Iterator[str]:
        """Open the folder; return a path that no other process can replace."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(self._directory, flags)
        except FileNotFoundError:
            yield ""
            return
        except OSError as e:
            self._reporter.say_once(f"progress: the pages are not read: {e}", "warning")
            yield ""
            return
        try:
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)


def _list_files(folder: str) -> List[str]:
    if not folder:
        return []
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in islice(entries, _MAX_FILES))
    except OSError:
        return []


def _list_pages(folder: str) -> List[str]:
    """List the names of the pages, one for each process; a name with its user is preferred."""
    names: Dict[str, str] = {}
    for name in _list_files(folder):  # "12" comes before "12.1000"
        pid, _, user = name.partition(".")
        if _is_id(pid) and (name == pid or _is_of_user(folder, name, pid, user)):
            names[pid] = name
    return list(names.values())


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and not text.startswith("0")


def _is_of_user(folder: str, name: str, pid: str, user: str) -> bool:
    """Return whether a process has this user, and the file belongs to this user."""
    if not user.isdigit():
        return False
    try:
        owner = str(os.stat(os.path.join(folder, name), follow_symlinks=False).st_uid)
        with open(f"/proc/{pid}/status", "rb") as file:
            fields = file.read(_MAX_STATUS_BYTES).partition(b"\nUid:")[2].split(None, 2)
    except OSError:
        return False
    return owner == user and fields[1:2] == [user.encode()]


def _follow(seen: Optional[_Seen], page: Page, now: float) -> _Seen:
    if seen is None:
        seen = _Seen(page, now)
    elif page.step != seen.page.step:
        seen.moved_at = None if seen.page.step is None else seen.changed_at
        seen.changed_at, seen.stack = now, ""
    if page.paused_until != seen.page.paused_until:
        seen.paused_at = now
    if page.step is not None and (not seen.window or page.step != seen.page.step):
        seen.window.append((now, page.step, page.busy_seconds))
    while len(seen.window) > 2 and now - seen.window[0][0] > BUSY_WINDOW_SECONDS:  # noqa: PLR2004  (a span)
        seen.window.popleft()
    seen.page = page
    return seen


def _compute_busy(seen: _Seen) -> float:
    """Compute the mean time of a step in the last minute, without the wait for other ranks."""
    if not seen.window:
        return 0.0
    _, first, busy_before = seen.window[0]
    _, last, busy_after = seen.window[-1]
    steps, busy = last - first, busy_after - busy_before
    return busy / steps if steps > 0 and busy > 0 else 0.0


def _read_running(folder: str, name: str) -> Optional[Page]:
    """Read the page of a process; None if it has ended, or another process has its id now."""
    fields = read_stat(int(name.partition(".")[0]))
    if len(fields) <= START_FIELD or fields[0] in {b"Z", b"X"}:
        return None
    page = read_page(os.path.join(folder, name))
    if page is None or page.started not in {0, int(fields[START_FIELD])}:
        return None
    return page


def _is_stopped(pid: int) -> bool:
    return (read_stat(pid) or [b"X"])[0] in {b"T", b"t"}
