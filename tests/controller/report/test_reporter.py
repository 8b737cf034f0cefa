"""What users are recorded, once each, after it is persisted."""

from typing import Any

import pytest

from controller.core.decision import Event, EventType
from controller.report.reporter import Reporter
from controller.store.entry import Entry
from framework.api.fielderrors import FieldError, FieldErrors
from tests.support.builders import build_framework, build_status


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


def test_events_of_the_decision_are_told(recorded: Recorded, reporter: Reporter) -> None:
    event = Event(EventType.WARNING, "Why", "words")
    reporter.report_change(build_framework(status=build_status()), build_status(), [event])
    assert recorded.events == [("Warning", "Why", "words")]
    assert recorded.involved[0]["uid"] == build_framework().metadata.uid


def test_nothing_is_told_of_a_framework_that_is_gone(
    recorded: Recorded, reporter: Reporter
) -> None:
    reporter.report_change(None, build_status(), [Event(EventType.NORMAL, "Why", "words")])
    assert recorded.events == []


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
