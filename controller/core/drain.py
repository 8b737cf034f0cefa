"""Drain: a scaled-down Task is let go only when the gang has taken note, or its time is up.

Called by scaling when a Task is marked, by the Task's machine before its Pod is deleted, and by
the roster policy. Source: FRAMEWORK, "Scaling" (drain).
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from controller.core.decision import EventType
from controller.core.draft import Draft, RoleDraft
from framework.api import constants, naming
from framework.api.pods import PodPhase, PodView
from framework.api.roster import Leaving, Roster, fingerprint_uid
from framework.api.types import ExecutionType, TaskStatus
from framework.api.wire import format_time

# Of a generation's number; a longer one is a text of somebody else's, and costly to read.
_MAX_DIGITS = 9


def set_deadline(draft: Draft, role: RoleDraft, task: TaskStatus) -> datetime | None:
    """Set until when a Task marked now may drain; None: it need not."""
    if role.spec is None or role.spec.drain is None or task.attempt_status.run_time is None:
        return None
    if draft.snapshot.published.roster is None:
        return None
    return draft.now + timedelta(seconds=role.spec.drain.timeout_seconds)


def is_draining(draft: Draft, role: RoleDraft, task: TaskStatus, pod: PodView) -> bool:
    """Tell whether a scaled-down Task's Pod must still be left alone."""
    deadline = task.drain_deadline_time
    published = draft.snapshot.published.roster
    if deadline is None or published is None or _is_hurried(draft):
        return False
    entry = _find_leaving(published, fingerprint_uid(pod.uid))
    late = None if entry is None else _find_late(draft, pod, entry.since)
    if late is not None and not late:
        return False
    if not draft.has_elapsed(deadline, 0):
        return True
    answer = ", ".join(late) if late else "the roster could not be published"
    key = naming.TaskKey(role.name, task.index)
    draft.tell(EventType.WARNING, "DrainTimedOut", f"{key} is let go without an answer of {answer}")
    return False


def list_leaving(draft: Draft, published: Roster | None) -> Iterator[Leaving]:
    """List the Tasks that drain, each since the generation that first shows it."""
    if published is None or _is_hurried(draft):
        return
    for role, task in draft.walk_tasks():
        pod = draft.snapshot.pods.get(task.attempt_status.pod_name)
        if not task.deletion_pending or task.drain_deadline_time is None or pod is None:
            continue
        if pod.uid != task.attempt_status.pod_uid or pod.is_terminating or pod.is_ended:
            continue
        fingerprint = fingerprint_uid(pod.uid)
        known = _find_leaving(published, fingerprint)
        yield Leaving(
            role.name,
            task.index,
            fingerprint,
            known.since if known else published.generation + 1,
            format_time(task.drain_deadline_time),
        )


def _is_hurried(draft: Draft) -> bool:
    """Tell whether the whole gang goes away, so that nobody need take note."""
    return (
        draft.is_completing
        or draft.spec.execution_type is ExecutionType.STOP
        or draft.snapshot.framework.metadata.deletion_time is not None
    )


def _find_leaving(roster: Roster, fingerprint: str) -> Leaving | None:
    return next((entry for entry in roster.leaving if entry.fingerprint == fingerprint), None)


def _find_late(draft: Draft, leaver: PodView, since: int) -> list[str]:
    """Find the Pods that are expected to take note of ``since`` and have not."""
    late = []
    for _, task in draft.walk_tasks():
        pod = draft.snapshot.pods.get(task.attempt_status.pod_name)
        if pod is None or pod.uid != task.attempt_status.pod_uid:
            continue
        is_expected = pod.uid == leaver.uid or not task.deletion_pending
        if is_expected and _has_agent(pod) and _read_acknowledged(pod) < since:
            late.append(pod.name)
    return late


def _has_agent(pod: PodView) -> bool:
    """Tell whether a running agent in the Pod has acknowledged a generation before."""
    key = constants.ACKNOWLEDGED_GENERATION_ANNOTATION
    is_alive = pod.phase is PodPhase.RUNNING and not pod.is_terminating
    return is_alive and key in pod.annotations


def _read_acknowledged(pod: PodView) -> int:
    text = pod.annotations[constants.ACKNOWLEDGED_GENERATION_ANNOTATION]
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else 0
