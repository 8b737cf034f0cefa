"""Puts the causes in order: the root cause first. Pure.

1. A cause of a deeper kind comes first (``Kind``): a barrier that waits is a result of the image
   that cannot be pulled.
2. Of one kind, the cause that began first comes first; those without a time come last.
3. If the attempt has ended, the cause with the Task that ended it comes before all others, which
   may be results of the end.
"""

from datetime import UTC, datetime

from cli.why.cause import Cause, Kind
from cli.why.causes import RULES
from cli.why.observation import STARTING_STATES, Observation
from cli.why.remedies import name_job
from framework.api.naming import TaskKey

_DEPTH = {kind: depth for depth, kind in enumerate(Kind)}
_LAST = datetime.max.replace(tzinfo=UTC)


def find_causes(observation: Observation) -> tuple[Cause, ...]:
    """Find all causes, the root cause first."""
    found = [name_job(observation, cause) for rule in RULES for cause in rule(observation)]
    decisive = _find_decisive(observation)
    return tuple(sorted(found, key=lambda cause: _get_rank(cause, decisive)))


def count_waiting(observation: Observation, cause: Cause) -> int:
    """Count the other Tasks that cannot start or go on while a cause lasts."""
    if observation.is_attempt_over:
        return 0
    return sum(
        task.status.state in STARTING_STATES
        and not task.status.deletion_pending
        and task.key not in cause.tasks
        for task in observation.tasks
    )


def _find_decisive(observation: Observation) -> TaskKey | None:
    """Find the Task that ended the attempt."""
    status = observation.status
    end = status.attempt_status.completion_status if status else None
    if end is None or end.type.is_succeeded or end.trigger is None:
        return None
    return TaskKey(end.trigger.task_role_name, end.trigger.task_index)


def _get_rank(cause: Cause, decisive: TaskKey | None) -> tuple[bool, int, datetime]:
    is_decisive = decisive is not None and decisive in cause.tasks
    return not is_decisive, _DEPTH[cause.kind], cause.since or _LAST
