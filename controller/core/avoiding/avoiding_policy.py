"""Avoiding: the next attempts of a Task do not run on nodes on which the Task failed.

1. When the Pod of a Task has failed on a node, the node and the time are added to the failures of
   the Task (``record_failure``), in the write that stores the completion. Ends that say nothing
   about the node do not count (``_is_counted``).
2. When the next attempt of the Task begins, failures that are older than the window are dropped.
   The nodes with enough failures are stored in the attempt, the latest failure first, at most
   ``max_nodes`` (``begin_attempt``).
3. The Pod of the attempt is created with a node affinity against these nodes
   (``objects.node_affinity``).

Invariants:

- An end counts once: with the completion status, which never changes.
- The avoided nodes of an attempt never change, so each create of its Pod is the same.
- They are at most ``max_nodes``, each with ``failures`` failures in the window that ended when the
  attempt began.
- The number of stored failures is bounded (``_find_most``); the oldest leave first.
- Roles without ``recovery.avoidNodes`` store nothing and avoid nothing.

Example: ``failures`` is 2, and worker/1 fails on n1 at 12:00 and at 12:10. Attempt 2 begins with
``avoidedNodes: [n1]`` and runs on n2, where it fails at 12:20. Attempt 3 avoids only n1, because n2
has one failure. With a window of an hour, an attempt that begins at 13:00 avoids no node.

Rules: docs/design/avoiding.md.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from controller.core.draft import Draft, RoleDraft
from framework.api import constants
from framework.api.avoiding import AvoidNodesSpec, NodeFailure
from framework.api.completion import CONFLICT, PERMANENT
from framework.api.endings import INHERITED_CODES
from framework.api.pods import PodView
from framework.api.types import TaskAttemptCompletionStatus, TaskStatus

# Of one Task. Of all Tasks of a Framework together: constants.MAX_NODE_FAILURES.
_MOST_FAILURES = 64


def record_failure(
    draft: Draft,
    role: RoleDraft,
    task: TaskStatus,
    pod: PodView,
    completion: TaskAttemptCompletionStatus,
) -> TaskStatus:
    """Record the failure of an attempt on its node, before its completion is set."""
    spec = _find_spec(role)
    is_ended = task.attempt_status.completion_status is not None
    if spec is None or is_ended or not pod.node_name or not _is_counted(pod, completion):
        return task
    failures = (*task.node_failures, NodeFailure(pod.node_name, draft.now))
    kept = _keep_recent(draft, failures, spec)
    return draft.put_task(role, replace(task, node_failures=kept))


def begin_attempt(draft: Draft, role: RoleDraft, task: TaskStatus) -> TaskStatus:
    """Choose the nodes that the new attempt of a Task avoids."""
    if not task.node_failures:
        return task
    spec = _find_spec(role)
    if spec is None:
        return draft.put_task(role, replace(task, node_failures=()))
    kept = _keep_recent(draft, task.node_failures, spec)
    attempt = replace(task.attempt_status, avoided_nodes=_select_nodes(kept, spec))
    return draft.put_task(role, replace(task, attempt_status=attempt, node_failures=kept))


def _find_spec(role: RoleDraft) -> AvoidNodesSpec | None:
    if role.spec is None or role.spec.recovery is None:
        return None
    return role.spec.recovery.avoid_nodes


def _is_counted(pod: PodView, completion: TaskAttemptCompletionStatus) -> bool:
    """Return whether the end may be due to the node.

    A disrupted Pod, or one whose end was requested, did not fail by itself. The Pod of a permanent
    failure fails everywhere, and that of a conflict has waited for other Pods.
    """
    kind = completion.type
    if pod.disruption or completion.code in INHERITED_CODES:
        return False
    is_elsewhere = kind.has_attribute(PERMANENT) or kind.has_attribute(CONFLICT)
    return kind.is_failed and not is_elsewhere


def _keep_recent(
    draft: Draft, failures: Sequence[NodeFailure], spec: AvoidNodesSpec
) -> tuple[NodeFailure, ...]:
    """Keep the latest failures in the window; of each node, at most as many as make it avoided."""
    # A failure in the future is from before the clock was set back: it is recent.
    window_start = draft.now - timedelta(seconds=spec.within_seconds)
    most = _find_most(draft.task_count, spec)
    counts: dict[str, int] = {}
    latest: list[NodeFailure] = []
    for failure in reversed(failures):
        if len(latest) == most:
            break
        count = counts.get(failure.node, 0)
        if count < spec.failures and failure.time is not None and failure.time > window_start:
            counts[failure.node] = count + 1
            latest.append(failure)
    return tuple(reversed(latest))


def _find_most(task_count: int, spec: AvoidNodesSpec) -> int:
    """Find how many failures of a Task are stored.

    Twice as many as the avoided nodes need, so that nodes with fewer failures are counted, too.
    """
    share = constants.MAX_NODE_FAILURES // max(1, task_count)
    return min(_MOST_FAILURES, share, 2 * spec.max_nodes * spec.failures)


def _select_nodes(failures: tuple[NodeFailure, ...], spec: AvoidNodesSpec) -> tuple[str, ...]:
    counts = Counter(failure.node for failure in failures)
    latest = dict.fromkeys(failure.node for failure in reversed(failures))
    nodes = [node for node in latest if counts[node] >= spec.failures]
    return tuple(nodes[: spec.max_nodes])
