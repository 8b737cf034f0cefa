"""One line per object that is replaced."""

import io
import json
import logging
import re
from typing import Any

import pytest

from controller.core.decision import ObjectSnapshot, SnapshotTrigger
from controller.report.history_log import HistoryLog
from framework.logs import MESSAGE_LIMIT_BYTES, LogFormat, configure_logging
from tests.support.builders import build_pod_wire

# The pattern of collectors for the Go original.
COLLECTED = re.compile(r": ObjectSnapshot: (.+)")


def log(caplog: pytest.LogCaptureFixture, *triggers: SnapshotTrigger) -> list[str]:
    snapshots = [
        ObjectSnapshot(trigger, "default/gang", {"kind": "Task", "trigger": str(trigger)})
        for trigger in SnapshotTrigger
    ]
    with caplog.at_level(logging.INFO):
        HistoryLog(set(triggers)).log(snapshots)
    return [record.getMessage() for record in caplog.records]


def parse(line: str) -> Any:
    match = COLLECTED.search(line)
    assert match is not None
    return json.loads(match.group(1))


def test_line_has_the_form_that_collectors_read(caplog: pytest.LogCaptureFixture) -> None:
    (line,) = log(caplog, SnapshotTrigger.TASK_RETRY)
    assert line.startswith("[default/gang]: OnTaskRetry: ObjectSnapshot: {")
    assert parse(line) == {"kind": "Task", "trigger": "OnTaskRetry"}


@pytest.mark.parametrize("triggers", [(), tuple(SnapshotTrigger)])
def test_only_configured_triggers_are_logged(
    caplog: pytest.LogCaptureFixture, triggers: tuple[SnapshotTrigger, ...]
) -> None:
    assert len(log(caplog, *triggers)) == len(triggers)


def test_deleted_pod_is_logged_without_its_secrets(caplog: pytest.LogCaptureFixture) -> None:
    container = {"name": "main", "env": [{"name": "TOKEN", "value": "s3cret"}]}
    pod = build_pod_wire(spec={"nodeName": "node-1", "containers": [container]})
    with caplog.at_level(logging.INFO):
        HistoryLog({SnapshotTrigger.POD_DELETION}).log_deleted_pod(pod)
        HistoryLog(set()).log_deleted_pod(pod)
    (record,) = caplog.records
    assert "OnPodDeletion" in record.getMessage()
    assert "s3cret" not in record.getMessage()
    assert "s3cret" not in str(vars(record))
    body = parse(record.getMessage())
    assert (body["kind"], body["apiVersion"]) == ("Pod", "v1")
    assert body["metadata"]["name"] == pod["metadata"]["name"]
    assert body["spec"]["containers"] == [{"name": "main"}]
    assert "cut" not in body


def test_largest_snapshot_is_logged_whole_in_both_formats() -> None:
    """The log cuts long messages; a snapshot must stay JSON."""
    state = {"terminated": {"reason": "\u202e\x1b\x9b\U000e0041" * 200}}
    status = {"containerStatuses": [{"name": '\\"<' * 100, "state": state}] * 10_000}
    pod = {**build_pod_wire(), "status": status}
    for log_format in LogFormat:
        stream = io.StringIO()
        configure_logging(log_format, "info", stream)
        HistoryLog({SnapshotTrigger.POD_DELETION}).log_deleted_pod(pod)
        (line,) = stream.getvalue().splitlines()
        message = json.loads(line)["message"] if log_format is LogFormat.JSON else line
        assert parse(message)["cut"] is True
        assert len(line) < 4 * MESSAGE_LIMIT_BYTES
