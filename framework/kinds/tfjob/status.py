"""Maps a Framework to the status of its TfJob. Pure.

1. ``phase``: Creating until a Pod runs, Running until the end, Done at the end, CleanUp while the
   TfJob is being deleted, Failed if it was refused.
2. ``state``: Unknown, Running, Succeeded or Failed, as the master ends.
3. ``reason``: why it was refused, how the master failed, or what holds up its creation.
4. ``replicaStatuses``: for each type, its state, and the count of replicas in each state.
5. ``conditions``: the latest ten. A condition is added when it becomes true. Before them are
   RestartPolicyTranslated, which stays, and the other conditions that the original does not have
   (``AddedCondition``).

Invariants: equal inputs give equal statuses; a status without news is the old one. The form is that
of the original, also where it mixes spellings (``tf_replica_type``, ``ReplicasStates``).

Example: master and one worker run, and the other worker is being retried: phase Running, state
Running, WORKER Running with the counts {Running: 1, Starting: 1}, last condition Recovering.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from framework.api.endings import INHERITED_CODES
from framework.api.states import FrameworkState
from framework.api.types import Framework, TaskRoleSpec, TaskStatus
from framework.api.wire import format_time
from framework.kinds.compiled import Object
from framework.kinds.ends import describe_failure
from framework.kinds.observing import (
    MAX_MESSAGE,
    AddedCondition,
    find_obstacle,
    is_running,
    list_tasks,
    read_conditions,
    split_added,
    update_added,
)
from framework.kinds.tfjob.types import MASTER

READY, RECOVERING = "Ready", "Recovering"
TRANSLATED = "RestartPolicyTranslated"
"""Not in the original: the TfJob has a restartPolicy that its Pods do not have."""
_MAX_CONDITIONS = 10
_MASTER_ROLE = MASTER.lower()
_TIMES = frozenset({"transitionTime"})
_CREATING = frozenset(
    {
        FrameworkState.ATTEMPT_CREATION_PENDING,
        FrameworkState.ATTEMPT_CREATION_REQUESTED,
        FrameworkState.ATTEMPT_PREPARING,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TfJobFacts:
    """What the TfJob itself says about its status."""

    is_deleting: bool = False
    """Whether it is being deleted."""
    fault: str = ""
    """Why it was refused; "" if it was not."""
    translation: str = ""
    """What became of its restartPolicy; "" if nothing did."""
    added_conditions: tuple[AddedCondition, ...] = ()
    """Conditions that the original does not have."""
    is_still_blocked: bool = False
    """Whether an object that could not be created is being tried again."""


def map_tfjob_status(
    framework: Framework | None,
    old: Mapping[str, Any] | None,
    now: datetime,
    facts: TfJobFacts,
) -> Object:
    """Compute the status; ``framework`` None: it does not exist yet."""
    replicas = [] if framework is None else _list_replicas(framework)
    conditions = _update_conditions(framework, read_conditions(old), now, facts)
    return {
        "phase": _find_phase(framework, facts),
        "state": _find_state(framework, facts),
        "reason": _find_reason(framework, facts, conditions),
        "controlPaused": False,
        "conditions": conditions,
        "replicaStatuses": replicas,
    }


def _find_phase(framework: Framework | None, facts: TfJobFacts) -> str:
    status = None if framework is None else framework.status
    if facts.is_deleting:
        return "CleanUp"
    if facts.fault:
        return "Failed"
    if status is None or status.state in _CREATING:
        return "Creating"
    return "Done" if status.state is FrameworkState.COMPLETED else "Running"


def _find_state(framework: Framework | None, facts: TfJobFacts) -> str:
    status = None if framework is None else framework.status
    if facts.fault:
        return "Failed"
    if status is None or status.state in _CREATING:
        return "Unknown"
    completion = status.attempt_status.completion_status
    if status.state is FrameworkState.COMPLETED and completion is not None:
        return "Succeeded" if completion.type.is_succeeded else "Failed"
    return "Running"


def _find_reason(
    framework: Framework | None, facts: TfJobFacts, conditions: Sequence[Object]
) -> str:
    if facts.fault:
        return facts.fault[:MAX_MESSAGE]
    status = None if framework is None else framework.status
    obstacle = find_obstacle(conditions)
    text = describe_failure(status, _MASTER_ROLE) or (obstacle or {}).get("reason", "")
    return str(text)[:MAX_MESSAGE]


def _list_replicas(framework: Framework) -> list[Object]:
    return [_map_role(framework, role) for role in framework.spec.task_roles]


def _map_role(framework: Framework, role: TaskRoleSpec) -> Object:
    tasks = list_tasks(framework, role.name)
    counts = Counter(_name_state(task) for task in tasks)
    missing = role.wanted_count - len(tasks)
    if missing > 0:
        counts["Unknown"] += missing
    return {
        "tf_replica_type": role.name.upper(),
        "state": _summarize(counts, role.wanted_count),
        "ReplicasStates": dict(sorted(counts.items())),
    }


def _name_state(task: TaskStatus) -> str:
    completion = task.attempt_status.completion_status
    if task.is_succeeded:
        return "Succeeded"
    if task.is_completed and completion is not None and completion.code in INHERITED_CODES:
        return "Unknown"  # stopped with its job: how it would have ended is not known
    if task.is_failed:
        return "Failed"
    return "Running" if is_running(task) else "Starting"


def _summarize(counts: Mapping[str, int], wanted: int) -> str:
    for state in ("Failed", "Running", "Starting"):
        if counts.get(state):
            return state
    return "Succeeded" if wanted and counts.get("Succeeded", 0) >= wanted else "Unknown"


def _update_conditions(
    framework: Framework | None, old: list[Object], now: datetime, facts: TfJobFacts
) -> list[Object]:
    ours, conditions = split_added(old)
    added_conditions = update_added(
        ours,
        facts.added_conditions,
        lambda added: build_added_condition(added, now),
        _TIMES,
        is_still_blocked=facts.is_still_blocked,
    )
    translated = [c for c in conditions if c["type"] == TRANSLATED]
    if facts.translation and not translated:
        translated = [_build_condition(TRANSLATED, facts.translation, now)]
    conditions = [c for c in conditions if c["type"] != TRANSLATED]
    news = None if framework is None else _find_news(framework)
    if news is not None and (not conditions or news[0] != conditions[-1]["type"]):
        conditions = [*conditions, _build_condition(*news, now)]
    return [*added_conditions, *translated, *conditions[-_MAX_CONDITIONS:]]


def _find_news(framework: Framework) -> tuple[str, str] | None:
    """Find whether the job is complete or loses replicas; None if neither."""
    roles = framework.spec.task_roles
    tasks = [(role, task) for role in roles for task in list_tasks(framework, role.name)]
    waiting = [(role, task) for role, task in tasks if _name_state(task) == "Starting"]
    for role, task in waiting:
        if task.retry_policy_status.total_retried_count:
            return RECOVERING, f"{role.name}/{task.index} is started again"
    is_complete = len(tasks) == framework.spec.wanted_count and not waiting
    if is_complete and any(is_running(task) for _, task in tasks):
        return READY, "all replicas run"
    return None


def build_added_condition(added: AddedCondition, now: datetime) -> Object:
    """Build the JSON of a condition that the original does not have."""
    return _build_condition(added.type, f"{added.reason}: {added.message}", now)


def _build_condition(type_: str, reason: str, now: datetime) -> Object:
    return {
        "type": type_,
        "reason": reason[:MAX_MESSAGE],
        "transitionTime": format_time(now),
    }
