"""Drain: the Pod of a scaled-down Task is deleted when the gang has acknowledged, or at a deadline.

1. When a Task is marked ``deletionPending``, its deadline is set (``compute_deadline``).
2. The next generation of the roster lists the Task as leaving, ``since`` its number
   (``list_leaving``).
3. The agents acknowledge each generation that they have applied by an annotation on their Pod.
4. The Pod is deleted when all expected agents have acknowledged ``since`` or a later generation, or
   at the deadline (``is_draining``).

Invariants:

- The deadline never moves.
- There is no drain when the attempt never ran, no roster is published, or the whole gang ends.

Example: worker 2 of three is scaled down; the drain may take 30 s. Generation 5 lists it as leaving
since 5. Workers 0 and 2 acknowledge 5 and worker 1 does not: the Pod of worker 2 is deleted after
30 s, and the Event DrainTimedOut names the Pod of worker 1.

Rules: docs/design/scaling.md, "Drain".
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from controller.core.decision import EventType
from controller.core.draft import Draft, RoleDraft
from framework.api import constants, naming
from framework.api.pods import PodPhase, PodView
from framework.api.roster import Leaving, Roster, fingerprint_uid
from framework.api.types import ExecutionType, TaskStatus
from framework.api.wire import format_time

# Digits of a generation. A longer number is not from an agent, and costs time to parse.
_MAX_DIGITS = 9
# Deadline of a time-out that ends after the last year of datetime.
_NEVER = datetime.max.replace(microsecond=0, tzinfo=UTC)
# Number of unacknowledged Pods that an Event names.
_MAX_NAMED = 10


def compute_deadline(draft: Draft, role: RoleDraft, task: TaskStatus) -> datetime | None:
    """Compute the deadline of a Task that is marked now; None for no drain."""
    if role.spec is None or role.spec.drain is None or task.attempt_status.run_time is None:
        return None
    if draft.snapshot.published.roster is None:
        return None
    leaving = task.attempt_status.leaving
    try:
        deadline = draft.now + timedelta(seconds=role.spec.drain.timeout_seconds)
    except OverflowError:
        deadline = _NEVER
    if leaving is None or leaving.deadline_time is None:
        return deadline
    # The node may be removed after the deadline of leaving.
    return min(deadline, leaving.deadline_time)


def is_draining(draft: Draft, role: RoleDraft, task: TaskStatus, pod: PodView) -> bool:
    """Return whether the Pod of a scaled-down Task must not be deleted yet."""
    deadline = task.drain_deadline_time
    if deadline is None or draft.snapshot.published.roster is None or is_skipped(draft):
        return False
    silent = find_unacknowledged(draft, pod)
    if silent is not None and not silent.count:
        return False
    if not draft.has_elapsed(deadline, 0):
        return True
    why = f"not acknowledged by {silent}" if silent else "the roster could not be published"
    key = naming.TaskKey(role.name, task.index)
    draft.add_event(EventType.WARNING, "DrainTimedOut", f"{key} is deleted at its deadline: {why}")
    return False


def list_leaving(draft: Draft, published: Roster | None) -> Iterator[Leaving]:
    """List the Tasks that drain or leave, each since the generation that first shows it."""
    if published is None or is_skipped(draft):
        return
    for role, task in draft.walk_tasks():
        if not task.deletion_pending and task.attempt_status.leaving is None:
            continue
        pod = draft.snapshot.pods.get(task.attempt_status.pod_name)
        deadline = None if pod is None else _find_shown_deadline(task, pod)
        if pod is None or deadline is None:
            continue
        fingerprint = fingerprint_uid(pod.uid)
        known = draft.compute_once(_index_leaving).get(fingerprint)
        yield Leaving(
            role.name,
            task.index,
            fingerprint,
            known.since if known else published.generation + 1,
            format_time(deadline),
        )


def _find_shown_deadline(task: TaskStatus, pod: PodView) -> datetime | None:
    """Find the deadline that the roster shows; None if the Pod does not leave, or has left.

    A Pod that terminates has left: it is in the failed members.
    """
    attempt = task.attempt_status
    if pod.uid != attempt.pod_uid or pod.is_ended or pod.is_terminating:
        return None
    if task.deletion_pending:
        return task.drain_deadline_time
    if attempt.leaving is None or attempt.completion_status is not None:
        return None
    return attempt.leaving.deadline_time


def find_unacknowledged(
    draft: Draft, pod: PodView, *, needs_complete: bool = False
) -> "Unacknowledged | None":
    """Find the agents that have not acknowledged that a Pod leaves; None before it is published.

    With ``needs_complete``, only the agent of the Pod itself is expected to acknowledge while the
    gang is not complete: the others keep their generation.
    """
    published = draft.snapshot.published.roster
    entry = draft.compute_once(_index_leaving).get(fingerprint_uid(pod.uid))
    if published is None or entry is None:
        return None
    is_kept = needs_complete and not published.complete
    staying = [] if is_kept else draft.compute_once(_list_acknowledgements)
    return _count_unacknowledged(staying, pod, entry.since)


def is_skipped(draft: Draft) -> bool:
    """Return whether the whole gang ends, so that no agent needs to acknowledge."""
    return (
        draft.is_completing
        or draft.spec.execution_type is ExecutionType.STOP
        or draft.snapshot.framework.metadata.deletion_time is not None
    )


def _index_leaving(draft: Draft) -> dict[str, Leaving]:
    """Index the published leaving Tasks by the fingerprints of their Pods."""
    published = draft.snapshot.published.roster
    leaving = () if published is None else published.leaving
    return {entry.fingerprint: entry for entry in reversed(leaving)}


class _Acknowledgement(NamedTuple):
    """The newest generation that the agent of a Pod has applied."""

    generation: int
    pod_name: str


@dataclass(frozen=True, slots=True)
class Unacknowledged:
    """Pods whose agents have not acknowledged: how many, and the names of the first."""

    count: int
    first: list[str]

    def __str__(self) -> str:
        more = self.count - len(self.first)
        return ", ".join(self.first) + (f" and {more} more" if more else "")


def _count_unacknowledged(
    staying: list[_Acknowledgement], leaving_pod: PodView, since: int
) -> Unacknowledged:
    """Find the Pods whose agents are expected to acknowledge ``since`` and have not."""
    count = bisect_left(staying, (since, ""))
    first = [acknowledgement.pod_name for acknowledgement in staying[:_MAX_NAMED]]
    first = first[:count]
    if _has_agent(leaving_pod) and _read_acknowledged(leaving_pod) < since:
        return Unacknowledged(count + 1, [leaving_pod.name, *first])
    return Unacknowledged(count, first)


def _list_acknowledgements(draft: Draft) -> list[_Acknowledgement]:
    """List the acknowledgements of the Tasks that stay, the oldest first."""
    pods = draft.snapshot.pods
    tasks = [t for _, t in draft.walk_tasks() if not t.deletion_pending]
    staying = [t.attempt_status for t in tasks if t.attempt_status.leaving is None]
    live = [pod for a in staying if (pod := pods.get(a.pod_name)) and pod.uid == a.pod_uid]
    return sorted(
        _Acknowledgement(_read_acknowledged(pod), pod.name) for pod in live if _has_agent(pod)
    )


def _has_agent(pod: PodView) -> bool:
    """Return whether a running agent in the Pod has acknowledged a generation before."""
    key = constants.ACKNOWLEDGED_GENERATION_ANNOTATION
    is_alive = pod.phase is PodPhase.RUNNING and not pod.is_terminating
    return is_alive and key in pod.annotations


def _read_acknowledged(pod: PodView) -> int:
    text = pod.annotations[constants.ACKNOWLEDGED_GENERATION_ANNOTATION]
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else 0
