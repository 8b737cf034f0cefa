"""Changes that are persisted are reported to users by Events, once each."""

from typing import Any

from controller.core.decision import Event, EventType
from controller.report.reporter import Reporter
from controller.store.entry import Entry
from framework.api.fielderrors import FieldError, FieldErrors
from tests.support.builders import FRAMEWORK_UID, build_framework, build_status


class Recorder:
    """Stands in for the event recorder."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []
        self.involved: list[dict[str, Any]] = []
        self.reporter = Reporter(self)  # type: ignore[arg-type]  # only emit is needed

    def emit(self, involved: Any, event_type: EventType, reason: str, message: str) -> None:
        self.involved.append(involved)
        self.events.append((event_type.value, reason, message))


def test_events_of_a_decision_are_recorded_while_its_framework_exists() -> None:
    recorder, event = Recorder(), Event(EventType.WARNING, "Why", "words")
    for framework in (build_framework(status=build_status()), None):
        recorder.reporter.report_change(framework, build_status(), [event])
    assert recorder.events == [("Warning", "Why", "words")]
    assert recorder.involved[0]["uid"] == FRAMEWORK_UID


def test_fault_is_reported_once_until_it_changes() -> None:
    recorder, entry = Recorder(), Entry("default", "gang")
    counts = []
    for path in ("spec", "spec", "status", None, "status"):
        entry.observed.fault = FieldErrors([FieldError(path, "is odd")]) if path else None
        recorder.reporter.report_fault(entry)
        counts.append(len(recorder.events))
    assert counts == [1, 1, 2, 2, 3]
    assert {reason for _, reason, _ in recorder.events} == {"UnreadableFramework"}
