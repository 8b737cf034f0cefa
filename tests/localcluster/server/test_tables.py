"""Tables: the expected cells were recorded from kube-apiserver 1.34."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from localcluster.apiserver.model import builtins
from localcluster.apiserver.model.registry import PrinterColumn, ResourceType
from localcluster.apiserver.views.tables import find_printer, render_table

NONE = "<unknown>"
NOW = datetime(2026, 11, 21, 8, 14, 52, tzinfo=UTC)
CREATED = "2026-11-21T08:14:51Z"
ENDED_AT = "2026-11-21T08:05:00Z"
READY = {"type": "Ready", "status": "True"}
INITIALIZED = {"type": "Initialized", "status": "True"}
GATED = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}

Wire = dict[str, Any]


def list_cells(rt: ResourceType, item: Wire) -> list[Any]:
    metadata = {"name": "x", "creationTimestamp": CREATED, **item.get("metadata", {})}
    table = render_table(find_printer(rt), [{**item, "metadata": metadata}], {}, NOW)
    cells: list[Any] = table["rows"][0]["cells"]
    return cells


def waits(reason: str, **more: Any) -> Wire:
    return {"state": {"waiting": {"reason": reason}}, **more}


def runs(**more: Any) -> Wire:
    return {"state": {"running": {"startedAt": "2026-11-21T08:00:00Z"}}, **more}


def ended(code: int, reason: str = "", signal: int = 0, **more: Any) -> Wire:
    ending = {"exitCode": code, "reason": reason, "signal": signal, "finishedAt": ENDED_AT}
    return {"state": {"terminated": ending}, **more}


def build_pod(
    phase: str,
    mains: Sequence[Wire] = (),
    inits: Sequence[Wire] = (),
    *,
    sidecar: bool = False,
    metadata: Wire | None = None,
    spec: Wire | None = None,
    **status: Any,
) -> Wire:
    """Build a Pod of two containers and as many init containers, of which the first may stay."""
    names = {"containerStatuses": ("a", "b"), "initContainerStatuses": ("i1", "i2")}
    for (field, own), states in zip(names.items(), (mains, inits), strict=True):
        named = zip(own, states, strict=False)
        status[field] = [{"name": name, "restartCount": 0, **state} for name, state in named]
    body: Wire = {"containers": [{"name": "a"}, {"name": "b"}], **(spec or {})}
    if inits:
        first = {"name": "i1", "restartPolicy": "Always"} if sidecar else {"name": "i1"}
        body["initContainers"] = [first, {"name": "i2"}]
    return {"metadata": metadata or {}, "spec": body, "status": {"phase": phase, **status}}


OVER = ended(0, "Completed")
UP = runs(ready=True)
FAILED_ONCE = runs(ready=False, restartCount=3, lastState=ended(1, "Error")["state"])
STARTED = runs(ready=True, started=True)
AGAIN = {**STARTED, "restartCount": 2}
UNSTARTED = waits("PodInitializing")
INITIALIZING = [UNSTARTED, UNSTARTED]
PULLING = [waits("ContainerCreating"), waits("ImagePullBackOff")]
CRASHING = waits("CrashLoopBackOff", restartCount=5)
KILLED = ended(137, "", 9)
AFTER_INIT = [READY, INITIALIZED]

POD_CASES: dict[str, tuple[Wire, list[str]]] = {
    "new": (build_pod("Pending"), ["0/2", "Pending", "0"]),
    "restarted": (
        build_pod("Running", [UP, FAILED_ONCE], conditions=[READY]),
        ["1/2", "Running", "3 (9m52s ago)"],
    ),
    "the first reason wins": (build_pod("Pending", PULLING), ["0/2", "ContainerCreating", "0"]),
    "succeeded": (build_pod("Succeeded", [OVER, OVER]), ["0/2", "Completed", "0"]),
    "failed": (build_pod("Failed", [ended(3, "Error"), OVER]), ["0/2", "Error", "0"]),
    "failed without reason": (build_pod("Failed", [ended(3), KILLED]), ["0/2", "ExitCode:3", "0"]),
    "one completed, one ready": (
        build_pod("Running", [OVER, UP], conditions=[READY]),
        ["1/2", "Running", "0"],
    ),
    "one completed, not ready": (build_pod("Running", [OVER, UP]), ["1/2", "NotReady", "0"]),
    "first init runs": (
        build_pod("Pending", INITIALIZING, [runs(), UNSTARTED]),
        ["0/2", "Init:0/2", "0"],
    ),
    "second init failed": (
        build_pod("Pending", INITIALIZING, [OVER, ended(2, "Error")]),
        ["0/2", "Init:Error", "0"],
    ),
    "second init killed": (
        build_pod("Pending", inits=[{**OVER, "restartCount": 4}, KILLED]),
        ["0/2", "Init:Signal:9", "4"],
    ),
    "init backs off": (
        build_pod("Pending", inits=[CRASHING, UNSTARTED]),
        ["0/2", "Init:CrashLoopBackOff", "5"],
    ),
    "sidecar started": (
        build_pod("Pending", inits=[STARTED, runs()], sidecar=True),
        ["1/3", "Init:1/2", "0"],
    ),
    "sidecar beside": (
        build_pod(
            "Running",
            [{**UP, "restartCount": 1}, UP],
            [AGAIN, OVER],
            sidecar=True,
            conditions=AFTER_INIT,
        ),
        ["3/3", "Running", "3"],
    ),
    "evicted": (build_pod("Failed", reason="Evicted"), ["0/2", "Evicted", "0"]),
    "gated": (build_pod("Pending", conditions=[GATED]), ["0/2", "SchedulingGated", "0"]),
    "deleted": (
        build_pod("Running", metadata={"deletionTimestamp": CREATED}),
        ["0/2", "Terminating", "0"],
    ),
}


@pytest.mark.parametrize(("pod", "expected"), POD_CASES.values(), ids=POD_CASES)
def test_pod_row_shows_ready_containers_status_and_restarts(pod: Wire, expected: list[str]) -> None:
    assert list_cells(builtins.PODS, pod)[1:4] == expected


def test_wide_pod_row_has_address_and_node() -> None:
    pod = build_pod("Running", podIP="127.0.0.1", spec={"nodeName": "n1"})
    assert list_cells(builtins.PODS, pod)[4:] == ["1s", "127.0.0.1", "n1"]


NODE = {"spec": {"unschedulable": True}, "status": {"conditions": [READY]}}
EVENT = {
    "involvedObject": {"kind": "Framework", "name": "p1"},
    "reason": "R",
    "message": " M\n",
    "type": "Warning",
    "lastTimestamp": "2026-11-21T08:10:00.000000Z",
}
EARLY_EVENT = {"involvedObject": {"name": "p1"}, "eventTime": "2026-11-21T08:00:00.000000Z"}


@pytest.mark.parametrize(
    ("rt", "item", "expected"),
    [
        (
            builtins.SERVICES,
            {"spec": {"type": "ClusterIP", "clusterIP": "None"}},
            ["x", "ClusterIP", "None", "1s"],
        ),
        (builtins.NODES, NODE, ["x", "Ready,SchedulingDisabled", "1s"]),
        (builtins.NODES, {}, ["x", "Unknown", "1s"]),
        (builtins.EVENTS, EVENT, ["4m52s", "Warning", "R", "framework/p1", "M"]),
        (builtins.EVENTS, EARLY_EVENT, ["14m", "", "", "p1", ""]),
        (builtins.EVENTS, {"involvedObject": {}}, ["<unknown>", "", "", "", ""]),
        (builtins.CONFIG_MAPS, {"data": {"a": ""}}, ["x", "1s"]),
        (builtins.SECRETS, {"type": "Opaque", "data": {"a": ""}}, ["x", "Opaque", "1s"]),
        (builtins.NAMESPACES, {"status": {"phase": "Active"}}, ["x", "Active", "1s"]),
        (builtins.LEASES, {"spec": {"holderIdentity": "me"}}, ["x", "me", "1s"]),
        (builtins.PRIORITY_CLASSES, {}, ["x", "1s"]),
    ],
    ids=lambda value: value.plural if isinstance(value, ResourceType) else "",
)
def test_row_of_a_builtin_kind(rt: ResourceType, item: Wire, expected: list[Any]) -> None:
    assert list_cells(rt, item) == expected


UNKNOWN_PATHS = [".spec[", ".spec.list[0]", "spec", "..spec", ".spec.list[?(@.a>1)]"]


@pytest.mark.parametrize(
    ("kind", "path", "expected"),
    [
        ("integer", ".spec.n", 3),
        ("string", ".spec.n", "3"),
        ("string", ".spec.list[*].a", None),
        ("string", '.spec.conditions[?(@.type=="Ready")].status', "True"),
        ("string", r".metadata.annotations.a\.b/c", "anno"),
        ("string", ".spec.object", '{"k":1,"l":["m"]}'),
        ("date", ".spec.when", "32h"),
        ("date", ".spec.text", "<invalid>"),
        ("boolean", ".spec.yes", True),
        ("number", ".spec.f", 1.5),
        ("integer", ".spec.text", None),
        ("boolean", ".spec.n", None),
        ("string", ".spec.none", None),
        ("string", ".spec.null", None),
        ("string", ".spec.list[0:1]", None),
        ("string", '.spec.conditions[?( @.type == "Ready" )].status', "True"),
        ("string", '.spec.conditions[?(@.type=="None")].status', None),
        ("string", '.spec.object[?(@.type=="Ready")]', None),
        ("string", ".spec.object.k", "1"),
        ("string", ".spec.n.deep", None),
        ("string", ".none.deep", None),
        *(("string", path, None) for path in UNKNOWN_PATHS),
    ],
)
def test_custom_cell_follows_type_and_path(kind: str, path: str, expected: Any) -> None:
    columns = (PrinterColumn("C", kind, path),)
    rt = ResourceType("g", "v1", "things", "Thing", is_custom=True, printer_columns=columns)
    spec = {
        "n": 3,
        "f": 1.5,
        "yes": True,
        "text": "str",
        "null": None,
        "list": [{"a": "x"}, {"a": "y"}],
        "conditions": [{"type": "Other"}, {"type": "Ready", "status": "True"}],
        "object": {"k": 1, "l": ["m"]},
        "when": "2026-11-20T00:00:00Z",
    }
    item = {"metadata": {"annotations": {"a.b/c": "anno"}}, "spec": spec}
    assert list_cells(rt, item)[1:] == [expected]


def test_custom_kind_without_columns_has_name_and_age() -> None:
    rt = ResourceType("g", "v1", "things", "Thing", is_custom=True)
    assert [column.name for column in find_printer(rt).columns] == ["Name", "Age"]
    assert list_cells(rt, {}) == ["x", "1s"]
