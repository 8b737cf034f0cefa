"""Changes that are persisted are reported to users by Events, once each."""

from typing import Any

from controller.core.decision import Event, EventType
from controller.report.reporter import Reporter
from controller.store.entry import Entry
from framework.api.fielderrors import FieldError, FieldErrors
from framework.api.states import FrameworkState
from framework.api.types import Framework, FrameworkStatus
from tests.support.builders import FRAMEWORK_UID, build_framework, build_status
from tests.support.builders.cases import cases


class Recorder:
    """Stands in for the event recorder."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []
        self.involved: list[dict[str, Any]] = []
        self.reporter = Reporter(self)  # type: ignore[arg-type]  # only emit is needed

    def emit(self, involved: Any, event_type: EventType, reason: str, message: str) -> None:
        self.involved.append(involved)
        self.events.append((event_type.value, reason, message))


def ended(code: int, state: FrameworkState = FrameworkState.COMPLETED) -> FrameworkStatus:
    status = build_status(state=state)
    attempt = replace(status.attempt_status, completion_status=complete_framework(code, "why"))
    return replace(status, attempt_status=attempt)


RUNNING = build_framework(status=build_status())
EVENT = Event(EventType.WARNING, "Why", "words")


@cases(
    "before after decided expected",
    new_state=(
        build_framework(),
        build_status(),
        (),
        [("Normal", "AttemptRunning", "Attempt 0 is now AttemptRunning")],
    ),
    transient_state=(
        build_framework(),
        build_status(state=FrameworkState.ATTEMPT_PREPARING),
        (),
        [],
    ),
    state_of_an_end=(
        build_framework(),
        build_status(state=FrameworkState.ATTEMPT_DELETION_PENDING),
        (),
        [],
    ),
    same_state=(RUNNING, build_status(), (), []),
    event_of_the_decision=(RUNNING, build_status(), [EVENT], [("Warning", "Why", "words")]),
    framework_is_gone=(None, build_status(), [EVENT], []),
)
def test_change_is_reported_by_events(
    before: Framework | None, after: FrameworkStatus, decided: Any, expected: Any
) -> None:
    recorder = Recorder()
    recorder.reporter.report_change(before, after, decided)
    assert recorder.events == expected
    assert all(item["uid"] == FRAMEWORK_UID for item in recorder.involved)


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


def test_fault_is_reported_once_until_it_changes() -> None:
    recorder, entry = Recorder(), Entry("default", "gang")
    counts = []
    for path in ("spec", "spec", "status", None, "status"):
        entry.observed.fault = FieldErrors([FieldError(path, "is odd")]) if path else None
        recorder.reporter.report_fault(entry)
        counts.append(len(recorder.events))
    assert counts == [1, 1, 2, 2, 3]
    assert {reason for _, reason, _ in recorder.events} == {"UnreadableFramework"}
