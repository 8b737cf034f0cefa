"""The controller's memory: how much there may be, how much there is, and what is promised.

Called by the worker, which gives each decision a ``MemoryBudget`` and notes what came of it. A
Framework that is admitted takes its memory bit by bit: until its Pods exist, what they are
estimated to take is promised to it and to no other. Whether a Framework waits is decided in
``core/limits.py``. Only this module reads /proc and cgroups.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from controller.core.limits import estimate_memory_bytes
from controller.core.snapshot import MemoryBudget
from controller.workqueue import split_namespace
from framework.api.states import FrameworkState, TaskState
from framework.api.types import FrameworkStatus

# cgroup v1 writes a number close to 2 to the power of 63 where there is no limit.
_NO_LIMIT = 1 << 60
_PERCENT = 100


class MemoryLedger:
    """What Frameworks have been promised of the memory up to a share of the limit."""

    def __init__(
        self,
        limit_bytes: int | None,
        percent: int,
        read_used_bytes: Callable[[], int],
    ) -> None:
        """Start with nothing promised.

        Args:
            limit_bytes: beyond this the kernel ends the process; None for no limit.
            percent: the share of it that Frameworks may fill.
            read_used_bytes: tells what this process uses now.
        """
        self._limit_bytes = limit_bytes
        self._budget_bytes = (limit_bytes or 0) * percent // _PERCENT
        self._read_used_bytes = read_used_bytes
        self._promised: dict[str, int] = {}
        self._promised_bytes = 0
        self._by_namespace: Counter[str] = Counter()
        self._unfinished: set[str] = set()

    def look(self, key: str) -> MemoryBudget | None:
        """Tell what there is for one Framework; None for no limit."""
        if self._limit_bytes is None:
            return None
        others = self._promised_bytes - self._promised.get(key, 0)
        used = self._read_used_bytes()
        free = self._budget_bytes - used - others
        reserve = (self._limit_bytes - self._budget_bytes) // 2
        if len(self._unfinished) == int(key in self._unfinished):
            # Nothing else would end and make room: what is in use may be memory that Python keeps
            # for itself. So one Framework goes on with half of what is beyond the share.
            free = max(free, reserve)
        elif free < reserve:
            # One namespace may have all promises for ever, where a quota keeps its Pods away. Of
            # what it was promised and does not use, the others share as much as the reserve.
            most = self._find_most_promised(split_namespace(key))
            free = max(free, min(free, reserve - others) + most)
        return MemoryBudget(self._limit_bytes, self._budget_bytes, max(0, free))

    def note(self, key: str, status: FrameworkStatus | None) -> None:
        """Note the newest status of a Framework: its Tasks without a Pod need more memory."""
        if self._limit_bytes is None or status is None:
            return
        if status.state is FrameworkState.COMPLETED or not status.attempt_status.task_roles:
            self.forget(key)
            return
        self._unfinished.add(key)
        pending = sum(
            task.state is TaskState.ATTEMPT_CREATION_PENDING
            for _, task in status.attempt_status.walk_tasks()
        )
        self._promise(key, estimate_memory_bytes(pending))

    def forget(self, key: str) -> None:
        """Promise nothing more to a Framework that is over or gone."""
        self._unfinished.discard(key)
        self._promise(key, 0)

    def _find_most_promised(self, namespace: str) -> int:
        """Find the most that a namespace was promised; 0 if that is this one."""
        most = max(self._by_namespace, key=lambda name: self._by_namespace[name], default=namespace)
        return 0 if most == namespace else self._by_namespace[most]

    def _promise(self, key: str, count: int) -> None:
        change = count - self._promised.pop(key, 0)
        self._promised_bytes += change
        namespace = split_namespace(key)
        self._by_namespace[namespace] += change
        if not self._by_namespace[namespace]:
            del self._by_namespace[namespace]
        if count:
            self._promised[key] = count


# Keeps no account: for a controller without a limit.
UNLIMITED = MemoryLedger(None, _PERCENT, lambda: 0)


def read_used_bytes(proc: Path = Path("/proc")) -> int:
    """Read the resident memory of this process; 0 where it cannot be read."""
    try:
        pages = int((proc / "self" / "statm").read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def find_limit_bytes(
    proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")
) -> int | None:
    """Find the lowest memory limit of this process's cgroups, v1 or v2; None if there is none."""
    limits = [limit for file in _list_limit_files(proc, cgroups) if (limit := _read_limit(file))]
    return min(limits, default=None)


def _list_limit_files(proc: Path, cgroups: Path) -> Iterator[Path]:
    try:
        lines = (proc / "self" / "cgroup").read_text("utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            yield from _walk_up(cgroups, path, "memory.max")
        elif "memory" in controllers.split(","):
            yield from _walk_up(cgroups / "memory", path, "memory.limit_in_bytes")


def _walk_up(root: Path, path: str, name: str) -> Iterator[Path]:
    """Walk from a cgroup to the root: a limit of any of them holds.

    In a container only the root may be there, whatever the path says.
    """
    inner = [part for part in path.split("/") if part not in ("", "..")]
    for length in range(len(inner), -1, -1):
        yield root.joinpath(*inner[:length], name)


def _read_limit(file: Path) -> int | None:
    try:
        limit = int(file.read_text("ascii"))
    except (OSError, ValueError):
        return None
    return limit if 0 < limit < _NO_LIMIT else None
