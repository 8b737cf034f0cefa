"""The draft of a decision: the status that is being changed, the requested actions and Events.

``decide`` makes one draft, and each step gets it. Its parts are frozen: a change replaces a part,
and an unchanged part is shared with the stored status. States move only here, along the tables of
``framework.api.states``.

A policy that needs a fact for each of ten thousand Tasks computes it once (``compute_once``).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar, TypeVarTuple

from controller.core.actions import Action, ActionKey, ObjectKind, Urgency, Verb
from controller.core.decision import Event, EventType, ObjectSnapshot
from controller.core.facts import build_facts
from controller.core.settings import LONGEST_PAUSE_SECONDS, Settings
from controller.core.snapshot import Failure, Snapshot
from controller.core.waits import Wait
from framework.api import states
from framework.api.naming import TaskKey
from framework.api.states import FrameworkState, TaskState
from framework.api.types import (
    FrameworkAttemptStatus,
    FrameworkSpec,
    FrameworkStatus,
    TaskAttemptStatus,
    TaskRoleSpec,
    TaskRoleStatus,
    TaskStatus,
)

T = TypeVar("T")
Args = TypeVarTuple("Args")


@dataclass(slots=True, eq=False)
class RoleDraft:
    """A role's status being changed, compared by identity. ``spec``: None if the role left it."""

    status: TaskRoleStatus
    spec: TaskRoleSpec | None
    tasks: list[TaskStatus] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The role's name."""
        return self.status.name

    def freeze(self) -> TaskRoleStatus:
        """Build the role's status; the stored object itself if nothing changed."""
        tasks = self.status.tasks
        if len(tasks) == len(self.tasks) and all(
            a is b for a, b in zip(tasks, self.tasks, strict=True)
        ):
            return self.status
        return replace(self.status, tasks=tuple(self.tasks))


def draft_roles(spec: FrameworkSpec, attempt: FrameworkAttemptStatus) -> list[RoleDraft]:
    """Build the drafts of an attempt's roles, each with its part of the spec."""
    specs = {role.name: role for role in reversed(spec.task_roles)}
    return [RoleDraft(role, specs.get(role.name), list(role.tasks)) for role in attempt.task_roles]


class Hold(NamedTuple):
    """Why a Framework may not grow: reason and message of the condition Blocked.

    ``is_temporary``: the growth starts later, without a change of the spec.
    """

    reason: str
    message: str
    is_temporary: bool = False


class Draft:
    """The draft of one decision about one Framework."""

    def __init__(self, snapshot: Snapshot, settings: Settings, status: FrameworkStatus) -> None:
        """Start from the stored status, or from the initial status of a new Framework."""
        self.snapshot = snapshot
        self.settings = settings
        self.status = status
        self.roles = draft_roles(snapshot.framework.spec, status.attempt_status)
        self.now = snapshot.now.replace(microsecond=0)
        self.actions: list[Action] = []
        self.events: list[Event] = []
        self.snapshots: list[ObjectSnapshot] = []
        self.wake_at: datetime | None = None
        self.waits: set[Wait] = set()
        self.urgency = Urgency.NONE
        # Whether a Task became Completed, so that the completion policy must be applied again.
        self.has_newly_completed = False
        # Set if the Framework exceeds a limit: no role or Task is added, no attempt starts.
        self.hold: Hold | None = None
        # Whether Pods wait for the gang key, which does not exist yet.
        self.lacks_gang_key = False
        self._facts = build_facts(snapshot, settings)
        self._computed: dict[tuple[Any, ...], Any] = {}

    def compute_once(self, compute: "Callable[[Draft, *Args], T]", *args: *Args) -> T:
        """Return ``compute(self, *args)``, computed at its first use in this decision.

        Later changes of the draft do not change the result.
        """
        key = (compute, *args)
        if key not in self._computed:
            self._computed[key] = compute(self, *args)
        result: T = self._computed[key]
        return result

    @property
    def spec(self) -> FrameworkSpec:
        """The spec; with a hold, without the roles and Tasks that the status lacks."""
        return self.snapshot.framework.spec

    @property
    def persisted(self) -> FrameworkStatus | None:
        """The stored status."""
        return self.snapshot.framework.status

    @property
    def state(self) -> FrameworkState:
        """The Framework's state in this draft."""
        return self.status.state

    @property
    def is_completing(self) -> bool:
        """Return whether the attempt has started to end and has not ended."""
        return self.state in states.FRAMEWORK_COMPLETING

    def freeze(self) -> FrameworkStatus:
        """Build the drafted status, which shares all unchanged parts with the stored status."""
        roles = tuple(role.freeze() for role in self.roles)
        old = self.status.attempt_status.task_roles
        if len(old) != len(roles) or any(a is not b for a, b in zip(old, roles, strict=True)):
            attempt = replace(self.status.attempt_status, task_roles=roles)
            self.status = replace(self.status, attempt_status=attempt)
        return self.status

    def walk_tasks(self) -> Iterator[tuple[RoleDraft, TaskStatus]]:
        """Walk the Tasks in the order of the status; each is read when the walk reaches it."""
        for role in self.roles:
            for index in range(len(role.tasks)):
                yield role, role.tasks[index]

    @property
    def task_count(self) -> int:
        """Number of Tasks, counted once. A decision that adds or drops Tasks does not read it."""
        return self.compute_once(_count_tasks)

    def find_persisted(self, role: str, index: int) -> TaskStatus | None:
        """Find a Task in the stored status."""
        return self._facts.stored_tasks.get(TaskKey(role, index))

    def is_persisted(self, *states: FrameworkState) -> bool:
        """Return whether the drafted attempt of the Framework is stored, in one of the states."""
        persisted = self.persisted
        return (
            persisted is not None
            and persisted.state in states
            and _is_same_attempt(persisted.attempt_status, self.status.attempt_status)
            and persisted.attempt_status.configmap_uid == self.status.attempt_status.configmap_uid
        )

    def is_task_persisted(self, role: RoleDraft, task: TaskStatus, *states: TaskState) -> bool:
        """Return whether the drafted attempt of a Task is stored, in one of the states."""
        persisted = self.find_persisted(role.name, task.index)
        return (
            persisted is not None
            and persisted.state in states
            and persisted.instance_uid == task.instance_uid
            and _is_same_attempt(persisted.attempt_status, task.attempt_status)
            and persisted.attempt_status.pod_uid == task.attempt_status.pod_uid
        )

    def is_create_in_flight(self, kind: ObjectKind, name: str) -> bool:
        """Return whether a create of this name is sent and unanswered."""
        return (kind, name) in self._facts.creates_in_flight

    @property
    def is_any_pod_create_in_flight(self) -> bool:
        """Return whether a create of any Pod is sent and unanswered."""
        return any(kind is ObjectKind.POD for kind, _ in self._facts.creates_in_flight)

    def is_gone(self, kind: ObjectKind, name: str, uid: str | None) -> bool:
        """Return whether the instance is known not to exist; ``uid`` None: any instance."""
        key = (kind, name)
        if key in self._facts.creates_in_flight or key not in self.snapshot.live:
            return False
        return uid is None or self.snapshot.live[key] != uid

    # --- changes of the status --------------------------------------------------------------

    def update(self, **changes: Any) -> None:
        """Change fields of the Framework's status."""
        self.status = replace(self.status, **changes)

    def update_attempt(self, **changes: Any) -> None:
        """Change fields of the attempt's status."""
        self.update(attempt_status=replace(self.status.attempt_status, **changes))

    def move(self, target: FrameworkState) -> None:
        """Move the Framework along its table, and set the times of the new state."""
        if self.state is target:
            return
        states.check_framework_transition(self.state, target)
        if target is FrameworkState.ATTEMPT_RUNNING:
            self.update_attempt(run_time=self.now)
            self.update(run_time=self.status.run_time or self.now)
        elif target is FrameworkState.ATTEMPT_COMPLETED:
            self.update_attempt(completion_time=self.now)
        elif target is FrameworkState.COMPLETED:
            self.update(completion_time=self.now)
        self.update(state=target, transition_time=self.now)
        if target is FrameworkState.COMPLETED:
            self.raise_urgency(Urgency.NOW)

    def put_task(self, role: RoleDraft, task: TaskStatus) -> TaskStatus:
        """Store a changed Task in the draft, and return it."""
        role.tasks[task.index] = task
        return task

    def move_task(self, role: RoleDraft, task: TaskStatus, target: TaskState) -> TaskStatus:
        """Move a Task along its table, and set the times of the new state."""
        if task.state is target:
            return task
        states.check_task_transition(task.state, target)
        changes: dict[str, Any] = {"state": target, "transition_time": self.now}
        if target is TaskState.ATTEMPT_RUNNING:
            changes["attempt_status"] = replace(task.attempt_status, run_time=self.now)
            changes["run_time"] = task.run_time or self.now
        elif target is TaskState.ATTEMPT_COMPLETED:
            changes["attempt_status"] = replace(task.attempt_status, completion_time=self.now)
        elif target is TaskState.COMPLETED:
            changes["completion_time"] = self.now
        return self.put_task(role, replace(task, **changes))

    # --- actions, Events and waits ----------------------------------------------------------

    def add_action(self, action: Action) -> bool:
        """Request an action, unless it is in flight or must wait; return whether it is new."""
        key = action.key
        if key in self.snapshot.in_flight:
            return False
        failure = self.snapshot.failures.get(key)
        if failure is not None and not self.is_wait_over(failure.failed_at, failure.not_before):
            return False
        if failure is None and key.verb is Verb.CREATE and not self._is_pause_over(key):
            return False
        self.actions.append(action)
        return True

    def _is_pause_over(self, key: ActionKey) -> bool:
        """Return whether the pause after refused creates of earlier attempts is over."""
        failure = self._facts.refused_creates.get((key.kind, key.name))
        if failure is None or failure.failed_at is None or failure.is_unknown:
            return True
        return self.is_wait_over(failure.failed_at, failure.failed_at + self._pause(failure))

    def _pause(self, failure: Failure) -> timedelta:
        doublings = min(failure.consecutive_failures - self.settings.free_refusals, 10)
        return timedelta(seconds=min(LONGEST_PAUSE_SECONDS, 2.0**doublings))

    def drop_creates(self) -> None:
        """Drop the creates of this decision, because the attempt ends."""
        self.actions = [action for action in self.actions if action.key.verb is not Verb.CREATE]

    def add_event(self, type_: EventType, reason: str, message: str) -> None:
        """Add an Event on the Framework."""
        self.events.append(Event(type_, reason, message))

    def raise_urgency(self, urgency: Urgency) -> None:
        """Raise the urgency of the status write to at least ``urgency``."""
        self.urgency = max(self.urgency, urgency)

    def request_wake(self, at: datetime) -> None:
        """Request the next decision at ``at`` or earlier."""
        if self.wake_at is None or at < self.wake_at:
            self.wake_at = at

    def is_wait_over(self, start: datetime | None, due: datetime) -> bool:
        """Return whether a wait that began at ``start`` is over; if not, request a wake at ``due``.

        It is also over when the clock was set back to a time before ``start``. Otherwise it would
        last until the clock reaches ``due`` again.
        """
        if due <= self.snapshot.now or (start is not None and self.snapshot.now < start):
            return True
        self.request_wake(due)
        return False

    def has_waited(self, wait: Wait, seconds: float) -> bool:
        """Return whether this controller has waited for so long; if not, request a wake then."""
        self.waits.add(wait)
        left = seconds - self.snapshot.waited.get(wait, 0.0)
        if left <= 0:
            return True
        self.request_wake(self.snapshot.now + timedelta(seconds=left))
        return False

    def has_elapsed(self, start: datetime, seconds: float) -> bool:
        """Return whether ``seconds`` have passed since ``start``; if not, request a wake then."""
        try:
            due = start + timedelta(seconds=seconds)
        except OverflowError:
            return False
        if due <= self.snapshot.now:
            return True
        self.request_wake(due)
        return False


def _is_same_attempt(
    stored: FrameworkAttemptStatus | TaskAttemptStatus,
    drafted: FrameworkAttemptStatus | TaskAttemptStatus,
) -> bool:
    """Return whether the stored attempt is the drafted one, with its completion if it has one."""
    is_end_stored = stored.completion_status is not None or drafted.completion_status is None
    return stored.id == drafted.id and is_end_stored


def _count_tasks(draft: Draft) -> int:
    return sum(len(role.tasks) for role in draft.roles)
