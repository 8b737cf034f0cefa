"""Drain: a scaled-down Task is let go only when the gang has taken note, or its time is up.

Called by scaling when a Task is marked, by the Task's machine before its Pod is deleted, and by
the roster policy. Rules: docs/design/scaling.md, "Drain".
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from controller.core.decision import EventType
from controller.core.draft import Acknowledgement, Draft, RoleDraft
from framework.api import constants, naming
from framework.api.pods import PodPhase, PodView
from framework.api.roster import Leaving, Roster, fingerprint_uid
from framework.api.types import ExecutionType, TaskStatus
from framework.api.wire import format_time

# Of a generation's number; a longer one is a text of somebody else's, and costly to read.
_MAX_DIGITS = 9
# For a time-out of which no calendar has the end.
_NEVER = datetime.max.replace(microsecond=0, tzinfo=UTC)
# An event names so many of the Pods that have not answered.
_MAX_NAMED = 10


def set_deadline(draft: Draft, role: RoleDraft, task: TaskStatus) -> datetime | None:
    """Set until when a Task marked now may drain; None: it need not."""
    if role.spec is None or role.spec.drain is None or task.attempt_status.run_time is None:
        return None
    if draft.snapshot.published.roster is None:
        return None
    try:
        return draft.now + timedelta(seconds=role.spec.drain.timeout_seconds)
    except OverflowError:
        return _NEVER


def is_draining(draft: Draft, role: RoleDraft, task: TaskStatus, pod: PodView) -> bool:
    """Return whether a scaled-down Task's Pod must still be left alone."""
    deadline = task.drain_deadline_time
    published = draft.snapshot.published.roster
    if deadline is None or published is None or _is_drain_skipped(draft):
        return False
    entry = _index_leaving(draft, published).get(fingerprint_uid(pod.uid))
    late = None if entry is None else _find_late(draft, pod, entry.since)
    if late is not None and not late.count:
        return False
    if not draft.has_elapsed(deadline, 0):
        return True
    answer = str(late) if late else "the roster could not be published"
    key = naming.TaskKey(role.name, task.index)
    draft.add_event(
        EventType.WARNING, "DrainTimedOut", f"{key} is let go without an answer of {answer}"
    )
    return False


def list_leaving(draft: Draft, published: Roster | None) -> Iterator[Leaving]:
    """List the Tasks that drain, each since the generation that first shows it."""
    if published is None or _is_drain_skipped(draft):
        return
    for role, task in draft.walk_tasks():
        pod = draft.snapshot.pods.get(task.attempt_status.pod_name)
        if not task.deletion_pending or task.drain_deadline_time is None or pod is None:
            continue
        if pod.uid != task.attempt_status.pod_uid or pod.is_terminating or pod.is_ended:
            continue
        fingerprint = fingerprint_uid(pod.uid)
        known = _index_leaving(draft, published).get(fingerprint)
        yield Leaving(
            role.name,
            task.index,
            fingerprint,
            known.since if known else published.generation + 1,
            format_time(task.drain_deadline_time),
        )


def _is_drain_skipped(draft: Draft) -> bool:
    """Return whether the whole gang goes away, so that nobody need take note."""
    return (
        draft.is_completing
        or draft.spec.execution_type is ExecutionType.STOP
        or draft.snapshot.framework.metadata.deletion_time is not None
    )


def _index_leaving(draft: Draft, roster: Roster) -> dict[str, Leaving]:
    """Index the published leavers by the fingerprints of their Pods, once a pass."""
    if draft.leaving is None:
        draft.leaving = {entry.fingerprint: entry for entry in reversed(roster.leaving)}
    return draft.leaving


@dataclass(frozen=True, slots=True)
class _Late:
    """Pods that are expected to take note and have not: how many, and the first of them."""

    count: int
    first: list[str]

    def __str__(self) -> str:
        more = self.count - len(self.first)
        return ", ".join(self.first) + (f" and {more} more" if more else "")


def _find_late(draft: Draft, leaver: PodView, since: int) -> _Late:
    """Find the Pods that are expected to take note of ``since`` and have not."""
    staying = _list_acknowledgements(draft)
    count = bisect_left(staying, (since, ""))
    first = [acknowledgement.pod_name for acknowledgement in staying[:_MAX_NAMED]]
    first = first[:count]
    if _has_agent(leaver) and _read_acknowledged(leaver) < since:
        return _Late(count + 1, [leaver.name, *first])
    return _Late(count, first)


def _list_acknowledgements(draft: Draft) -> list[Acknowledgement]:
    """List what the agents of the Tasks that stay have applied, the oldest first; once a pass."""
    if draft.acknowledgements is None:
        pods = draft.snapshot.pods
        staying = [t.attempt_status for _, t in draft.walk_tasks() if not t.deletion_pending]
        live = [pod for a in staying if (pod := pods.get(a.pod_name)) and pod.uid == a.pod_uid]
        draft.acknowledgements = sorted(
            Acknowledgement(_read_acknowledged(pod), pod.name) for pod in live if _has_agent(pod)
        )
    return draft.acknowledgements


def _has_agent(pod: PodView) -> bool:
    """Return whether a running agent in the Pod has acknowledged a generation before."""
    key = constants.ACKNOWLEDGED_GENERATION_ANNOTATION
    is_alive = pod.phase is PodPhase.RUNNING and not pod.is_terminating
    return is_alive and key in pod.annotations


def _read_acknowledged(pod: PodView) -> int:
    text = pod.annotations[constants.ACKNOWLEDGED_GENERATION_ANNOTATION]
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else 0
