"""Limits: whether a Framework gets what its spec asks for beyond what it has.

Called by ``decide`` before any status is built, because the CRD's limits may be missing or newer
than the object. The algorithm:

1. Compare the spec with the status. If it asks for no role and no Task more, it is within limits.
2. Else count its roles and Tasks, and estimate the bytes of the object and of the memory.
3. If one of them is beyond its limit, the growth is held: the decision goes on with a spec that
   has no more roles and Tasks than the status, no attempt begins, and the condition Blocked says
   why. A running attempt goes on, and what the spec takes away goes. While memory is missing, the
   attempt does not end because all Tasks that it has are Completed: the others start later.

Nothing here costs more than the roles of the spec and of the status. Rules:
docs/design/scaling.md, "Limits".
"""

from dataclasses import replace
from datetime import timedelta

from controller.core.draft import Draft, Hold
from controller.core.settings import MEMORY_WAIT_SECONDS, Limits
from controller.core.snapshot import MemoryBudget, Snapshot
from framework.api.states import FrameworkState
from framework.api.types import FrameworkSpec, FrameworkStatus
from framework.api.validation import check_role_count, check_task_count, check_task_numbers

TOO_MANY_ROLES = "TooManyRoles"
TOO_MANY_TASKS = "TooManyTasks"
TOO_LARGE = "TooLarge"
MEMORY_BUDGET = "MemoryBudget"

# What a Task, and one that is absent, takes at least in a status that is stored: an object that is
# estimated too large is one that the server would refuse.
_COMPRESSED_BYTES = 128, 24
_PLAIN_BYTES = 640, 512
# What a Task takes at most in the controller: its status, its Pod as far as it is kept, and its
# share of what a decision and a write need for a moment.
TASK_MEMORY_BYTES = 10 * 1024
# Of these, the Pod as far as it is kept.
POD_MEMORY_BYTES = 4 * 1024
_MIB = 1024 * 1024


def find_hold(snapshot: Snapshot, limits: Limits) -> Hold | None:
    """Find why the Framework may not grow as its spec asks; None if it may, or does not."""
    spec, status = snapshot.framework.spec, snapshot.framework.status
    if status is not None and status.state is FrameworkState.COMPLETED:
        return None
    growth = _count_growth(spec, status)
    if growth is None:
        return None
    return (
        _check_counts(spec, limits)
        or _check_bytes(spec, snapshot.object_bytes, limits)
        or _check_memory(growth, snapshot.memory)
    )


def cap_spec(snapshot: Snapshot) -> Snapshot:
    """Give the Snapshot with a spec that asks for no more roles and Tasks than the status has."""
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
    """Let the machines know; where the hold is temporary, look again later."""
    draft.hold = hold
    if hold.is_temporary:
        draft.request_wake(draft.snapshot.now + timedelta(seconds=MEMORY_WAIT_SECONDS))


def estimate_memory_bytes(tasks: int) -> int:
    """Estimate what Tasks take in the controller."""
    return tasks * TASK_MEMORY_BYTES


def _count_tasks(status: FrameworkStatus | None) -> dict[str, int]:
    roles = status.attempt_status.task_roles if status else ()
    return {role.name: len(role.tasks) for role in roles}


def _count_growth(spec: FrameworkSpec, status: FrameworkStatus | None) -> int | None:
    """Count the Tasks that the status has not yet; None if no role is new and none grows."""
    known = _count_tasks(status)
    # Of roles with one name the first counts, as everywhere.
    wanted = {role.name: role.task_number for role in reversed(spec.task_roles)}
    if all(number <= known.get(name, -1) for name, number in wanted.items()):
        return None
    return sum(max(0, number - known.get(name, 0)) for name, number in wanted.items())


def _check_counts(spec: FrameworkSpec, limits: Limits) -> Hold | None:
    fault = check_role_count(spec, limits.max_roles)
    if fault is not None:
        return Hold(TOO_MANY_ROLES, str(fault))
    # The agents read no higher index than a role's limit, whatever the configuration allows.
    fault = check_task_count(spec, limits.max_tasks) or check_task_numbers(spec)
    return Hold(TOO_MANY_TASKS, str(fault)) if fault is not None else None


def _check_bytes(spec: FrameworkSpec, object_bytes: int, limits: Limits) -> Hold | None:
    tasks = sum(role.task_number for role in spec.task_roles)
    absent = tasks - spec.wanted_count
    each, each_absent = _COMPRESSED_BYTES if limits.is_compressed else _PLAIN_BYTES
    size = object_bytes + (tasks - absent) * each + absent * each_absent
    if size <= limits.max_object_bytes:
        return None
    remedy = "lower taskNumber, shorten the Pod templates, or split the Framework into several"
    if not limits.is_compressed:
        remedy += "; or let largeFrameworkCompression on"
    return Hold(
        TOO_LARGE,
        f"spec.taskRoles: with the status of {tasks} Tasks the object takes about {size} bytes; "
        f"at most {limits.max_object_bytes} are stored: {remedy}",
    )


def _check_memory(growth: int, memory: MemoryBudget | None) -> Hold | None:
    needed = estimate_memory_bytes(growth)
    if memory is None or needed <= memory.free_bytes:
        return None
    # No number that changes while it waits: each would cost a write.
    return Hold(
        MEMORY_BUDGET,
        f"{growth} Tasks more take about {-(-needed // _MIB)} MiB, and the controller may fill "
        f"{memory.budget_bytes // _MIB} MiB of its {memory.limit_bytes // _MIB} MiB: they start "
        "by themselves when others have ended; to start them now, give the controller more memory "
        "or delete completed Frameworks",
        is_temporary=True,
    )
