"""The status of scalers in the form of the original, and the workers of a job as a set."""

from typing import Any

import pytest

from framework.kinds.compiled import WantedWorkers
from framework.kinds.scaling.status import add_condition, decode_status, encode_status
from framework.kinds.scaling.types import Failure, ScalerKind, ScalerStatus
from framework.kinds.scaling.workers import (
    build_wanted,
    choose_highest,
    choose_new,
    find_index,
    read_workers,
)
from framework.kinds.trainingjob.compile import compile_trainingjob
from tests.framework.kinds.jobs import build_trainingjob, get_role
from tests.support.builders import at, build_role

IN, OUT = ScalerKind.SCALE_IN, ScalerKind.SCALE_OUT


def build_status(*types: str, **fields: Any) -> ScalerStatus:
    status = ScalerStatus(**fields)
    for number, type_ in enumerate(types):
        status = add_condition(status, type_, "Reason", "text", at(number))
    return status


def test_status_of_a_scale_in_that_succeeded() -> None:
    status = build_status(
        "Created",
        "Scaling",
        "ScriptExecuted",
        "ScaleSucceeded",
        pods=("job-worker-1",),
        launcher_uid="pod",
    )
    wire = encode_status(IN, status)
    assert [condition["type"] for condition in wire["conditions"]] == [
        "Created",
        "Scaling",
        "ScriptExecuted",
        "ScaleSucceeded",
    ]
    assert wire["conditions"][0] == {
        "type": "Created",
        "status": "True",
        "reason": "Reason",
        "message": "text",
        "lastUpdateTime": "2026-01-01T00:00:00Z",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    assert {key: value for key, value in wire.items() if key != "conditions"} == {
        "phase": "ScaleSucceeded",
        "replicaStatuses": {},
        "restartCount": 0,
        "toDeletePods": ["job-worker-1"],
        "launcherUID": "pod",
        "startTime": "2026-01-01T00:00:01Z",
        "completionTime": "2026-01-01T00:00:03Z",
    }


@pytest.mark.parametrize(
    ("types", "phase"),
    [
        ([], ""),
        (["Created"], "Created"),
        (["Created", "Scaling"], "Scaling"),
        (["Created", "Scaling", "ScriptExecuted"], "Scaling"),
        (["Created", "Scaling", "ScriptExecuted", "ScaleSucceeded"], "ScaleSucceeded"),
        (["Created", "ScaleFailed"], "ScaleFailed"),
    ],
)
def test_phase_is_the_last_condition(types: list[str], phase: str) -> None:
    assert encode_status(OUT, build_status(*types))["phase"] == phase


@pytest.mark.parametrize("kind", [IN, OUT])
def test_decoded_status_is_the_encoded_one(kind: ScalerKind) -> None:
    status = build_status(
        "Created",
        "Scaling",
        pods=("job-worker-2", "job-worker-3"),
        launcher_uid="pod",
        failure=Failure("Timeout", "late"),
    )
    wire = encode_status(kind, status)
    assert ("addPods" in wire) is (kind is OUT)
    assert decode_status(kind, wire) == status


@pytest.mark.parametrize(
    "wire",
    [
        None,
        "x",
        {},
        {"conditions": "x", "toDeletePods": "x", "failure": 1, "launcherUID": 2},
        {"conditions": [1, {"type": 2}, {"type": "Created", "status": "False"}]},
        {"conditions": [{"type": "Created", "status": "True", "lastTransitionTime": "soon"}]},
    ],
)
def test_status_of_another_form_counts_as_absent(wire: object) -> None:
    assert decode_status(IN, wire) == ScalerStatus()


def test_long_message_is_cut() -> None:
    status = add_condition(ScalerStatus(), "ScaleFailed", "X", "é" * 10_000, at(0))
    assert len(status.conditions[0].message.encode()) <= 512


@pytest.mark.parametrize(
    ("number", "absent", "workers"),
    [(0, (), set()), (3, (), {0, 1, 2}), (3, (1,), {0, 2}), (2, (0, 5), {1})],
)
def test_workers_of_a_role(number: int, absent: tuple[int, ...], workers: set[int]) -> None:
    assert read_workers(build_role("worker", number, absent_task_indices=absent)) == workers


@pytest.mark.parametrize(
    ("workers", "number", "absent"),
    [({0, 1}, 2, ()), ({0, 2}, 3, (1,)), ({0}, 1, ()), ({3}, 4, (0, 1, 2)), (set(), 0, ())],
)
def test_wanted_workers_as_the_compile_step_takes_them(
    workers: set[int], number: int, absent: tuple[int, ...]
) -> None:
    assert build_wanted(frozenset(workers), 90) == WantedWorkers(number, absent, 90)
    role = build_role("worker", number, absent_task_indices=absent)
    assert read_workers(role) == workers


def test_compiled_role_has_the_wanted_workers_and_their_drain() -> None:
    wanted = build_wanted(frozenset({0, 2}), 90)
    role = get_role(compile_trainingjob(build_trainingjob(), workers=wanted), "worker")
    fields = ("taskNumber", "absentTaskIndices", "drain")
    assert [role[name] for name in fields] == [3, [1], {"timeoutSec": 90}]
    plain = get_role(compile_trainingjob(build_trainingjob()), "worker")
    assert "drain" not in plain


def test_new_workers_get_the_greatest_index_plus_1() -> None:
    assert choose_new(frozenset({0, 3}), 2) == [4, 5]
    assert choose_new(frozenset(), 1) == [0]
    assert choose_new(frozenset({0, 3}), 3, limit=5) == [1, 2, 4]
    assert choose_highest(frozenset({0, 3, 7}), 2) == [3, 7]


@pytest.mark.parametrize(
    ("pod", "index"),
    [
        ("job-worker-12", 12),
        ("job-worker-01", None),
        ("job-launcher-0", None),
        ("other-worker-1", None),
        ("x", None),
    ],
)
def test_index_of_a_pod(pod: str, index: int | None) -> None:
    assert find_index("job", pod) == index
