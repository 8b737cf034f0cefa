import pytest

from cli.printing.columns import Aligner
from cli.see import eventlog
from cli.see.eventlog import EventLog
from framework.kube.resources import Object
from tests.support.builders import at, build_framework_wire
from tests.support.builders.observedframeworks import build_event


def collect(*events: Object) -> EventLog:
    log = EventLog(build_framework_wire())
    log.add(events)
    return log


def list_messages(*events: Object) -> list[str]:
    return [f"{r.subject}: {r.message}" for r in collect(*events).list_records()]


def test_events_of_the_framework_its_pods_and_its_configmap_are_in_the_order_of_time() -> None:
    assert list_messages(
        build_event(message="late", seconds=30),
        build_event(message="of a Task", kind="Pod", name="gang-worker-2", seconds=20),
        build_event(message="of the roster", kind="ConfigMap", name="gang-attempt", seconds=10),
    ) == ["ConfigMap: of the roster", "worker/2: of a Task", "Framework: late"]


@pytest.mark.parametrize(
    "event",
    [
        build_event(kind="Pod", name="gang-x-worker-2"),
        build_event(kind="Pod", name="other-worker-2"),
        build_event(kind="Pod", name="gang"),
        build_event(kind="ConfigMap", name="other-attempt"),
        build_event(name="gang-x"),
        build_event(involvedObject={"kind": "Framework", "name": "gang", "uid": "an earlier one"}),
        build_event(kind="Pod", name="gang-worker-2", seconds=-1),
        build_event(involvedObject="none"),
    ],
)
def test_event_of_another_object_or_an_earlier_framework_is_left_out(event: Object) -> None:
    assert list_messages(event) == []


def test_event_of_a_newer_api_has_its_time_and_count_in_the_series() -> None:
    series = {"count": 5, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}
    times: Object = {"firstTimestamp": None, "lastTimestamp": None, "count": None}
    event = build_event("Failed", "x", eventTime="2026-01-01T00:00:30Z", series=series, **times)
    (record,) = collect(event).list_records()
    assert record.build_row(at(120)) == ["60s (x5 over 90s)", "Normal", "Failed", "Framework", "x"]


def test_event_without_a_time_has_an_unknown_age() -> None:
    (record,) = collect(build_event(firstTimestamp=None, lastTimestamp="yesterday")).list_records()
    assert record.build_row(at(120))[0] == "<unknown>"


def test_flood_keeps_the_newest_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eventlog, "MAX_EVENTS", 3)
    log = collect(*(build_event(message=str(n), seconds=n) for n in (5, 1, 4, 2, 3)))
    assert [record.message for record in log.list_records()] == ["3", "4", "5"]
    assert (log.total, log.left_out) == (5, 2)


def test_foreign_event_is_trimmed_to_its_metadata() -> None:
    log = collect()
    foreign, own = build_event(name="other", message="x" * 1000), build_event()
    assert log.trim(foreign) == {"metadata": foreign["metadata"]}
    assert log.trim(own) == own


def test_row_of_a_hostile_event_controls_no_terminal() -> None:
    event = build_event("\x1b[2J", "a\x1b]0;x\x07\nfake: line", type="\u202e")
    (record,) = collect(event).list_records()
    (line,) = Aligner().align([record.build_row(at(60))])
    assert line.isprintable()
    assert "fake" not in line


def test_events_of_one_second_are_in_the_order_of_their_versions() -> None:
    at = "2026-01-01T00:00:05Z"
    versions = {"first": "99", "second": "100", "third": "101"}
    events = [
        build_event(message=text, lastTimestamp=at) | {"metadata": {"resourceVersion": version}}
        for text, version in reversed(versions.items())
    ]
    assert [record.message for record in collect(*events).list_records()] == list(versions)
