"""The missing Tasks of a gang that is not complete, with reasons: its readiness.

A reason may change with every event, so the Tasks are listed only when the gang has been incomplete
for 2, 5, 10 and 20 s, and then every 30 s (``find_check_times``). The annotation with the readiness
changes only if the list does. The steps of the training are not here, but in
``status.training_progress``.

Example: a gang of 3 waits for an image. After 2 s its annotation says that 2 of 3 Tasks are ready,
and that worker/2 waits with ContainerCreating. It changes at the next check with another reason.

Rules: docs/design/roster.md, "Readiness".
"""

from datetime import UTC, datetime, timedelta

from controller.core.draft import Draft
from controller.core.objects.ownership import build_creation_key
from controller.core.settings import READINESS_AGES_SECONDS, READINESS_PERIOD_SECONDS
from framework.api.constants import POD_NOT_CREATED, READINESS_MAX_MISSING
from framework.api.gangreadiness import GangReadiness, Missing
from framework.api.pods import explain_waiting
from framework.api.states import TaskState
from framework.api.types import TaskStatus

_ENDING = (TaskState.ATTEMPT_DELETION_PENDING, TaskState.ATTEMPT_DELETION_REQUESTED)


def find_check_times(base: datetime, now: datetime) -> tuple[datetime | None, datetime]:
    """Find when the readiness was due last (None: not yet), and when it is due next.

    Args:
        base: when the gang became incomplete.
        now: the current time.
    """
    age = (now - base).total_seconds()
    ages = READINESS_AGES_SECONDS
    if age >= ages[-1] + READINESS_PERIOD_SECONDS:
        periods = int((age - ages[-1]) // READINESS_PERIOD_SECONDS)
        last = ages[-1] + periods * READINESS_PERIOD_SECONDS
        return _after(base, last), _after(base, last + READINESS_PERIOD_SECONDS)
    reached = [step for step in ages if step <= age]
    ahead = [step for step in ages if step > age]
    following = ahead[0] if ahead else ages[-1] + READINESS_PERIOD_SECONDS
    return _after(base, reached[-1]) if reached else None, _after(base, following)


def list_missing(draft: Draft) -> GangReadiness:
    """Count the ready Tasks of the drafted gang, and list the first missing Tasks."""
    ready = 0
    missing: list[Missing] = []
    for role, task in draft.walk_tasks():
        if task.deletion_pending or role.spec is None:
            continue
        reason = explain_missing(draft, task)
        if reason is None:
            ready += 1
        else:
            missing.append(Missing(role.name, task.index, reason))
    return GangReadiness(ready, draft.spec.wanted_count, tuple(missing[:READINESS_MAX_MISSING]))


def explain_missing(draft: Draft, task: TaskStatus) -> str | None:
    """Explain why a Task is not ready; None if it is."""
    if task.is_completed:
        return None
    attempt = task.attempt_status
    pod = draft.snapshot.pods.get(attempt.pod_name)
    if pod is None or pod.uid != attempt.pod_uid:
        return _explain_without_pod(draft, task)
    if pod.is_terminating:
        return "Pod is terminating"
    if pod.is_ended:
        return f"Pod has {pod.phase.lower()}"
    if task.state in _ENDING:
        return "Pod is terminating"
    return None if attempt.pod_ip else explain_waiting(pod)


def _explain_without_pod(draft: Draft, task: TaskStatus) -> str:
    failure = draft.snapshot.failures.get(build_creation_key(task))
    if failure is not None:
        return f"Pod cannot be created: {failure.message}"
    if task.state is TaskState.ATTEMPT_COMPLETED:
        return "the next attempt waits for its time"
    return POD_NOT_CREATED


def _after(base: datetime, seconds: float) -> datetime:
    try:
        return base + timedelta(seconds=seconds)
    except OverflowError:
        # The clock was wrong by thousands of years when it set the base.
        return datetime.max.replace(tzinfo=UTC)
