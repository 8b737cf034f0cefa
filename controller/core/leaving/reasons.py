"""Why a Task leaves: its Pod is disrupted, or its node is tainted or cordoned.

``find_reason`` takes the first that applies:

1. The Pod has the condition DisruptionTarget: PodDisrupted.
2. The node has a taint at which Tasks leave, and the template does not tolerate it by its key:
   NodeTainted.
3. The node is cordoned, and the template does not tolerate that by its key: NodeCordoned.

A notice of a node is a taint or its cordon, with the time at which it was added or first seen.

Invariants:

- A notice that is older than the attempt is no reason: the scheduler has put the Pod there in spite
  of the notice, and would do so again.
- A notice whose time is unknown may be older, so a toleration without a key is enough to stay.
- A Pod that is gone has no reason but its disruption.

Example: node n1 is cordoned at 12:00:05. The attempt of worker/0 started there at 12:00:00: it
leaves with NodeCordoned. Its next attempt starts at 12:00:20, also on n1, because its template has
a toleration without a key: it stays.

Rules: docs/design/leaving.md, "When a Task leaves".
"""

from typing import NamedTuple

from controller.core.draft import Draft, RoleDraft
from framework.api.leaving import NODE_CORDONED, NODE_TAINTED, POD_DISRUPTED
from framework.api.nodes import NodeNotice
from framework.api.pods import PodView
from framework.api.templatefacts import find_facts
from framework.api.types import TaskStatus

_MAX_MESSAGE_CHARS = 256


class Reason(NamedTuple):
    """A reason to leave, and its details for users."""

    name: str
    message: str


def find_reason(
    draft: Draft, role: RoleDraft, task: TaskStatus, pod: PodView | None
) -> Reason | None:
    """Find why a Task leaves; None if it stays. ``pod`` is None if the Pod is gone."""
    uid = task.attempt_status.pod_uid or ""
    disruption = pod.disruption if pod is not None else draft.snapshot.disruptions.get(uid)
    if disruption:
        return _build(POD_DISRUPTED, f"the Pod is disrupted: {disruption}")
    if pod is None:
        return None
    notices = draft.snapshot.nodes.get(pod.node_name, ()) if pod.node_name else ()
    # Times in a status are whole seconds: an attempt of the same second may be older.
    recent = [notice for notice in notices if task.attempt_status.start_time <= notice.since]
    facts = find_facts(role.spec.task.pod if role.spec is not None else None)
    for notice in recent:
        if not facts.tolerates(notice.taint, by_key=notice.is_dated):
            return _describe(pod.node_name, notice)
    return None


def _describe(name: str, notice: NodeNotice) -> Reason:
    if notice.is_cordon:
        return _build(NODE_CORDONED, f"node {name} is cordoned")
    return _build(NODE_TAINTED, f"node {name} has the taint {notice.taint}")


def _build(name: str, message: str) -> Reason:
    return Reason(name, message[:_MAX_MESSAGE_CHARS])
