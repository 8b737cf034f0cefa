"""Whether processes fail because a Task of their gang leaves its node: such failures do not count.

When a Pod leaves a gang that is not complete without it, the processes of its peers lose their
connections, and many end with an error. They start again in the next complete generation.

Example: worker 1 leaves, and the process of worker 0 ends with 1. The next epoch answers its
report; no restart is counted, and none is refused.

Rules: docs/design/leaving.md, "Peers".
"""

from controller.core.draft import Draft
from framework.api.completion import TASK_LEFT_NODE
from framework.api.roster import Roster, fingerprint_uid


def is_waiting_for_left(draft: Draft) -> bool:
    """Return whether the gang is not complete because a Task leaves, or has left, its node."""
    published = draft.snapshot.published.roster
    if published is None:
        return False
    if not published.complete and any(each.code == TASK_LEFT_NODE for each in published.failed):
        return True
    leaving = [t.attempt_status for _, t in draft.walk_tasks() if t.attempt_status.leaving]
    return any(not published.complete or _is_member(published, each.pod_uid) for each in leaving)


def _is_member(published: Roster, pod_uid: str | None) -> bool:
    """Return whether the published roster does not say yet that a Pod leaves."""
    fingerprint = fingerprint_uid(pod_uid or "")
    return any(m.fingerprint == fingerprint for role in published.roles for m in role.members)
