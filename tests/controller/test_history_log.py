"""One line per object that is replaced: FRAMEWORK, "Status size and history"."""

import json
import logging
import re

import pytest

from controller.core.decision import ObjectSnapshot, SnapshotTrigger
from controller.history_log import HistoryLog, redact
from tests.support.builders import build_pod_wire

# What collectors of the Go original look for.
COLLECTED = re.compile(r": ObjectSnapshot: (.+)")


def log(caplog: pytest.LogCaptureFixture, *triggers: SnapshotTrigger) -> list[str]:
    snapshots = [
        ObjectSnapshot(trigger, "default/gang", {"kind": "Task", "trigger": str(trigger)})
        for trigger in SnapshotTrigger
    ]
    with caplog.at_level(logging.INFO):
        HistoryLog(set(triggers)).log(snapshots)
    return [record.getMessage() for record in caplog.records]


def test_line_is_what_collectors_look_for(caplog: pytest.LogCaptureFixture) -> None:
    (line,) = log(caplog, SnapshotTrigger.TASK_RETRY)
    assert line.startswith("[default/gang]: OnTaskRetry: ObjectSnapshot: {")
    match = COLLECTED.search(line)
    assert match is not None
    assert json.loads(match.group(1)) == {"kind": "Task", "trigger": "OnTaskRetry"}


def test_only_what_is_asked_for_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert log(caplog) == []


def test_every_trigger_can_be_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    assert len(log(caplog, *SnapshotTrigger)) == len(SnapshotTrigger)


def test_deleted_pod_is_logged_without_its_secrets(caplog: pytest.LogCaptureFixture) -> None:
    pod = build_pod_wire(
        spec={"containers": [{"name": "main", "env": [{"name": "TOKEN", "value": "s3cret"}]}]}
    )
    with caplog.at_level(logging.INFO):
        HistoryLog({SnapshotTrigger.POD_DELETION}).log_deleted_pod(pod)
        HistoryLog(set()).log_deleted_pod(pod)
    (record,) = caplog.records
    assert "OnPodDeletion" in record.getMessage()
    assert "s3cret" not in record.getMessage()
    assert "s3cret" not in str(vars(record))


def test_only_literal_values_of_variables_are_redacted() -> None:
    reference = {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    body = {
        "containers": [{"env": [{"name": "A", "value": "x"}, reference, "odd"]}],
        "items": ({"env": [{"name": "C", "value": "y"}]},),
        "value": "kept",
        "env": "no list",
    }
    assert redact(body) == {
        "containers": [{"env": [{"name": "A", "value": "<redacted>"}, reference, "odd"]}],
        "items": [{"env": [{"name": "C", "value": "<redacted>"}]}],
        "value": "kept",
        "env": "no list",
    }
