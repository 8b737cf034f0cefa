"""Which keys the status of a job has: tables of old statuses."""

from dataclasses import replace
from datetime import timedelta

import pytest

from controller.kinds.decide.creators import update_creators
from controller.kinds.decide.decision import (
    Create,
    CreateKey,
    Decision,
    Obstacle,
    ServiceView,
    Snapshot,
    WriteStatus,
)
from controller.kinds.decide.tfjob import decide_tfjob
from controller.kinds.decide.trainingjob import decide_trainingjob
from controller.kinds.decide.undecided import TOO_LARGE, decide_undecided
from framework.api.wire import format_time
from framework.kinds.compiled import Object
from framework.kinds.tfjob.status import build_added_condition
from tests.controller.kinds.test_decide import KINDS, build_job, build_snapshot
from tests.support.builders import AT

LIMIT = format_time(AT + timedelta(seconds=60))
KEYS = [f"key-{number}" for number in range(128)]


def build(status: Object | None, **fields: object) -> Snapshot:
    job = build_job("TfJob")
    if status is not None:
        job["status"] = status
    return replace(Snapshot(job, None, {}, AT, creator_key="own"), **fields)  # type: ignore[arg-type]  # fields of the case


@pytest.mark.parametrize(
    ("status", "is_creating", "expected"),
    [
        (None, False, {"creatorKeys": []}),
        ({}, True, {"creatorKeys": ["own"]}),
        ({"creatorKeys": ["a"]}, False, {"creatorKeys": ["a"]}),
        ({"creatorKeys": ["a"]}, True, {"creatorKeys": ["a", "own"]}),
        ({"creatorKeys": ["own", "a"]}, True, {"creatorKeys": ["own", "a"]}),
        ({"phase": "Running"}, False, {"creatorKeys": [], "unsignedUntil": LIMIT}),
        ({"phase": "Running"}, True, {"creatorKeys": ["own"], "unsignedUntil": LIMIT}),
        (
            {"creatorKeys": ["a"], "unsignedUntil": "t"},
            True,
            {"creatorKeys": ["a", "own"], "unsignedUntil": "t"},
        ),
        ({"creatorKeys": [5, "a"]}, True, {"creatorKeys": ["a", "own"]}),
        ({"creatorKeys": KEYS}, True, {"creatorKeys": [KEYS[0], *KEYS[2:], "own"]}),
    ],
)
def test_status_has_the_keys_of_all_processes_that_created_something(
    status: Object | None, expected: Object, *, is_creating: bool
) -> None:
    assert update_creators(build(status), is_creating=is_creating) == expected


def test_key_of_a_service_that_exists_is_kept() -> None:
    services = {"a": ServiceView("uid", "form", creator=KEYS[1])}
    snapshot = build({"creatorKeys": KEYS}, services=services)
    fields = update_creators(snapshot, is_creating=True)
    assert fields["creatorKeys"] == [*KEYS[:2], *KEYS[3:], "own"]


@pytest.mark.parametrize("kind", KINDS)
def test_key_is_in_the_status_before_the_first_create(kind: str) -> None:
    decision = run(kind, build_snapshot(kind, creator_key="own"))
    stages = [{type(action) for action in stage} for stage in decision.stages]
    (write,) = decision.stages[0]
    assert isinstance(write, WriteStatus)
    assert write.status["creatorKeys"] == ["own"]
    assert any({Create, CreateKey} & stage for stage in stages[1:])


def test_first_status_of_a_job_that_is_not_decided_has_no_key() -> None:
    decision = decide_undecided(build(None), Obstacle(TOO_LARGE, "x"), build_added_condition)
    (write,) = decision.stages[0]
    assert isinstance(write, WriteStatus)
    assert write.status["creatorKeys"] == []


def run(kind: str, snapshot: Snapshot) -> Decision:
    return (decide_tfjob if kind == "TfJob" else decide_trainingjob)(snapshot)
