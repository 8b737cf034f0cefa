"""Builds a roster from the status of a Framework, for agents that cannot read the ConfigMap. Pure.

1. ``decompress_framework`` replaces compressed Tasks by plain ones.
2. The roles are listed in the order of the status; wanted roles without a status follow.
3. Each Task below ``taskNumber`` that is not absent becomes a member (it has an address and its
   state allows one), a completed Task, or a missing Task with a reason.
4. The roster is complete if each role has at least its minimum of members and completed Tasks.

Invariants: each wanted Task is in exactly one of members, completed and ``missing``; an object that
cannot be read raises ``FrameworkError`` and nothing else; the cost is bounded by the number of
Tasks in a roster.

Example: role ``worker`` has ``taskNumber`` 3. Task 0 is AttemptRunning with podIP 10.0.0.1, Task 1
is Completed (Succeeded), Task 2 is AttemptCreationRequested. The role has one member (index 0), one
completed Task (index 1) and one missing Task (index 2, "its Pod is not seen yet"): not complete.

It works on the raw object, because the zipapp of the agents does not contain the codec. Rules:
docs/design/roster.md, "Roster of a Framework".
"""

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from framework.api.constants import (
    IN_PLACE_ANNOTATION,
    IN_PLACE_FIELD,
    MAX_TASK_NUMBER,
    POD_LEFT_RUNNING_CODE,
    READINESS_MAX_MISSING,
    RECOVERY_FIELD,
)
from framework.api.gangreadiness import Missing
from framework.api.packed import STATUS_BOUNDS, PackedError, unpack_base64
from framework.api.roster import (
    MAX_ROSTER_TASKS,
    PHASE_ACTIVE,
    PHASE_COMPLETING,
    STATE_FAILED,
    STATE_SUCCEEDED,
    CompletedTask,
    Member,
    RoleRoster,
    Roster,
    fingerprint_uid,
)

_STATE_COMPLETED = "Completed"
_STATE_RUNNING = "AttemptRunning"
_ADDRESSED_STATES = ("AttemptPreparing", _STATE_RUNNING)
_COMPLETING_STATES = (
    "AttemptDeletionPending",
    "AttemptDeletionRequested",
    "AttemptDeleting",
    "AttemptCompleted",
    "Completed",
)
_REASONS = {
    "AttemptCreationPending": "its Pod is not created yet",
    "AttemptCreationRequested": "its Pod is not seen yet",
    "AttemptCompleted": "its last attempt ended, a retry may follow",
}


class FrameworkError(ValueError):
    """The object is not a readable Framework."""


class FrameworkView(NamedTuple):
    """The roster of a Framework, with generation 0, and the missing Tasks with reasons.

    ``missing`` lists the first ``READINESS_MAX_MISSING`` wanted Tasks, in the order of the roster,
    that are neither members nor completed: no message names more. ``restarted`` names the roles of
    which the spec asks to restart processes in place: only a published roster has their epochs.
    """

    roster: Roster
    missing: Tuple[Missing, ...]
    restarted: Tuple[str, ...] = ()


def decompress_framework(framework: Dict[str, Any]) -> Dict[str, Any]:
    """Return the object with its Tasks in plain form, as the Go original dumps it.

    Raises:
        FrameworkError: The compressed Tasks are invalid.
    """
    status = framework.get("status")
    attempt = status.get("attemptStatus") if isinstance(status, dict) else None
    if not isinstance(status, dict) or not isinstance(attempt, dict):
        return framework
    if "taskRoleStatusesCompressed" not in attempt:
        return framework
    plain = dict(attempt)
    blob = plain.pop("taskRoleStatusesCompressed")
    if blob is not None and plain.get("taskRoleStatuses") is None:
        try:
            plain["taskRoleStatuses"] = unpack_base64(blob, STATUS_BOUNDS)
        except PackedError as e:
            raise FrameworkError(f"undecodable taskRoleStatusesCompressed: {e}") from e
    return dict(framework, status=dict(status, attemptStatus=plain))


def build_view(framework: Dict[str, Any], *, is_attempt_aware: bool) -> FrameworkView:
    """Build the roster of a (decompressed) Framework.

    Without ``is_attempt_aware`` the rule of the original applies: every Task with an address is a
    member, in any state.

    Raises:
        FrameworkError: A field is missing or has another type.
    """
    try:
        metadata = framework["metadata"]
        status = framework.get("status") or {}
        attempt = status.get("attemptStatus") or {}
        statuses = {role["name"]: role for role in attempt.get("taskRoleStatuses") or ()}
        specs = {role["name"]: role for role in framework["spec"].get("taskRoles") or ()}
        if sum(_count_tasks(spec) for spec in specs.values()) > MAX_ROSTER_TASKS:
            raise ValueError(f"more than {MAX_ROSTER_TASKS} Tasks")
        missing: List[Missing] = []
        roles = [
            _build_role(specs[name], statuses.get(name), missing, is_attempt_aware=is_attempt_aware)
            for name in _order_roles(specs, statuses)
        ]
        roster = Roster(
            namespace=str(metadata.get("namespace") or ""),
            framework=str(metadata["name"]),
            framework_uid=str(metadata.get("uid") or ""),
            attempt_id=int(attempt.get("id") or 0),
            instance_uid=str(attempt.get("instanceUID") or ""),
            generation=0,
            complete=bool(status) and all(role.ready >= role.minimum for role in roles),
            phase=_find_phase(status, statuses),
            roles=tuple(roles),
            leaving=(),
        )
        restarted = tuple(name for name, spec in specs.items() if _restarts_in_place(spec))
    except (KeyError, TypeError, AttributeError, ValueError) as e:
        raise FrameworkError(f"unreadable Framework: {type(e).__name__}: {e}") from e
    return FrameworkView(roster, tuple(missing), restarted)


def _find_phase(status: Dict[str, Any], roles: Dict[str, Any]) -> str:
    """Find the phase: an agent ends its command in Completing, unless its Pod is left running."""
    if status.get("state") not in _COMPLETING_STATES:
        return PHASE_ACTIVE
    tasks = (task for role in roles.values() for task in role.get("taskStatuses") or ())
    is_any_left = any(_is_left_running(task["attemptStatus"]) for task in tasks)
    return PHASE_ACTIVE if is_any_left else PHASE_COMPLETING


def _restarts_in_place(spec: Dict[str, Any]) -> bool:
    if (spec.get(RECOVERY_FIELD) or {}).get(IN_PLACE_FIELD):
        return True
    pod = (spec.get("task") or {}).get("pod") or {}
    return IN_PLACE_ANNOTATION in ((pod.get("metadata") or {}).get("annotations") or {})


def _order_roles(specs: Dict[str, Any], statuses: Dict[str, Any]) -> List[str]:
    """List roles in status order, as the original; then wanted roles without a status."""
    known = [name for name in statuses if name in specs]
    return known + [n for n, s in specs.items() if n not in statuses and _count_tasks(s) > 0]


def _build_role(
    spec: Dict[str, Any],
    status: Optional[Dict[str, Any]],
    missing: List[Missing],
    *,
    is_attempt_aware: bool,
) -> RoleRoster:
    number = _count_tasks(spec)
    absent = {int(i) for i in spec.get("absentTaskIndices") or () if 0 <= int(i) < number}
    wanted = number - len(absent)
    minimum = spec.get("minMemberCount")
    tasks = (status or {}).get("taskStatuses") or ()
    members: List[Member] = []
    completed: List[CompletedTask] = []
    for index in range(number):
        if index in absent:
            continue
        task = tasks[index] if index < len(tasks) else None
        reason = _classify_task(index, task, members, completed, is_attempt_aware=is_attempt_aware)
        if reason and len(missing) < READINESS_MAX_MISSING:
            missing.append(Missing(str(spec["name"]), index, reason))
    return RoleRoster(
        name=str(spec["name"]),
        wanted=wanted,
        minimum=wanted if minimum is None else min(int(minimum), wanted),
        running=len(members) + len(completed) == wanted
        and all(tasks[member.index].get("state") == _STATE_RUNNING for member in members),
        members=tuple(members),
        completed=tuple(completed),
        absent=tuple(sorted(absent)),
    )


def _classify_task(
    index: int,
    task: Optional[Dict[str, Any]],
    members: List[Member],
    completed: List[CompletedTask],
    *,
    is_attempt_aware: bool,
) -> str:
    """Add the Task to members or completed; return the reason if it is missing, else ""."""
    if task is None:
        return "the controller has not seen it yet"
    if task.get("deletionPending"):
        return "it is being scaled down"
    attempt = task["attemptStatus"]
    state, address = task.get("state"), attempt.get("podIP") or ""
    is_left = _is_left_running(attempt)
    if is_attempt_aware and state == _STATE_COMPLETED and not is_left:
        completed.append(CompletedTask(index, _get_end(attempt), address))
        return ""
    if address and (state in _ADDRESSED_STATES or is_left or not is_attempt_aware):
        fingerprint = fingerprint_uid(str(attempt.get("podUID") or ""))
        members.append(Member(index, (address,), fingerprint, int(attempt.get("id") or 0)))
        return ""
    if state in _ADDRESSED_STATES or not is_attempt_aware:
        return "its Pod has no address yet"
    return _REASONS.get(str(state), "its Pod is being deleted")


def _is_left_running(attempt: Dict[str, Any]) -> bool:
    """Return whether the Task has ended with its Framework, and its Pod runs on."""
    return (attempt.get("completionStatus") or {}).get("code") == POD_LEFT_RUNNING_CODE


def _get_end(attempt: Dict[str, Any]) -> str:
    completion = attempt.get("completionStatus") or {}
    name = (completion.get("type") or {}).get("name")
    return STATE_SUCCEEDED if name == STATE_SUCCEEDED else STATE_FAILED


def _count_tasks(spec: Dict[str, Any]) -> int:
    number = int(spec.get("taskNumber") or 0)
    if not 0 <= number <= MAX_TASK_NUMBER:
        raise ValueError(f"taskNumber {number} is not from 0 to {MAX_TASK_NUMBER}")
    return number
