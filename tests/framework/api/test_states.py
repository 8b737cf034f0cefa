from collections.abc import Mapping
from enum import StrEnum
from itertools import pairwise

import pytest

from framework.api.states import (
    FRAMEWORK_COMPLETING,
    FRAMEWORK_FROZEN,
    FRAMEWORK_TRANSITIONS,
    TASK_ALIVE,
    TASK_ENDED,
    TASK_TRANSITIONS,
    FrameworkState,
    IllegalTransitionError,
    TaskState,
    check_framework_transition,
    check_task_transition,
)

# The ordinary way.
CHAIN = (
    "AttemptCreationPending",
    "AttemptCreationRequested",
    "AttemptPreparing",
    "AttemptRunning",
    "AttemptDeletionPending",
    "AttemptDeletionRequested",
    "AttemptDeleting",
    "AttemptCompleted",
    "Completed",
)
# The retry and the shortcuts.
LEGAL = (
    set(pairwise(CHAIN))
    | {("AttemptCompleted", "AttemptCreationPending")}
    | {("AttemptPreparing", "AttemptDeletionPending")}
    | {(state, "AttemptCompleted") for state in CHAIN[:7]}
    | {(state, "AttemptDeleting") for state in CHAIN[1:6]}
)
TABLES = [
    pytest.param(FrameworkState, FRAMEWORK_TRANSITIONS, id="framework"),
    pytest.param(TaskState, TASK_TRANSITIONS, id="task"),
]


@pytest.mark.parametrize(("states", "table"), TABLES)
def test_states_and_transitions_are_those_of_the_original(
    states: type[StrEnum], table: Mapping[StrEnum, frozenset[StrEnum]]
) -> None:
    assert tuple(state.value for state in states) == CHAIN
    assert set(table) == set(states)
    assert {(str(source), str(target)) for source in states for target in table[source]} == LEGAL


@pytest.mark.parametrize("source", CHAIN)
@pytest.mark.parametrize("target", CHAIN)
def test_check_transition_raises_on_every_other_step(source: str, target: str) -> None:
    framework = FrameworkState(source), FrameworkState(target)
    task = TaskState(source), TaskState(target)
    if (source, target) in LEGAL:
        check_framework_transition(*framework)
        check_task_transition(*task)
        return
    with pytest.raises(IllegalTransitionError, match=f"Framework: {source} -> {target}"):
        check_framework_transition(*framework)
    with pytest.raises(IllegalTransitionError, match=f"Task: {source} -> {target}"):
        check_task_transition(*task)


def test_groups_of_states_are_those_of_the_contract() -> None:
    assert {str(s) for s in FRAMEWORK_COMPLETING} == set(CHAIN[4:7])
    assert {str(s) for s in FRAMEWORK_FROZEN} == set(CHAIN[4:])
    assert {str(s) for s in TASK_ALIVE} == set(CHAIN[1:4])
    assert {str(s) for s in TASK_ENDED} == set(CHAIN[7:])
