"""Pods the server will never create: their Tasks end together, whichever answer came first."""

from collections.abc import Iterable
from typing import Any

import pytest

from controller.core.actions import ActionKey, ObjectKind, Verb
from controller.core.decide import decide
from controller.core.decision import Decision, EventType
from controller.core.snapshot import Failure
from framework.api.completion import classify_creation_error
from framework.api.states import FrameworkState, TaskState
from framework.api.types import CompletionPolicySpec
from tests.support.builders import build_role, build_role_status, build_spec, build_status
from tests.support.builders.cases import cases
from tests.support.builders.worlds import (
    SETTINGS,
    build_failure,
    build_snapshot,
    get_status,
    list_keys,
)

POD = ObjectKind.POD
PENDING = TaskState.ATTEMPT_CREATION_PENDING


def create(index: int, role: str = "worker") -> ActionKey:
    return ActionKey(Verb.CREATE, POD, f"gang-{role}-{index}", f"task-{role}-{index}/0")


def ask(
    refused: Iterable[int],
    *,
    in_flight: Iterable[int] = (),
    gone: Iterable[int] = (),
    count: int = 3,
    failure: Failure | None = None,
) -> Decision:
    """Decide on Tasks of which none has a Pod yet; the other role has one Task more."""
    failure = failure or build_failure(422, "bad", seconds=9)
    fail_fast = CompletionPolicySpec(min_failed_task_count=1)
    spec = build_spec(
        build_role(number=count, completion_policy=fail_fast), build_role("other", number=1)
    )
    roles = [build_role_status(number=count, state=PENDING), build_role_status("other", 1, PENDING)]
    status = build_status(*roles, state=FrameworkState.ATTEMPT_PREPARING)
    return decide(
        build_snapshot(
            spec,
            status,
            failures={create(index): failure for index in refused},
            in_flight=frozenset(create(index) for index in in_flight),
            live={(POD, f"gang-worker-{index}"): "" for index in gone},
        ),
        SETTINGS,
    )


def list_codes(decision: Decision) -> list[int | None]:
    status = get_status(decision)
    (role,) = (r for r in status.attempt_status.task_roles if r.name == "worker")
    ends = [task.attempt_status.completion_status for task in role.tasks]
    return [end.code if end else None for end in ends]


def test_all_that_were_refused_end_in_one_decision_and_the_first_triggers() -> None:
    decision = ask([2, 1, 0], gone=[0, 1, 2])
    assert list_codes(decision) == [-200] * 3
    completion = get_status(decision).attempt_status.completion_status
    assert completion is not None
    assert completion.code == -200
    assert completion.trigger is not None
    assert completion.trigger.task_index == 0


def test_refused_pods_of_a_role_are_one_event() -> None:
    decision = ask([2, 1, 0], gone=[0, 1, 2])
    assert [(e.type, e.reason, e.message) for e in decision.events] == [
        (EventType.WARNING, "FailedCreate", "worker/0: its Pod cannot be created: bad")
    ]


@cases("in_flight gone", an_answer_is_out=([0], [1, 2]), one_was_not_looked_after=([], [1, 2]))
def test_no_task_ends_before_all_creates_are_answered(
    in_flight: list[int], gone: list[int]
) -> None:
    refused = {0, 1, 2} - set(in_flight)
    decision = ask(refused, in_flight=in_flight, gone=gone)
    assert list_codes(decision) == [None] * 3
    assert ("get", "gang-worker-0") in list_keys(decision.actions) or in_flight


def test_no_more_pods_of_a_refused_role_are_created_but_of_other_roles() -> None:
    assert list_keys(ask([1]).actions) == [("get", "gang-worker-1"), ("create", "gang-other-0")]


def test_tasks_without_a_create_end_with_the_attempt() -> None:
    assert list_codes(ask([1], gone=[1])) == [-220, -200, -220]


def test_temporary_refusal_delays_no_other_create() -> None:
    quota = build_failure(403, "exceeded quota", seconds=9)
    decision = ask([1], failure=quota)
    creates = [("create", f"gang-{name}-{i}") for name, i in (("worker", 0), ("worker", 2))]
    assert list_keys(decision.actions) == [*creates, ("create", "gang-other-0")]


def test_quota_that_refuses_a_thousand_is_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def classify(error: Any) -> object:
        seen.append(error)
        return original(error)

    original = classify_creation_error
    monkeypatch.setattr("controller.core.objects.refusals.classify_creation_error", classify)
    ask(range(900), count=1000, failure=build_failure(403, "exceeded quota", seconds=9))
    assert len(seen) == 900
