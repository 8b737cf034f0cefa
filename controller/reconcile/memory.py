"""The memory of the controller: its limit, the memory in use, and the part that is promised.

The worker gives each decision a ``MemoryBudget`` and records the status that it led to.
``controller/core/policies/limits.py`` decides whether a Framework waits. The rules:

1. An admitted Framework takes its memory gradually. Until the Pods of its Tasks exist, their
   estimated memory is promised to this Framework and to no other. When the create of a Pod has
   failed, only the memory of the Pod itself stays promised: the create may be refused for ever, and
   the memory of the Task's status is in use already. An attempt that ends has no promise.
2. A Framework may grow while used and promised memory stay within a share of the limit.
3. Half of the memory beyond the share is a reserve for namespaces other than the one that holds the
   most. A namespace may grow into the reserve up to a quarter of the sum of its own memory and the
   memory left. So it leaves three quarters to the next ones, and some memory is left for any number
   of namespaces.
4. While no other Framework can end, one Framework may take the reserve: the memory in use may be
   memory that Python keeps unused. A Framework that waits for memory and whose Tasks are all
   Completed cannot end by itself; so two such Frameworks never wait for each other.
5. Python keeps freed memory, and uses it again before it asks for more. So a Framework may take the
   memory that Frameworks have held before and hold no more, minus the growth of the process since
   then. It stays within the reserve, because other objects may fill this memory now.
6. The JSON of Frameworks has a room of its own, a sixth of the limit: a Framework starts if there
   is room for its JSON, and has this room until it is Completed. A namespace may use half of the
   sum of its own room and the room left (``KeptJson``).
7. Other JSON is kept between two turns only while a sixteenth of the limit has room: objects that
   wait to be decoded, small Frameworks at rest, Frameworks that an edit made larger than their
   room, and jobs of other kinds. Of an object without room, only the identity is kept.
8. Turns of large Frameworks have an eighth of the limit; those without room wait
   (``reconcile.turn_room``).

Example: the limit is 1000 MiB and the share 80 %, so the first namespace may fill 800 MiB. The
reserve is 100 MiB: the second namespace may then take 25 MiB, the third 18, the fourth 14.

Only this module reads /proc and cgroups.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from controller.core.actions import ActionKey, ObjectKind, Verb
from controller.core.policies.limits import (
    MEMORY_BUDGET,
    POD_MEMORY_BYTES,
    estimate_memory_bytes,
)
from controller.core.snapshot import MemoryBudget
from controller.queues.workqueue import split_namespace
from framework.api import constants
from framework.api.states import FrameworkState, TaskState
from framework.api.types import FrameworkStatus
from framework.kube.keptjson import Kept, KeptJson

# cgroup v1 writes a number close to 2 to the power of 63 where there is no limit.
_NO_LIMIT = 1 << 60
_PERCENT = 100
# A namespace may hold 1/_SHARES of the sum of its own memory and the memory left.
_SHARES = 4
# These parts of the limit, 1/6, 1/16 and 1/8, are for the JSON of admitted Frameworks, for other
# JSON, and for large Frameworks that are read, decided and written at this moment.
_ADMITTED_SHARES = 6
_OTHER_SHARES = 16
_TURN_SHARES = 8
# In these states, an attempt creates no Pods.
_ENDING = frozenset(
    {
        FrameworkState.ATTEMPT_DELETION_PENDING,
        FrameworkState.ATTEMPT_DELETION_REQUESTED,
        FrameworkState.ATTEMPT_DELETING,
        FrameworkState.ATTEMPT_COMPLETED,
        FrameworkState.COMPLETED,
    }
)


class MemoryLedger:
    """Records the memory that Frameworks hold and are promised."""

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
            read_used_bytes: returns the memory that this process uses now.
        """
        self._limit_bytes = limit_bytes
        self._budget_bytes = (limit_bytes or 0) * percent // _PERCENT
        self._read_used_bytes = read_used_bytes
        self.other_json = KeptJson(limit_bytes and limit_bytes // _OTHER_SHARES)
        """Room for JSON of objects that are not admitted, between their turns."""
        self.turn_limit_bytes = limit_bytes and limit_bytes // _TURN_SHARES
        """Room for the turns of large Frameworks; None for no limit."""
        self._admitted_json = KeptJson(limit_bytes and limit_bytes // _ADMITTED_SHARES)
        self._admitted: dict[str, Kept] = {}
        self._promised = _Account()
        self._held = _Account()
        # Frameworks that may end, and so free memory, without more memory.
        self._going_on: set[str] = set()
        self._most_used_bytes = 0
        # Memory that Frameworks may hold together while the process does not grow.
        self._fitting_bytes = 0

    def look(self, key: str) -> MemoryBudget | None:
        """Compute the budget of one Framework; None for no limit."""
        if self._limit_bytes is None:
            return None
        used = self._read_used_bytes()
        others = self._promised.total - self._promised.find(key)
        free = self._budget_bytes - used - others
        reserve = (self._limit_bytes - self._budget_bytes) // 2
        left = free + reserve
        kept = min(self._find_given_back(used), left)
        if len(self._going_on) == int(key in self._going_on):
            free = max(free, reserve)
        elif free < reserve:
            # If the reserve or more is free, the share of the namespace is less than ``free``.
            free = max(free, self._find_share(split_namespace(key), left))
        return MemoryBudget(
            self._limit_bytes,
            self._budget_bytes,
            max(0, free, kept),
            free_json_bytes=self._find_json_room(key),
        )

    def has_json_room(self, key: str) -> bool:
        """Return whether there is room for the JSON of a Framework until it is Completed."""
        return self._limit_bytes is None or key in self._admitted

    def record_status(
        self,
        key: str,
        status: FrameworkStatus | None,
        failures: Iterable[ActionKey] = (),
        object_bytes: int = 0,
    ) -> None:
        """Record the newest status of a Framework, its failed actions, and its size."""
        if self._limit_bytes is None or status is None:
            return
        tasks = [task for _, task in status.attempt_status.walk_tasks()]
        self._held.put(key, estimate_memory_bytes(len(tasks)))
        if _may_end(status):
            self._going_on.add(key)
        else:
            self._going_on.discard(key)
        pending = sum(task.state is TaskState.ATTEMPT_CREATION_PENDING for task in tasks)
        if status.state in _ENDING:
            pending = 0
        refused = min(pending, _count_refused(failures, pending))
        promised = estimate_memory_bytes(pending - refused) + refused * POD_MEMORY_BYTES
        self._promised.put(key, promised)
        self._record_json(key, 0 if is_at_rest(status) else object_bytes)

    def forget(self, key: str) -> None:
        """Forget a Framework that is gone or cannot be read."""
        self._going_on.discard(key)
        self._promised.put(key, 0)
        self._held.put(key, 0)
        self._admitted.pop(key, None)

    def _record_json(self, key: str, count: int) -> None:
        if key in self._admitted and self._admitted[key].count == count:
            return
        # The Framework may use its former room again.
        self._admitted.pop(key, None)
        kept = self._admitted_json.keep(split_namespace(key), count) if count else None
        if kept is not None:
            self._admitted[key] = kept

    def _find_json_room(self, key: str) -> int:
        own = self._admitted.get(key)
        return self._admitted_json.find_room(split_namespace(key)) + (own.count if own else 0)

    def _find_given_back(self, used: int) -> int:
        """Find the memory that Frameworks hold no more and that the process keeps (rule 5)."""
        growth = max(0, used - self._most_used_bytes)
        self._most_used_bytes += growth
        self._fitting_bytes = max(self._held.total, self._fitting_bytes - growth)
        return self._fitting_bytes - self._held.total

    def _find_share(self, namespace: str, left: int) -> int:
        """Find how much of the memory left, with the reserve, a namespace may take (rule 3)."""
        held = self._held.by_namespace
        own = held[namespace]
        if own >= max(held.values(), default=0):
            return 0
        return (own + left) // _SHARES - own


class _Account:
    """Bytes by Framework, with their sums."""

    def __init__(self) -> None:
        self.total = 0
        self.by_namespace: Counter[str] = Counter()
        self._bytes: dict[str, int] = {}

    def find(self, key: str) -> int:
        """Return the bytes of one Framework."""
        return self._bytes.get(key, 0)

    def put(self, key: str, count: int) -> None:
        """Set the bytes of one Framework."""
        change = count - self._bytes.pop(key, 0)
        self.total += change
        namespace = split_namespace(key)
        self.by_namespace[namespace] += change
        if not self.by_namespace[namespace]:
            del self.by_namespace[namespace]
        if count:
            self._bytes[key] = count


def is_at_rest(status: FrameworkStatus) -> bool:
    """Return whether nothing of a Framework runs: it is Completed, or Blocked before its start."""
    if status.state is FrameworkState.COMPLETED:
        return True
    return not status.attempt_status.task_roles and _find_block(status) is not None


def is_waiting(status: FrameworkStatus) -> bool:
    """Return whether a Framework waits for memory."""
    return _find_block(status) == MEMORY_BUDGET


def _find_block(status: FrameworkStatus) -> str | None:
    """Return the reason why a Framework is Blocked; None if it is not."""
    for condition in status.conditions or ():
        if condition.type == constants.BLOCKED_CONDITION and condition.status == "True":
            return condition.reason
    return None


def _may_end(status: FrameworkStatus) -> bool:
    """Return whether the Framework may end, and so free memory, without more memory."""
    attempt = status.attempt_status
    if status.state is FrameworkState.COMPLETED or not attempt.task_roles:
        return False
    return not is_waiting(status) or any(
        task.state is not TaskState.COMPLETED for _, task in attempt.walk_tasks()
    )


def _count_refused(failures: Iterable[ActionKey], pending: int) -> int:
    """Count the Pods whose create has failed: all, if that of an object they need has failed."""
    kinds = Counter(key.kind for key in failures if key.verb is Verb.CREATE)
    is_any_other = any(kind is not ObjectKind.POD for kind in kinds)
    return pending if is_any_other else kinds[ObjectKind.POD]


# Records nothing: for a controller without a limit.
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
    """Walk from a cgroup to the root, because each of them may have a limit.

    In a container, only the root of the path may be visible.
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
