from typing import Any

from cli.see.drawing import render_tree
from cli.see.gangtree import build_tree
from cli.see.observation import ObservedFramework
from framework.api.completion import POD_EXTERNAL_DELETED
from tests.support.builders import address, at, build_role_status
from tests.support.builders.observedframeworks import (
    build_event,
    build_failed_task,
    build_observed,
    build_running,
)

NOW = at(600)


def draw(observed: ObservedFramework, *objects: str, shows_all: bool = False) -> list[str]:
    return render_tree(build_tree(observed, objects, NOW), NOW, shows_all=shows_all)


def build_wire(observed: ObservedFramework, *objects: str) -> Any:
    return build_tree(observed, objects, NOW).to_wire()


def test_equal_tasks_and_their_pods_fold_into_one_row_each() -> None:
    observed = build_observed(build_running(32), build_role_status("ps"), pods=32)
    assert draw(observed, "ConfigMap/gang-attempt") == [
        "NAME              STATE     ATTEMPT   RESTARTS   NODE   IP",
        "Framework/gang    Running   0",
        "├─ConfigMap/gang-attempt",
        "├─worker (32 Running)",
        "│ └─worker/0-31   Running   0",
        "│   └─32 Pods     Running             0          node   32 addresses",
        "└─ps (1 Running)",
        "  └─ps/0          Running   0",
    ]


def test_all_shows_each_task_with_its_pod() -> None:
    rows = draw(build_observed(build_running(3), pods=3), shows_all=True)
    for index in range(3):
        assert any(f"worker/{index} " in row for row in rows)
        assert any(f"Pod/gang-worker-{index} " in row and address(index) in row for row in rows)


def test_failures_stand_below_their_task_and_their_framework() -> None:
    events = [
        build_event("TaskFailed", "worker/1 exited with 7", count=3, seconds=540),
        build_event("AttemptCompleted", "Attempt 0 failed: worker/1 exited with 7", seconds=0),
    ]
    observed = build_observed(build_running(2), events=events)
    rows = draw(observed)
    assert "├─Attempt 0 failed: worker/1 exited with 7 (10m ago)" in rows
    place = next(i for i, row in enumerate(rows) if "worker/1 " in row and "Attempt" not in row)
    assert rows[place + 1].strip(" │├└─") == "failure: exited with 7 (3 times, last 60s ago)"
    wire = build_wire(observed)
    assert wire["roles"][0]["tasks"][1]["failures"] == [
        {"message": "exited with 7", "count": 3, "lastTimestamp": "2026-01-01T00:09:00Z"}
    ]


def test_many_different_tasks_end_with_their_number() -> None:
    failed = [build_failed_task(index, POD_EXTERNAL_DELETED, attempt=index) for index in range(40)]
    rows = draw(build_observed(build_running(40, *failed)))
    assert rows[-1].strip() == "└─... and 30 more Tasks: --all shows them"


def test_structure_has_each_task_with_its_pod() -> None:
    wire = build_wire(build_observed(build_running(2), pods=1, hidden=("list events",)), "Secret/s")
    assert wire["metadata"] == {"name": "gang", "namespace": "default"}
    assert wire["objects"] == ["Secret/s"]
    assert wire["lackingRights"] == ["list events"]
    (role,) = wire["roles"]
    assert role["states"] == {"Running": 2}
    assert [task["name"] for task in role["tasks"]] == ["worker/0", "worker/1"]
    pod = {
        "name": "gang-worker-0",
        "phase": "Running",
        "node": "node",
        "ip": address(0),
        "restarts": 0,
    }
    assert role["tasks"][0]["pod"] == pod
    assert role["tasks"][1]["pod"] is None


def test_hostile_texts_control_no_terminal() -> None:
    hostile = "\x1b[2J\u202e\nfake"
    events = [build_event("TaskFailed", f"worker/0 {hostile}", seconds=1)]
    rows = draw(build_observed(build_running(1), events=events, pods=1), f"Secret/{hostile}")
    assert all(row.isprintable() for row in rows)
