"""The wanted workers of a TrainingJob as a set of indexes, and the role that has them. Pure.

The numbering is that of the original: a new worker gets the greatest index of the wanted workers
plus 1. Only when no index above is left, absent ones are used again.

Example: workers {0, 1, 2} without 1 are ``taskNumber: 3, absentTaskIndices: [1]``. Without 2, too,
they are ``taskNumber: 1``. The next worker is then 1.
"""

from collections.abc import Iterable
from itertools import chain, islice

from framework.api import constants
from framework.api.naming import build_pod_name, parse_pod_name
from framework.api.types import TaskRoleSpec
from framework.kinds.compiled import WantedWorkers
from framework.kinds.trainingjob.types import WORKER

Workers = frozenset[int]


def read_workers(role: TaskRoleSpec | None) -> Workers:
    """Read the wanted workers of a role."""
    return frozenset() if role is None else frozenset(range(role.task_number)) - role.absent


def choose_new(workers: Workers, count: int, limit: int = constants.MAX_TASK_NUMBER) -> list[int]:
    """Choose the indexes of new workers; fewer than ``count`` if no more are left."""
    first = max(workers, default=-1) + 1
    absent = (index for index in range(first) if index not in workers)
    return sorted(islice(chain(range(first, limit), absent), count))


def choose_highest(workers: Workers, count: int) -> list[int]:
    """Choose the workers with the highest indexes."""
    return sorted(workers)[-count:]


def name_workers(job: str, indexes: Iterable[int]) -> tuple[str, ...]:
    """Build the names of workers' Pods."""
    return tuple(build_pod_name(job, WORKER, index) for index in indexes)


def find_index(job: str, pod: str) -> int | None:
    """Find the index of the worker whose Pod has this name; None for another Pod."""
    parsed = parse_pod_name(pod)
    if parsed is None or parsed[0] != job or parsed[1].role != WORKER:
        return None
    return parsed[1].index


def build_wanted(workers: Workers, drain_seconds: int) -> WantedWorkers:
    """Build what the compile step of the job takes."""
    number = max(workers, default=-1) + 1
    absent = tuple(index for index in range(number) if index not in workers)
    return WantedWorkers(number, absent, drain_seconds)
