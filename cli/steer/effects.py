"""Judges whether a change has taken effect. Pure.

A goal is asked again at each change of its Framework. It is reached, it can never be reached, or it
is still open; then it says what is missing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from cli.steer.changes import Gang
from cli.steer.scaling import name_tasks
from framework.api.constants import BLOCKED_CONDITION
from framework.api.naming import TaskKey
from framework.api.states import TASK_ENDED, TaskState
from framework.api.types import ExecutionType, TaskRoleSpec, TaskRoleStatus, TaskStatus

FOREGROUND_FINALIZER = "foregroundDeletion"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a goal."""

    is_reached: bool = False
    """Whether it is reached."""
    failure: str = ""
    """Why it can never be reached; "" if it can."""
    text: str = ""
    """What is missing, or what was reached."""

    @property
    def is_final(self) -> bool:
        """Return whether there is nothing more to wait for."""
        return self.is_reached or bool(self.failure)


class Goal(Protocol):
    """What is waited for."""

    @property
    def name(self) -> str:
        """Name of the Framework."""
        ...

    def judge(self, gang: Gang | None) -> Verdict:
        """Judge the Framework as it is now; None if there is none of this name."""
        ...


@dataclass(frozen=True, slots=True)
class Stopped:
    """A Framework that was stopped has no Pods any more."""

    name: str
    uid: str

    def judge(self, gang: Gang | None) -> Verdict:
        """Judge by the state: it is Completed when all Pods are gone."""
        if gang is None or gang.uid != self.uid:
            return Verdict(is_reached=True, text="was deleted")
        if gang.is_completed:
            return Verdict(is_reached=True, text="all of its Pods have ended")
        left = [
            f"{role.name}/{task.index}"
            for role, task in _walk_tasks(gang)
            if task.state not in TASK_ENDED and task.attempt_status.pod_uid is not None
        ]
        if not left:
            return Verdict(text="waits for the end of the attempt")
        return Verdict(text=f"waits for {len(left)} Pods: {_name_some(left)}")


@dataclass(frozen=True, slots=True)
class Scaled:
    """Roles have the size of the spec: new Tasks run, and Tasks that left are gone."""

    name: str
    uid: str
    generation: int
    """Of the changed spec."""
    roles: tuple[str, ...]
    """Roles that were changed."""

    def judge(self, gang: Gang | None) -> Verdict:
        """Judge by the Tasks in the status."""
        if gang is None or gang.uid != self.uid:
            return Verdict(failure="was deleted")
        if gang.is_completed:
            return Verdict(failure=f"has ended ({gang.describe_end()})")
        if gang.spec.execution_type is ExecutionType.CREATE:
            return Verdict(failure="is not started, so no Task runs yet")
        observed = None if gang.status is None else gang.status.observed_generation
        if observed is None or observed < self.generation:
            return Verdict(text="the controller has not seen the change yet")
        roles = [role for role in gang.spec.task_roles if role.name in self.roles]
        missing = [text for role in roles for text in _find_missing(gang, role)]
        if not missing:
            sizes = (f"{role.name}: {role.wanted_count}" for role in roles)
            return Verdict(is_reached=True, text=f"has its new size ({', '.join(sizes)})")
        return Verdict(text="; ".join([*missing, *explain_blocked(gang)]))


@dataclass(frozen=True, slots=True)
class Retried:
    """The next attempt of a Task runs."""

    name: str
    uid: str
    task: TaskKey
    attempt: int
    """Number of the attempt before."""

    def judge(self, gang: Gang | None) -> Verdict:
        """Judge by the entry of the Task."""
        if gang is None or gang.uid != self.uid:
            return Verdict(failure="was deleted")
        if gang.is_completed or gang.is_completing:
            return Verdict(failure=f"{self.task}: the attempt of the Framework has ended")
        found = [t for r, t in _walk_tasks(gang) if (r.name, t.index) == tuple(self.task)]
        if not found or found[0].deletion_pending:
            return Verdict(failure=f"{self.task}: was scaled down")
        (task,) = found
        number = task.attempt_status.id
        if number <= self.attempt:
            if task.state is TaskState.COMPLETED:
                return Verdict(failure=f"{self.task}: has ended, and is not retried")
            return Verdict(text=f"{self.task}: attempt {self.attempt} ends")
        if task.state is TaskState.ATTEMPT_RUNNING or task.state in TASK_ENDED:
            return Verdict(is_reached=True, text=f"{self.task}: attempt {number} runs")
        return Verdict(
            text="; ".join([f"{self.task}: attempt {number} starts", *explain_blocked(gang)])
        )


@dataclass(frozen=True, slots=True)
class Deleted:
    """A Framework is gone, with everything that it waits for."""

    name: str
    uid: str

    def judge(self, gang: Gang | None) -> Verdict:
        """Judge by its existence: another Framework of this name is not it."""
        if gang is None or gang.uid != self.uid:
            return Verdict(is_reached=True)
        finalizers = [str(f) for f in gang.body["metadata"].get("finalizers") or ()]
        others = [f for f in finalizers if f != FOREGROUND_FINALIZER]
        if FOREGROUND_FINALIZER in finalizers:
            return Verdict(text="waits for its ConfigMap and its Pods")
        if others:
            return Verdict(
                text=f"held by the finalizers {', '.join(others)}: the programs that set them must "
                f"remove them; see `kubectl get framework {self.name} -o yaml`"
            )
        return Verdict(text="waits for its deletion")


def explain_blocked(gang: Gang) -> list[str]:
    """Say why the controller cannot continue; nothing if it can."""
    conditions = () if gang.status is None else gang.status.conditions
    found = [c for c in conditions or () if c.type == BLOCKED_CONDITION and c.status == "True"]
    return [f"blocked: {c.reason}: {c.message}" for c in found]


def _find_missing(gang: Gang, role: TaskRoleSpec) -> Iterator[str]:
    tasks = [task for status, task in _walk_tasks(gang) if status.name == role.name]
    leaving = [t for t in tasks if t.deletion_pending and t.state is not TaskState.COMPLETED]
    running = [t for t in tasks if not t.deletion_pending and _has_run(t)]
    if len(running) < role.wanted_count:
        yield f"{role.name}: {len(running)} of {role.wanted_count} Tasks run"
    if leaving:
        yield f"{name_tasks(role.name, [task.index for task in leaving])} leaving"


def _has_run(task: TaskStatus) -> bool:
    return task.state in {TaskState.ATTEMPT_RUNNING, TaskState.COMPLETED}


def _walk_tasks(gang: Gang) -> Iterator[tuple[TaskRoleStatus, TaskStatus]]:
    if gang.status is not None:
        yield from gang.status.attempt_status.walk_tasks()


def _name_some(names: list[str]) -> str:
    shown = 5
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more
