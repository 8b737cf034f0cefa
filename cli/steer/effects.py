"""Judges whether a change has taken effect. Pure.

A goal is judged again at each change of its Framework. It is reached, can never be reached, or is
open; an open goal names the missing parts.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from cli.invocation import build_command
from cli.steer.changes import Gang, explain_again, explain_over
from cli.steer.scaling import name_tasks
from framework.api.completion import is_left_running
from framework.api.constants import BLOCKED_CONDITION, FOREGROUND_DELETION_FINALIZER
from framework.api.naming import TaskKey
from framework.api.states import TASK_ENDED, TaskState
from framework.api.types import ExecutionType, TaskRoleSpec, TaskRoleStatus, TaskStatus

# The most names in a sentence.
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state of a goal."""

    is_reached: bool = False
    """Whether it is reached."""
    failure: str = ""
    """Why it can never be reached; "" if it can."""
    text: str = ""
    """The missing parts, or the reached state."""
    needs_pods: bool = False
    """Whether the goal can be judged only with the Pods of the Framework."""

    @property
    def is_final(self) -> bool:
        """Return whether there is nothing more to wait for."""
        return self.is_reached or bool(self.failure)


class Goal(Protocol):
    """A state of a Framework for which a command waits."""

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
        """Judge by the state: it is Completed when all Pods but those left running are gone."""
        if gang is None or gang.uid != self.uid:
            return Verdict(is_reached=True, text="was deleted")
        if gang.has_left_pods:
            return _judge_left_pods(gang)
        if gang.is_completed:
            return Verdict(is_reached=True, text="all of its Pods have ended")
        left = list_pods(gang)
        if not left:
            return Verdict(text="waits for the end of the attempt")
        return Verdict(text=f"waits for {len(left)} Pods: {name_some(left)}")


def _judge_left_pods(gang: Gang) -> Verdict:
    """Judge by the Pods: the status of an ended Framework does not follow those left running."""
    if gang.live_pod_uids is None:
        return Verdict(text="waits for the Pods that were left running", needs_pods=True)
    left = [
        f"{role.name}/{task.index}"
        for role, task in _walk_tasks(gang)
        if is_left_running(task.attempt_status.completion_status)
        and task.attempt_status.pod_uid in gang.live_pod_uids
    ]
    if not left:
        return Verdict(is_reached=True, text="the Pods that were left running have ended")
    return Verdict(text=f"waits for {len(left)} Pods that were left running: {name_some(left)}")


@dataclass(frozen=True, slots=True)
class Scaled:
    """Roles have the size of the spec: new Tasks run, and Tasks that left are gone."""

    name: str
    uid: str
    generation: int
    """Generation of the changed spec."""
    roles: tuple[str, ...]
    """Roles that were changed."""

    def judge(self, gang: Gang | None) -> Verdict:
        """Judge by the Tasks in the status."""
        if gang is None or gang.uid != self.uid:
            return Verdict(failure="was deleted")
        obstacle = _explain_obstacle(gang)
        if obstacle:
            return Verdict(failure=obstacle)
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
    """The next attempts of Tasks run."""

    name: str
    uid: str
    ended: Mapping[TaskKey, int]
    """The number of the ended attempt of each Task."""

    def judge(self, gang: Gang | None) -> Verdict:
        """Judge by the entries of the Tasks."""
        if gang is None or gang.uid != self.uid:
            return Verdict(failure="was deleted")
        if gang.is_completed or gang.is_completing:
            return Verdict(failure="the attempt of the Framework has ended")
        verdicts = [_judge_retry(gang, key, attempt) for key, attempt in self.ended.items()]
        failed = next((verdict for verdict in verdicts if verdict.failure), None)
        missing = [verdict.text for verdict in verdicts if not verdict.is_reached]
        if failed is not None:
            return failed
        if missing:
            return Verdict(text="; ".join([*missing[:_SHOWN], *explain_blocked(gang)]))
        return Verdict(is_reached=True, text="; ".join(v.text for v in verdicts[:_SHOWN]))


def _judge_retry(gang: Gang, key: TaskKey, ended: int) -> Verdict:
    found = [t for r, t in _walk_tasks(gang) if (r.name, t.index) == tuple(key)]
    if not found or found[0].deletion_pending:
        return Verdict(failure=f"{key}: was scaled down")
    (task,) = found
    number = task.attempt_status.id
    if number <= ended and task.state is TaskState.COMPLETED:
        return Verdict(failure=f"{key}: has ended, and is not retried")
    if number <= ended:
        return Verdict(text=f"{key}: attempt {ended} ends")
    if task.state is TaskState.ATTEMPT_RUNNING or task.state in TASK_ENDED:
        return Verdict(is_reached=True, text=f"{key}: attempt {number} runs")
    return Verdict(text=f"{key}: attempt {number} starts")


@dataclass(frozen=True, slots=True)
class Deleted:
    """A Framework is deleted, with its ConfigMap and its Pods."""

    name: str
    uid: str

    def judge(self, gang: Gang | None) -> Verdict:
        """Judge by its UID: a new Framework with the same name does not count."""
        if gang is None or gang.uid != self.uid:
            return Verdict(is_reached=True)
        finalizers = [str(f) for f in gang.body["metadata"].get("finalizers") or ()]
        others = [f for f in finalizers if f != FOREGROUND_DELETION_FINALIZER]
        if FOREGROUND_DELETION_FINALIZER in finalizers:
            return Verdict(text="waits for its ConfigMap and its Pods")
        if others:
            return Verdict(
                text=f"held by the finalizers {', '.join(others)}: the programs that set them must "
                f"remove them; see `kubectl get framework {self.name} -o yaml`"
            )
        return Verdict(text="waits for its deletion")


def _explain_obstacle(gang: Gang) -> str:
    """Explain why no Task runs until a user acts, with the remedy; "" if Tasks may run."""
    over = explain_over(gang)
    if over:
        return f"{over}, and no Task of it runs again; {explain_again(gang.name)}"
    if gang.spec.execution_type is ExecutionType.CREATE:
        start = build_command("start", gang.name)
        return f"is not started, so no Task runs yet; `{start}` starts it with the new size"
    if gang.spec.suspend:
        resume = build_command("resume", gang.name)
        return f"is suspended, so no Task runs now; `{resume}` starts it with the new size"
    return ""


def list_pods(gang: Gang) -> list[str]:
    """Name the Tasks whose Pods are not known to be gone."""
    return [
        f"{role.name}/{task.index}"
        for role, task in _walk_tasks(gang)
        if task.state not in TASK_ENDED and task.attempt_status.pod_uid is not None
    ]


def explain_blocked(gang: Gang) -> list[str]:
    """Explain why the controller cannot continue; nothing if it can."""
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


def name_some(names: list[str]) -> str:
    """Join names, a few of many."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
