"""What users are recorded, once each, after it is persisted."""

from dataclasses import replace
from typing import Any

import pytest

from controller.core.decision import Event, EventType
from controller.report.reporter import Reporter, describe_state
from controller.store.entry import Entry
from framework.api.completion import complete_framework
from framework.api.fielderrors import FieldError, FieldErrors
from framework.api.states import FrameworkState
from framework.api.types import FrameworkStatus
from tests.support.builders import build_framework, build_status
from tests.support.builders.cases import cases


class Recorded:
    """Stands in for the recorder: what was recorded, in order."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []
        self.involved: list[dict[str, Any]] = []

    def emit(self, involved: Any, event_type: EventType, reason: str, message: str) -> None:
        self.involved.append(involved)
        self.events.append((event_type.value, reason, message))


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


@pytest.fixture
def reporter(recorded: Recorded) -> Reporter:
    return Reporter(recorded)  # type: ignore[arg-type]  # only emit is needed


def ended(code: int, state: FrameworkState = FrameworkState.COMPLETED) -> FrameworkStatus:
    status = build_status(state=state)
    attempt = replace(status.attempt_status, completion_status=complete_framework(code, "why"))
    return replace(status, attempt_status=attempt)


def test_new_state_is_told_with_who_it_is_about(recorded: Recorded, reporter: Reporter) -> None:
    reporter.report_change(build_framework(), build_status(), ())
    assert recorded.events == [("Normal", "AttemptRunning", "Attempt 0 is now AttemptRunning")]
    assert recorded.involved[0]["uid"] == build_framework().metadata.uid


@pytest.mark.parametrize(
    "state", [FrameworkState.ATTEMPT_PREPARING, FrameworkState.ATTEMPT_DELETION_PENDING]
)
def test_state_that_is_passed_through_is_not_told(
    recorded: Recorded, reporter: Reporter, state: FrameworkState
) -> None:
    reporter.report_change(build_framework(), build_status(state=state), ())
    assert recorded.events == []


def test_same_state_is_not_told_again(recorded: Recorded, reporter: Reporter) -> None:
    reporter.report_change(build_framework(status=build_status()), build_status(), ())
    assert recorded.events == []


def test_events_of_the_decision_are_told(recorded: Recorded, reporter: Reporter) -> None:
    event = Event(EventType.WARNING, "Why", "words")
    reporter.report_change(build_framework(status=build_status()), build_status(), [event])
    assert recorded.events == [("Warning", "Why", "words")]


def test_nothing_is_told_of_a_framework_that_is_gone(
    recorded: Recorded, reporter: Reporter
) -> None:
    reporter.report_change(None, build_status(), [Event(EventType.NORMAL, "Why", "words")])
    assert recorded.events == []


@cases(
    "status expected",
    succeeded=(ended(0), EventType.NORMAL),
    failed=(ended(-210), EventType.WARNING),
    may_be_retried=(ended(-210, FrameworkState.ATTEMPT_COMPLETED), EventType.NORMAL),
)
def test_only_a_final_failure_is_a_warning(status: FrameworkStatus, expected: EventType) -> None:
    event = describe_state(status)
    assert event.type is expected
    assert event.message.endswith("why")


def test_fault_is_told_once_until_it_changes(recorded: Recorded, reporter: Reporter) -> None:
    entry = Entry("default", "gang")
    entry.observed.fault = FieldErrors([FieldError("spec", "is odd")])
    reporter.report_fault(entry)
    reporter.report_fault(entry)
    assert [reason for _, reason, _ in recorded.events] == ["UnreadableFramework"]
    entry.observed.fault = FieldErrors([FieldError("status", "is odd")])
    reporter.report_fault(entry)
    assert len(recorded.events) == 2
    entry.observed.fault = None
    reporter.report_fault(entry)
    entry.observed.fault = FieldErrors([FieldError("status", "is odd")])
    reporter.report_fault(entry)
    assert len(recorded.events) == 3
