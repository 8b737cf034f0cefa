"""Failed members: which members of the published roster failed, and have no successor yet.

The roster lists them, so that the agents of the survivors learn of a failure before the next Pod
has an address. Steps of ``list_failed``, for each Task that is requested and no member:

1. Its attempt failed, and its Pod had an address: list that Pod with the code of the attempt.
2. Else the published roster lists a failure of this Task: keep it. The next attempt has started.
3. Else the published roster has an earlier attempt of this Task as a member, or is not complete and
   has it as leaving: that attempt failed or left, and was retried before a roster was published.
   List it without a code.

Invariants:

- A failure is listed since one generation. It stays listed until its Task is a member again,
  succeeds, or is removed.
- A Task that left a gang which is complete without it has not failed.
- The list depends only on the status and on the published roster, so a restart of the controller
  neither loses nor repeats a failure.

Example: worker 1 of generation 4 is killed: generation 5 lists it with code 137 since 5. Its next
Pod fails before it has an address: nothing changes. The Pod after that has an address: generation 6
has worker 1 as a member and lists no failure.

Rules: docs/design/roster.md, "Failed members".
"""

from collections.abc import Iterator, Mapping, Sequence

from controller.core.draft import Draft, RoleDraft
from framework.api.completion import TASK_LEFT_NODE
from framework.api.naming import TaskKey
from framework.api.roster import (
    FailedMember,
    Leaving,
    Member,
    RoleRoster,
    Roster,
    cut_reason,
    fingerprint_uid,
)
from framework.api.types import TaskAttemptStatus, TaskStatus


def list_failed(
    draft: Draft, roles: Sequence[RoleRoster], published: Roster
) -> Iterator[FailedMember]:
    """List the failed members of the drafted gang.

    Args:
        draft: the decision.
        roles: the roles of the roster that is built.
        published: the last published roster.
    """
    known = {TaskKey(failed.role, failed.index): failed for failed in published.failed}
    leaving = () if published.complete else published.leaving
    left = {TaskKey(entry.role, entry.index): entry for entry in leaving}
    rosters = {role.name: role for role in roles}
    for role in draft.roles:
        built = rosters.get(role.name)
        # Usually all Tasks of a role are members: then none of them is examined.
        if built is not None and len(built.members) < len(role.tasks):
            yield from _list_failed_of_role(role, built, published, known, left)


def _list_failed_of_role(
    role: RoleDraft,
    built: RoleRoster,
    published: Roster,
    known: Mapping[TaskKey, FailedMember],
    left: Mapping[TaskKey, Leaving],
) -> Iterator[FailedMember]:
    members = {member.index for member in built.members}
    before = published.find_role(role.name)
    former = {member.index: member for member in before.members} if before is not None else {}
    for task in role.tasks:
        if task.deletion_pending or task.index in members:
            continue
        key = TaskKey(role.name, task.index)
        member = former.get(task.index) or _find_left(task, left.get(key))
        if published.complete and key not in known and member is None and _has_left(task):
            continue
        failed = _find_failed(key, task, known.get(key), member, published.generation + 1)
        if failed is not None:
            yield failed


def _find_left(task: TaskStatus, entry: Leaving | None) -> Member | None:
    """Find the last Pod of a Task that is listed as leaving; None if it is the current Pod."""
    attempt = task.attempt_status
    if entry is None or attempt.id == 0:
        return None
    if entry.fingerprint == fingerprint_uid(attempt.pod_uid or ""):
        return None
    return Member(task.index, (), entry.fingerprint, attempt.id - 1)


def _has_left(task: TaskStatus) -> bool:
    """Return whether an attempt left its node, so that a complete gang continues without it."""
    completion = task.attempt_status.completion_status
    return completion is not None and completion.code == TASK_LEFT_NODE


def _find_failed(
    key: TaskKey,
    task: TaskStatus,
    known: FailedMember | None,
    before: Member | None,
    generation: int,
) -> FailedMember | None:
    attempt = task.attempt_status
    completion = attempt.completion_status
    if completion is not None and completion.type.is_succeeded:
        return None
    if completion is not None and attempt.pod_uid and attempt.pod_ip:
        failed = _describe(key, attempt, generation)
        is_known = known is not None and known.fingerprint == failed.fingerprint
        return known if is_known else failed
    if known is not None:
        return known
    if before is not None and before.attempt_id < attempt.id:
        return FailedMember(key.role, key.index, before.fingerprint, before.attempt_id, generation)
    return None


def _describe(key: TaskKey, attempt: TaskAttemptStatus, generation: int) -> FailedMember:
    completion = attempt.completion_status
    return FailedMember(
        role=key.role,
        index=key.index,
        fingerprint=fingerprint_uid(attempt.pod_uid or ""),
        attempt_id=attempt.id,
        since=generation,
        code=completion.code if completion else None,
        reason=cut_reason(completion.phrase) if completion else "",
    )
