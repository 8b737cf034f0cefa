"""Whether processes fail because a Task of their gang leaves its node: such failures do not count.

When a Pod leaves a gang that is not complete without it, the processes of its peers lose their
connections, and many end with an error. They start again in the next complete generation.

Steps of ``is_waiting_for_left``; without a match, the failures count:

1. Before the current epoch has started, the failures count.
2. If the published roster is not complete, and has a failed member that left (-280), they do not.
3. If a Task is marked to leave, they do not count while the published roster is not complete, or
   still has its Pod as a member.

Invariant: at most one epoch does not count for each epoch that a complete gang has started. Reports
of an epoch that has not started are not from agents, and count.

Example: epoch 0 has started. Worker 1 leaves, and the process of worker 0 ends with 1. Epoch 1
answers its report; no restart is counted. A report of epoch 1 counts until the gang is complete
again and has started it.

Rules: docs/design/leaving.md, "Peers".
"""

from collections.abc import Iterable

from controller.core.draft import Draft
from framework.api.completion import TASK_LEFT_NODE
from framework.api.roster import Roster, fingerprint_uid


def is_waiting_for_left(draft: Draft) -> bool:
    """Return whether the gang is not complete because a Task leaves, or has left, its node.

    False also if the current epoch has not started.
    """
    published = draft.snapshot.published.roster
    if published is None or not _has_started(draft):
        return False
    if not published.complete and any(each.code == TASK_LEFT_NODE for each in published.failed):
        return True
    attempts = (task.attempt_status for _, task in draft.walk_tasks())
    uids = [attempt.pod_uid or "" for attempt in attempts if attempt.leaving is not None]
    return bool(uids) and (not published.complete or _has_members(published, uids))


def _has_started(draft: Draft) -> bool:
    recovery = draft.status.attempt_status.recovery
    barrier = recovery.start_barrier if recovery is not None else None
    if recovery is None or barrier is None:
        return False
    return barrier.started_epoch == recovery.epoch


def _has_members(published: Roster, pod_uids: Iterable[str]) -> bool:
    """Return whether one of these Pods is still a member of the published roster."""
    fingerprints = {fingerprint_uid(uid) for uid in pod_uids}
    return any(m.fingerprint in fingerprints for role in published.roles for m in role.members)
