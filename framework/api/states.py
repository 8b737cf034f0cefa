"""The two state machines as tables: nine states each, and every legal transition.

The core uses these transitions only. The diagrams in docs/design/state-machines.md are generated
from the tables. Several transitions may share one write, so an observer may not see every state.

Example: the Pod of a Task disappears. The Task goes from AttemptRunning to AttemptCompleted and,
without a retry, to Completed, both in the same status write. With a retry, AttemptCompleted is
stored first, and a later decision moves the Task to AttemptCreationPending. Rules:
docs/design/state-machines.md, "Rules of both machines".
"""

from enum import StrEnum


class FrameworkState(StrEnum):
    """State of a Framework. It follows the attempt ConfigMap, identified by its UID."""

    ATTEMPT_CREATION_PENDING = "AttemptCreationPending"
    ATTEMPT_CREATION_REQUESTED = "AttemptCreationRequested"
    ATTEMPT_PREPARING = "AttemptPreparing"
    ATTEMPT_RUNNING = "AttemptRunning"
    ATTEMPT_DELETION_PENDING = "AttemptDeletionPending"
    ATTEMPT_DELETION_REQUESTED = "AttemptDeletionRequested"
    ATTEMPT_DELETING = "AttemptDeleting"
    ATTEMPT_COMPLETED = "AttemptCompleted"
    COMPLETED = "Completed"


class TaskState(StrEnum):
    """State of a Task. It follows the Pod, identified by its UID."""

    ATTEMPT_CREATION_PENDING = "AttemptCreationPending"
    ATTEMPT_CREATION_REQUESTED = "AttemptCreationRequested"
    ATTEMPT_PREPARING = "AttemptPreparing"
    ATTEMPT_RUNNING = "AttemptRunning"
    ATTEMPT_DELETION_PENDING = "AttemptDeletionPending"
    ATTEMPT_DELETION_REQUESTED = "AttemptDeletionRequested"
    ATTEMPT_DELETING = "AttemptDeleting"
    ATTEMPT_COMPLETED = "AttemptCompleted"
    COMPLETED = "Completed"


_F = FrameworkState
_T = TaskState

# From each state, the next states.
FRAMEWORK_TRANSITIONS: dict[FrameworkState, frozenset[FrameworkState]] = {
    _F.ATTEMPT_CREATION_PENDING: frozenset(
        {_F.ATTEMPT_CREATION_REQUESTED, _F.ATTEMPT_COMPLETED},
    ),
    _F.ATTEMPT_CREATION_REQUESTED: frozenset(
        {_F.ATTEMPT_PREPARING, _F.ATTEMPT_DELETING, _F.ATTEMPT_COMPLETED},
    ),
    _F.ATTEMPT_PREPARING: frozenset(
        {
            _F.ATTEMPT_RUNNING,
            _F.ATTEMPT_DELETION_PENDING,
            _F.ATTEMPT_DELETING,
            _F.ATTEMPT_COMPLETED,
        },
    ),
    _F.ATTEMPT_RUNNING: frozenset(
        {_F.ATTEMPT_DELETION_PENDING, _F.ATTEMPT_DELETING, _F.ATTEMPT_COMPLETED},
    ),
    _F.ATTEMPT_DELETION_PENDING: frozenset(
        {_F.ATTEMPT_DELETION_REQUESTED, _F.ATTEMPT_DELETING, _F.ATTEMPT_COMPLETED},
    ),
    _F.ATTEMPT_DELETION_REQUESTED: frozenset({_F.ATTEMPT_DELETING, _F.ATTEMPT_COMPLETED}),
    _F.ATTEMPT_DELETING: frozenset({_F.ATTEMPT_COMPLETED}),
    _F.ATTEMPT_COMPLETED: frozenset({_F.ATTEMPT_CREATION_PENDING, _F.COMPLETED}),
    _F.COMPLETED: frozenset(),
}

TASK_TRANSITIONS: dict[TaskState, frozenset[TaskState]] = {
    _T.ATTEMPT_CREATION_PENDING: frozenset(
        {_T.ATTEMPT_CREATION_REQUESTED, _T.ATTEMPT_COMPLETED},
    ),
    _T.ATTEMPT_CREATION_REQUESTED: frozenset(
        {_T.ATTEMPT_PREPARING, _T.ATTEMPT_DELETING, _T.ATTEMPT_COMPLETED},
    ),
    _T.ATTEMPT_PREPARING: frozenset(
        {
            _T.ATTEMPT_RUNNING,
            _T.ATTEMPT_DELETION_PENDING,
            _T.ATTEMPT_DELETING,
            _T.ATTEMPT_COMPLETED,
        },
    ),
    _T.ATTEMPT_RUNNING: frozenset(
        {_T.ATTEMPT_DELETION_PENDING, _T.ATTEMPT_DELETING, _T.ATTEMPT_COMPLETED},
    ),
    _T.ATTEMPT_DELETION_PENDING: frozenset(
        {_T.ATTEMPT_DELETION_REQUESTED, _T.ATTEMPT_DELETING, _T.ATTEMPT_COMPLETED},
    ),
    _T.ATTEMPT_DELETION_REQUESTED: frozenset({_T.ATTEMPT_DELETING, _T.ATTEMPT_COMPLETED}),
    _T.ATTEMPT_DELETING: frozenset({_T.ATTEMPT_COMPLETED}),
    _T.ATTEMPT_COMPLETED: frozenset({_T.ATTEMPT_CREATION_PENDING, _T.COMPLETED}),
    _T.COMPLETED: frozenset(),
}

# The attempt ends: no scaling, no completion policy, no Stop, no Pod creation.
FRAMEWORK_COMPLETING = frozenset(
    {_F.ATTEMPT_DELETION_PENDING, _F.ATTEMPT_DELETION_REQUESTED, _F.ATTEMPT_DELETING},
)
# A change of the spec does not scale the attempt: docs/design/scaling.md, "Scale up and down".
FRAMEWORK_FROZEN = FRAMEWORK_COMPLETING | {_F.ATTEMPT_COMPLETED, _F.COMPLETED}
# The Pod of the Task exists and has not ended, as far as observed.
TASK_ALIVE = frozenset(
    {_T.ATTEMPT_CREATION_REQUESTED, _T.ATTEMPT_PREPARING, _T.ATTEMPT_RUNNING},
)
# The attempt of the Task is over. Its Pod is deleted, unless it is retained.
TASK_ENDED = frozenset({_T.ATTEMPT_COMPLETED, _T.COMPLETED})


class IllegalTransitionError(AssertionError):
    """The core tried a transition that is not in its table: a bug of the core."""


def check_framework_transition(source: FrameworkState, target: FrameworkState) -> None:
    """Raise IllegalTransitionError unless the transition is in the table."""
    if target not in FRAMEWORK_TRANSITIONS[source]:
        raise IllegalTransitionError(f"Framework: {source} -> {target}")


def check_task_transition(source: TaskState, target: TaskState) -> None:
    """Raise IllegalTransitionError unless the transition is in the table."""
    if target not in TASK_TRANSITIONS[source]:
        raise IllegalTransitionError(f"Task: {source} -> {target}")
