"""Limits: whether a Framework may grow to the roles and Tasks that its spec asks for.

``decide`` checks them before it builds a status: the CRD may lack its limits, or the object may be
older than these.

1. Compare the spec with the status. If it asks for no more roles and Tasks, it is within limits.
2. Otherwise count its roles and Tasks, and estimate the bytes of the object and of the memory.
3. If one of them exceeds its limit, the growth is held: the decision continues with a spec that has
   no more roles and Tasks than the status, no attempt starts, and the condition Blocked says why.
   A running attempt continues, and Tasks that the spec no longer wants are removed. While memory is
   missing, an attempt whose Tasks are all Completed does not end: the other Tasks start later.

Invariant: the cost is in proportion to the number of roles, not of Tasks.

Example: the limit is 10,000 Tasks. A Framework with 9,000 running Tasks asks for 11,000: it keeps
its 9,000, and Blocked says TooManyTasks. When it asks for 10,000, it gets 1,000 more.

Rules: docs/design/scaling.md, "Limits".
"""

from dataclasses import replace
from datetime import timedelta
from typing import NamedTuple

from controller.core.draft import Draft, Hold
from controller.core.settings import MEMORY_WAIT_SECONDS, FrameworkLimits
from controller.core.snapshot import MemoryBudget, Snapshot
from framework.api.states import FrameworkState
from framework.api.types import Framework, FrameworkSpec, FrameworkStatus
from framework.api.validation import check_role_count, check_task_count, check_task_numbers

TOO_MANY_ROLES = "TooManyRoles"
TOO_MANY_TASKS = "TooManyTasks"
TOO_LARGE = "TooLarge"
MEMORY_BUDGET = "MemoryBudget"

# Least bytes of a Task, and of an absent index, in a stored status. So the server would also refuse
# each object that is estimated as too large.
_COMPRESSED_BYTES = 128, 24
_PLAIN_BYTES = 640, 512
# Most bytes of a Task in the controller: its status, the fields of its Pod that are kept, and its
# share of the memory of a decision and a write.
TASK_MEMORY_BYTES = 10 * 1024
# The part of TASK_MEMORY_BYTES for the fields of the Pod.
POD_MEMORY_BYTES = 4 * 1024
_MIB = 1024 * 1024


def find_hold(snapshot: Snapshot, limits: FrameworkLimits) -> Hold | None:
    """Find the limit that a growing Framework exceeds; None if there is none."""
    spec, status = snapshot.framework.spec, snapshot.framework.status
    if status is not None and status.state is FrameworkState.COMPLETED:
        return None
    if _count_growth(spec, status) is None:
        return None
    return (
        _check_counts(spec, limits)
        or _check_bytes(spec, snapshot.object_bytes, limits)
        or _check_memory(snapshot)
    )


def cap_spec(snapshot: Snapshot) -> Snapshot:
    """Build the Snapshot whose spec asks for no more roles and Tasks than the status has."""
    framework = snapshot.framework
    known = _count_tasks(framework.status)
    roles = tuple(
        role
        if role.task_number <= known[role.name]
        else replace(role, task_number=known[role.name])
        for role in framework.spec.task_roles
        if role.name in known
    )
    spec = replace(framework.spec, task_roles=roles)
    return replace(snapshot, framework=replace(framework, spec=spec))


def apply_hold(draft: Draft, hold: Hold) -> None:
    """Set the hold in the draft; if it is temporary, request a wake."""
    draft.hold = hold
    if hold.is_temporary:
        draft.request_wake(draft.snapshot.now + timedelta(seconds=MEMORY_WAIT_SECONDS))


def estimate_memory_bytes(tasks: int) -> int:
    """Estimate the memory of Tasks in the controller."""
    return tasks * TASK_MEMORY_BYTES


class Growth(NamedTuple):
    """The growth of a Framework, which needs memory."""

    tasks: int
    """Number of Tasks that its status lacks."""
    json_bytes: int
    """Size of the object if its status has no Tasks. Otherwise 0: it has its memory already."""

    def fits(self, memory: MemoryBudget) -> bool:
        """Return whether the memory is enough."""
        needed = estimate_memory_bytes(self.tasks)
        return needed <= memory.free_bytes and self.json_bytes <= memory.free_json_bytes


def measure_growth(framework: Framework, object_bytes: int) -> Growth:
    """Measure how much a Framework grows to the roles and Tasks of its spec."""
    is_new = not _count_tasks(framework.status)
    tasks = _count_growth(framework.spec, framework.status)
    return Growth(tasks or 0, object_bytes if is_new else 0)


def _count_tasks(status: FrameworkStatus | None) -> dict[str, int]:
    roles = status.attempt_status.task_roles if status else ()
    return {role.name: len(role.tasks) for role in roles}


def _count_growth(spec: FrameworkSpec, status: FrameworkStatus | None) -> int | None:
    """Count the Tasks that the status lacks; None if no role is new and none grows."""
    known = _count_tasks(status)
    # Of roles with the same name, the first counts, as in all other code.
    wanted = {role.name: role.task_number for role in reversed(spec.task_roles)}
    if all(number <= known.get(name, -1) for name, number in wanted.items()):
        return None
    return sum(max(0, number - known.get(name, 0)) for name, number in wanted.items())


def _check_counts(spec: FrameworkSpec, limits: FrameworkLimits) -> Hold | None:
    fault = check_role_count(spec, limits.max_roles)
    if fault is not None:
        return Hold(TOO_MANY_ROLES, str(fault))
    # Agents refuse an index above the limit of a role, even if the configuration allows it.
    fault = check_task_count(spec, limits.max_tasks) or check_task_numbers(spec)
    return Hold(TOO_MANY_TASKS, str(fault)) if fault is not None else None


def _check_bytes(spec: FrameworkSpec, object_bytes: int, limits: FrameworkLimits) -> Hold | None:
    tasks = sum(role.task_number for role in spec.task_roles)
    absent = tasks - spec.wanted_count
    each, each_absent = _COMPRESSED_BYTES if limits.is_compressed else _PLAIN_BYTES
    size = object_bytes + (tasks - absent) * each + absent * each_absent
    if size <= limits.max_object_bytes:
        return None
    remedy = "lower taskNumber, shorten the Pod templates, or split the Framework into several"
    if not limits.is_compressed:
        remedy += "; or switch largeFrameworkCompression on"
    return Hold(
        TOO_LARGE,
        f"spec.taskRoles: with the status of {tasks} Tasks the object takes about {size} bytes; "
        f"at most {limits.max_object_bytes} are stored: {remedy}",
    )


def _check_memory(snapshot: Snapshot) -> Hold | None:
    growth = measure_growth(snapshot.framework, snapshot.object_bytes)
    memory = snapshot.memory
    if memory is None or growth.fits(memory):
        return None
    # The message has no number that changes while it waits: each change would be a write.
    if growth.json_bytes > memory.free_json_bytes:
        return Hold(
            MEMORY_BUDGET,
            f"the object has {growth.json_bytes} bytes of JSON, and the controller has no room for "
            "so much more of this namespace: it starts when other Frameworks are Completed; to "
            "start it now, shorten its Pod templates, or give the controller more memory",
            is_temporary=True,
        )
    needed = estimate_memory_bytes(growth.tasks)
    return Hold(
        MEMORY_BUDGET,
        f"{growth.tasks} more Tasks need about {-(-needed // _MIB)} MiB, and the controller may "
        f"use {memory.budget_bytes // _MIB} MiB of its {memory.limit_bytes // _MIB} MiB: they "
        "start when other Tasks have ended; to start them now, give the controller more memory "
        "or delete completed Frameworks",
        is_temporary=True,
    )
