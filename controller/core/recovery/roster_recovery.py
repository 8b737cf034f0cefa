"""The part of the roster for restarts in place: roles, epoch, since, refused Pods.

``since`` names the members: two rosters with the same number have the same members of these roles,
apart from those that succeeded in between. Agents restart processes when it or the epoch changes.
Until the processes have started, rosters with the same number and epoch have exactly the same
members, so that all agents start with the same ranks.

Steps of ``build_recovery``:

1. The roles are those of the first roster of the attempt. For the first roster, they are those of
   the spec with restart in place. Without such a role, the roster has no such part.
2. The epoch and the refused Pods are those of the drafted status.
3. ``since`` is 1 in the first roster. Later it stays if these roles have the members of the
   published roster. Otherwise it is the number of the next generation.
4. If the only change is that members have succeeded, ``since`` stays once the current epoch is
   stored as started. Before that, the gang may wait at the start barrier. Some agents there may
   have the ranks with these members, others the ranks without them. So then ``since`` changes. If
   no agent of the attempt has reported, the controller does not know whether the gang waits, and
   ``since`` stays.
5. If only successes have changed it, the deadlines of the start barrier still count from the
   ``since`` before (``waits_since``). Otherwise each success would postpone them.

Invariants:

- The number depends only on the drafted status and the published roster, so a restart of the
  controller does not change it.
- Before a start barrier has released its members, a roster of its ``since`` and epoch has the same
  members as all others of them.
- The roles are those of the first roster of the attempt, also if the spec changes.

Example: workers 0 to 2 in generation 1: since 1. Worker 1 succeeds: generation 2, since 1. Worker 2
fails: generation 3, since 3. Its next Pod has an address: generation 4, since 4. Worker 0 succeeded
before its agent learned of generation 3: generation 5, since 5.

Rules: docs/design/recovery.md, "Restart in place".
"""

from collections.abc import Mapping, Sequence

from controller.core.draft import Draft, RoleDraft
from controller.core.recovery.restartable_pods import find_roles, list_policies
from framework.api.roster import RoleRoster, Roster, RosterRecovery


def build_recovery(
    draft: Draft, roles: Sequence[RoleRoster], published: Roster | None
) -> RosterRecovery | None:
    """Build the part of the roster; None if no role had restart in place in the first roster.

    Args:
        draft: the decision.
        roles: the roles of the roster that is built.
        published: the last published roster.
    """
    names = find_roles(draft)
    if names is None:
        names = list_policies(draft)
    own = [role for role in roles if role.name in names]
    if not own:
        return None
    status = draft.status.attempt_status.recovery
    since, waits_since = _find_since(draft, own, published)
    return RosterRecovery(
        epoch=status.epoch if status else 0,
        since=since,
        roles=tuple(role.name for role in own),
        refused=status.refused if status else (),
        waits_since=waits_since,
    )


def _find_since(
    draft: Draft, roles: Sequence[RoleRoster], published: Roster | None
) -> tuple[int, int]:
    """Find ``since`` and ``waits_since``."""
    if published is None:
        return 1, 0
    known = published.recovery
    names = [role.name for role in roles]
    if known is None or list(known.roles) != names:
        return published.generation + 1, 0
    drafts = {role.name: role for role in draft.roles}
    if not _have_same_members(roles, published, drafts):
        return published.generation + 1, 0
    if not _is_starting(draft, known.since) or _have_same_members(roles, published, {}):
        return known.since, known.waits_since
    return published.generation + 1, known.deadline_since


def _have_same_members(
    roles: Sequence[RoleRoster], published: Roster, drafts: Mapping[str, RoleDraft]
) -> bool:
    """Return whether the roles have the members of the published roster.

    In a role of ``drafts``, published members that have succeeded may be missing.
    """
    return all(
        _has_same_members(role, published.find_role(role.name), drafts.get(role.name))
        for role in roles
    )


def _is_starting(draft: Draft, since: int) -> bool:
    """Return whether agents report starts, and have not reported that of the current epoch."""
    recovery = draft.status.attempt_status.recovery
    if recovery is None:
        return False
    barrier = recovery.start_barrier
    # An epoch after epoch 0 answers reports, so agents report.
    if recovery.epoch == 0 and (barrier is None or not barrier.is_served):
        return False
    return barrier is None or (barrier.since, barrier.started_epoch) != (since, recovery.epoch)


def _has_same_members(role: RoleRoster, before: RoleRoster | None, draft: RoleDraft | None) -> bool:
    """Return whether a role has the members that it had before.

    With ``draft``, former members that have succeeded may be missing.
    """
    if before is None:
        return False
    if role.members == before.members:
        return True
    old = {member.index: member.fingerprint for member in before.members}
    new = {member.index: member.fingerprint for member in role.members}
    left = old.keys() - new.keys()
    if not new.items() <= old.items():
        return False
    return all(draft is not None and _has_succeeded(draft, index) for index in left)


def _has_succeeded(role: RoleDraft, index: int) -> bool:
    if index >= len(role.tasks):
        return False
    completion = role.tasks[index].attempt_status.completion_status
    return completion is not None and completion.type.is_succeeded
