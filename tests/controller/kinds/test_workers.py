"""Which workers a TrainingJob has: its spec, its scalers and ``kubectl scale``."""

import json
from typing import Any

import pytest

from controller.kinds.decide.workers import (
    ScaledWorkers,
    choose_workers,
    decode_workers,
    set_workers,
)
from framework.api import constants
from framework.kinds.compiled import Object, WantedWorkers
from tests.framework.kinds.jobs import build_trainingjob
from tests.framework.kinds.scalers import build_gang

GOOD = {"count": 3, "absent": [1], "drainSeconds": 180, "replicas": 2}


def build_job(replicas: Any) -> Object:
    job = build_trainingjob()
    worker = job["spec"]["etReplicaSpecs"]["worker"]
    if replicas is None:
        del worker["replicas"]
    else:
        worker["replicas"] = replicas
    return job


def choose(
    replicas: Any,
    stored: dict[str, Any] | None,
    change: WantedWorkers | None = None,
    *,
    workers: set[int] | None = None,
    is_scaling: bool = False,
) -> ScaledWorkers | None:
    """Choose for a job with these replicas, whose Framework has this annotation and workers."""
    name = constants.SCALED_WORKERS_ANNOTATION
    annotations = {} if stored is None else {name: json.dumps(stored)}
    gang = build_gang(workers or {0, 2}, ())
    wire = {"metadata": {"annotations": annotations}}
    return choose_workers(build_job(replicas), gang, wire, change, is_scaling=is_scaling)


def scale(replicas: Any, stored: dict[str, Any] = GOOD) -> tuple[int, tuple[int, ...], int]:
    """Choose without a scaler: count, absent indexes, and the replicas that are in effect."""
    chosen = choose(replicas, stored)
    assert chosen is not None
    return chosen.workers.count, chosen.workers.absent, chosen.replicas


def test_encoded_workers_are_decoded_again() -> None:
    scaled = ScaledWorkers(WantedWorkers(3, (1,), 180), 2)
    assert decode_workers(scaled.encode()) == scaled


@pytest.mark.parametrize(
    "text",
    [
        None,
        3,
        "",
        "{",
        "[]",
        "[" * 100_000,
        json.dumps(GOOD) + " " * 128 * 1024,
        *(json.dumps({k: v for k, v in GOOD.items() if k != name}) for name in GOOD),
        *(json.dumps({**GOOD, name: -1}) for name in GOOD),
        *(json.dumps({**GOOD, name: "2"}) for name in GOOD),
        *(json.dumps({**GOOD, name: True}) for name in GOOD),
        json.dumps({**GOOD, "count": constants.MAX_TASK_NUMBER + 1}),
        json.dumps({**GOOD, "replicas": constants.MAX_TASK_NUMBER + 1}),
        json.dumps({**GOOD, "drainSeconds": 1_000_001}),
        json.dumps({**GOOD, "absent": [3]}),
        json.dumps({**GOOD, "absent": ["1"]}),
        json.dumps({**GOOD, "absent": [0, 1, 2]}),
        json.dumps({**GOOD, "count": 0, "absent": []}),
        json.dumps(GOOD).replace("180", "NaN"),
    ],
)
def test_annotation_of_another_form_counts_as_absent(text: object) -> None:
    assert decode_workers(text) is None


def test_absent_indexes_of_the_annotation_are_sorted_and_counted_once() -> None:
    decoded = decode_workers(json.dumps({**GOOD, "count": 5, "absent": [3, 1, 3]}))
    assert decoded == ScaledWorkers(WantedWorkers(5, (1, 3), 180), 2)


def test_job_without_scalers_has_the_workers_of_its_spec() -> None:
    assert choose(2, None) is None
    assert choose(5, None) is None


def test_job_without_a_framework_has_the_workers_of_its_spec() -> None:
    change = WantedWorkers(3)
    assert choose_workers(build_job(2), None, None, change, is_scaling=True) is None


def choose_without_framework(
    copy: object, replicas: int = 2, *, is_scaling: bool = False
) -> ScaledWorkers | None:
    """Choose for a job whose status has this copy, and whose Framework was deleted."""
    job = {**build_job(replicas), "status": {"phase": "Running", "scaledWorkers": copy}}
    return choose_workers(job, None, None, None, is_scaling=is_scaling)


def test_copy_in_the_status_replaces_the_annotation_of_a_deleted_framework() -> None:
    kept = ScaledWorkers(WantedWorkers(3, (1,), 180), 2)
    assert kept.build_wire() == GOOD
    assert choose_without_framework(GOOD) == kept
    assert choose_without_framework(GOOD, 9, is_scaling=True) == kept
    assert choose_without_framework(GOOD, 3) == ScaledWorkers(WantedWorkers(4, (1,)), 3)


@pytest.mark.parametrize("copy", [None, 3, "", [], {}, {**GOOD, "absent": [0, 1, 2]}])
def test_copy_of_another_form_counts_as_absent(copy: object) -> None:
    assert choose_without_framework(copy) is None


def test_copy_in_the_status_is_not_read_while_there_is_a_framework() -> None:
    job = {**build_job(2), "status": {"scaledWorkers": GOOD}}
    wire: Object = {"metadata": {"annotations": {}}}
    gang = build_gang({0, 1}, ())
    assert choose_workers(job, gang, wire, None, is_scaling=False) is None


def test_annotation_of_a_framework_that_cannot_be_read_is_kept() -> None:
    text = json.dumps(GOOD)
    wire: Object = {"metadata": {"annotations": {constants.SCALED_WORKERS_ANNOTATION: text}}}
    chosen = choose_workers(build_job(2), None, wire, None, is_scaling=False)
    assert chosen == ScaledWorkers(WantedWorkers(3, (1,), 180), 2)


def test_unchanged_replicas_leave_the_workers_that_scalers_have_chosen() -> None:
    assert choose(2, GOOD) == ScaledWorkers(WantedWorkers(3, (1,), 180), 2)


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        (1, (1, (), 1)),
        (3, (4, (1,), 3)),
        (5, (6, (1,), 5)),
        (None, (1, (), 1)),
    ],
)
def test_changed_replicas_win_with_the_highest_indexes(
    replicas: Any, expected: tuple[int, tuple[int, ...], int]
) -> None:
    assert scale(replicas) == expected


def test_as_many_replicas_as_scalers_have_made_change_no_worker() -> None:
    stored = {**GOOD, "replicas": 7}
    assert scale(2, stored) == (3, (1,), 2)


@pytest.mark.parametrize("replicas", [0, -1, "3", True, 10_000_000])
def test_refused_replicas_change_nothing(replicas: Any) -> None:
    assert scale(replicas) == (3, (1,), 2)


def test_change_of_a_scaler_keeps_the_replicas_that_are_in_effect() -> None:
    change = WantedWorkers(4, (1,), 60)
    assert choose(9, GOOD, change) == ScaledWorkers(change, 2)
    assert choose(9, None, change, workers={0, 1, 2}) == ScaledWorkers(change, 3)


def test_changed_replicas_wait_while_a_scaler_is_in_progress() -> None:
    assert choose(9, GOOD, is_scaling=True) == ScaledWorkers(WantedWorkers(3, (1,), 180), 2)
    waiting = choose(9, None, workers={0, 1}, is_scaling=True)
    assert waiting == ScaledWorkers(WantedWorkers(2), 2)


def test_workers_set_in_a_framework_leave_its_other_fields() -> None:
    launcher = {"name": "launcher", "taskNumber": 1}
    old = {"absentTaskIndices": [0], "drain": {"timeoutSec": 5}}
    worker = {"name": "worker", "taskNumber": 4, "task": {"pod": {}}, **old}
    body = {"metadata": {"name": "gang"}, "spec": {"x": 1, "taskRoles": [launcher, worker]}}
    changed = set_workers(body, WantedWorkers(2))
    assert changed == {
        "metadata": {"name": "gang"},
        "spec": {
            "x": 1,
            "taskRoles": [launcher, {"name": "worker", "taskNumber": 2, "task": {"pod": {}}}],
        },
    }
    role = set_workers(body, WantedWorkers(3, (1,), 180))["spec"]["taskRoles"][1]
    assert (role["taskNumber"], role["absentTaskIndices"]) == (3, [1])
    assert role["drain"] == {"timeoutSec": 180}
