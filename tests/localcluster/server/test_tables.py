"""Tables: the expected cells were recorded from kube-apiserver 1.34."""

from datetime import UTC, datetime
from typing import Any

import pytest

from localcluster.apiserver.model import builtins
from localcluster.apiserver.model.registry import PrinterColumn, ResourceType
from localcluster.apiserver.views.tables import find_printer, render_table

NOW = datetime(2026, 11, 21, 8, 14, 52, tzinfo=UTC)
CREATED = "2026-11-21T08:14:51Z"
RUNNING = {"running": {"startedAt": "2026-11-21T08:00:00Z"}}
INIT = [{"name": "i1"}, {"name": "i2"}]
SIDECAR = [{"name": "i1", "restartPolicy": "Always"}, {"name": "i2"}]


def _waiting(reason: str) -> dict[str, Any]:
    return {"waiting": {"reason": reason}}


def _ended(code: int, reason: str = "", signal: int = 0) -> dict[str, Any]:
    return {
        "terminated": {
            "exitCode": code,
            "reason": reason,
            "signal": signal,
            "finishedAt": "2026-11-21T08:05:00Z",
        }
    }


def _status(name: str, state: dict[str, Any], *, restarts: int = 0, **more: Any) -> dict[str, Any]:
    return {"name": name, "state": state, "restartCount": restarts, **more}


def _cells(rt: ResourceType, item: dict[str, Any]) -> list[Any]:
    item = {"metadata": {"name": "x", "creationTimestamp": CREATED, **item.pop("metadata", {})}} | {
        key: value for key, value in item.items() if key != "metadata"
    }
    cells: list[Any] = render_table(find_printer(rt), [item], {}, NOW)["rows"][0]["cells"]
    return cells


def _pod(status: dict[str, Any], metadata: dict[str, Any], **spec: Any) -> dict[str, Any]:
    containers = [{"name": "a"}, {"name": "b"}]
    return {"metadata": metadata, "spec": {"containers": containers, **spec}, "status": status}


INITIALIZING = [
    _status("a", _waiting("PodInitializing")),
    _status("b", _waiting("PodInitializing")),
]
READY = {"type": "Ready", "status": "True"}

POD_CASES: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "new": ({"phase": "Pending"}, {}, ["0/2", "Pending", "0"]),
    "restarted": (
        {
            "phase": "Running",
            "conditions": [READY],
            "containerStatuses": [
                _status("a", RUNNING, ready=True),
                _status("b", RUNNING, restarts=3, ready=False, lastState=_ended(1, "Error")),
            ],
        },
        {},
        ["1/2", "Running", "3 (9m52s ago)"],
    ),
    "the first reason wins": (
        {
            "phase": "Pending",
            "containerStatuses": [
                _status("a", _waiting("ContainerCreating")),
                _status("b", _waiting("ImagePullBackOff")),
            ],
        },
        {},
        ["0/2", "ContainerCreating", "0"],
    ),
    "succeeded": (
        {
            "phase": "Succeeded",
            "containerStatuses": [
                _status("a", _ended(0, "Completed")),
                _status("b", _ended(0, "Completed")),
            ],
        },
        {},
        ["0/2", "Completed", "0"],
    ),
    "failed": (
        {
            "phase": "Failed",
            "containerStatuses": [
                _status("a", _ended(3, "Error")),
                _status("b", _ended(0, "Completed")),
            ],
        },
        {},
        ["0/2", "Error", "0"],
    ),
    "failed without reason": (
        {
            "phase": "Failed",
            "containerStatuses": [_status("a", _ended(3)), _status("b", _ended(137, "", 9))],
        },
        {},
        ["0/2", "ExitCode:3", "0"],
    ),
    "one completed, one ready": (
        {
            "phase": "Running",
            "conditions": [READY],
            "containerStatuses": [
                _status("a", _ended(0, "Completed")),
                _status("b", RUNNING, ready=True),
            ],
        },
        {},
        ["1/2", "Running", "0"],
    ),
    "one completed, not ready": (
        {
            "phase": "Running",
            "containerStatuses": [
                _status("a", _ended(0, "Completed")),
                _status("b", RUNNING, ready=True),
            ],
        },
        {},
        ["1/2", "NotReady", "0"],
    ),
    "first init runs": (
        {
            "phase": "Pending",
            "initContainerStatuses": [
                _status("i1", RUNNING),
                _status("i2", _waiting("PodInitializing")),
            ],
            "containerStatuses": INITIALIZING,
        },
        {"initContainers": INIT},
        ["0/2", "Init:0/2", "0"],
    ),
    "second init failed": (
        {
            "phase": "Pending",
            "initContainerStatuses": [
                _status("i1", _ended(0, "Completed")),
                _status("i2", _ended(2, "Error")),
            ],
            "containerStatuses": INITIALIZING,
        },
        {"initContainers": INIT},
        ["0/2", "Init:Error", "0"],
    ),
    "second init killed": (
        {
            "phase": "Pending",
            "initContainerStatuses": [
                _status("i1", _ended(0, "Completed"), restarts=4),
                _status("i2", _ended(137, "", 9)),
            ],
        },
        {"initContainers": INIT},
        ["0/2", "Init:Signal:9", "4"],
    ),
    "init backs off": (
        {
            "phase": "Pending",
            "initContainerStatuses": [
                _status("i1", _waiting("CrashLoopBackOff"), restarts=5),
                _status("i2", _waiting("PodInitializing")),
            ],
        },
        {"initContainers": INIT},
        ["0/2", "Init:CrashLoopBackOff", "5"],
    ),
    "sidecar started": (
        {
            "phase": "Pending",
            "initContainerStatuses": [
                _status("i1", RUNNING, ready=True, started=True),
                _status("i2", RUNNING),
            ],
        },
        {"initContainers": SIDECAR},
        ["1/3", "Init:1/2", "0"],
    ),
    "sidecar beside": (
        {
            "phase": "Running",
            "conditions": [READY, {"type": "Initialized", "status": "True"}],
            "initContainerStatuses": [
                _status("i1", RUNNING, restarts=2, ready=True, started=True),
                _status("i2", _ended(0, "Completed")),
            ],
            "containerStatuses": [
                _status("a", RUNNING, restarts=1, ready=True),
                _status("b", RUNNING, ready=True),
            ],
        },
        {"initContainers": SIDECAR},
        ["3/3", "Running", "3"],
    ),
    "evicted": ({"phase": "Failed", "reason": "Evicted"}, {}, ["0/2", "Evicted", "0"]),
    "gated": (
        {
            "phase": "Pending",
            "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
            ],
        },
        {},
        ["0/2", "SchedulingGated", "0"],
    ),
}


@pytest.mark.parametrize("case", POD_CASES)
def test_pod_row_tells_what_the_pod_does(case: str) -> None:
    status, spec, expected = POD_CASES[case]

    assert _cells(builtins.PODS, _pod(status, {}, **spec))[1:4] == expected


def test_pod_row_of_a_deleted_pod_says_terminating() -> None:
    pod = _pod({"phase": "Running"}, {"deletionTimestamp": CREATED})

    assert _cells(builtins.PODS, pod)[2] == "Terminating"


def test_pod_row_on_a_lost_node_says_unknown() -> None:
    pod = _pod({"phase": "Running", "reason": "NodeLost"}, {"deletionTimestamp": CREATED})

    assert _cells(builtins.PODS, pod)[2] == "Unknown"


def test_wide_pod_row_has_address_node_and_gates() -> None:
    status = {"phase": "Running", "podIP": "127.0.0.1", "conditions": [{"type": "x/y"}]}
    pod = _pod(status, {}, nodeName="n1", readinessGates=[{"conditionType": "x/y"}])

    assert _cells(builtins.PODS, pod)[4:] == ["1s", "127.0.0.1", "n1", "<none>", "0/1"]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {"clusterIP": "None", "ports": [{"port": 80}], "selector": {"a": "b"}},
            ["ClusterIP", "None", "<none>", "80/TCP", "1s", "a=b"],
        ),
        (
            {"type": "ExternalName", "externalName": "e.x"},
            ["ExternalName", "<none>", "e.x", "<none>", "1s", "<none>"],
        ),
        (
            {
                "type": "LoadBalancer",
                "clusterIP": "10.0.0.1",
                "ports": [{"port": 1, "nodePort": 32410, "protocol": "UDP"}],
            },
            ["LoadBalancer", "10.0.0.1", "<none>", "1:32410/UDP", "1s", "<none>"],
        ),
    ],
    ids=["headless", "external name", "load balancer"],
)
def test_service_row(spec: dict[str, Any], expected: list[Any]) -> None:
    assert _cells(builtins.SERVICES, {"spec": spec})[1:] == expected


def test_node_row() -> None:
    node = {
        "metadata": {
            "labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "x"},
        },
        "spec": {"unschedulable": True},
        "status": {
            "conditions": [READY],
            "nodeInfo": {"kubeletVersion": "v1.34", "osImage": "D", "kernelVersion": "6"},
        },
    }

    assert _cells(builtins.NODES, node)[1:] == ["Ready,SchedulingDisabled", "1s", "v1.34"]


def test_node_row_without_status_is_unknown() -> None:
    assert _cells(builtins.NODES, {})[1:3] == ["Unknown", "1s"]


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (
            {
                "involvedObject": {"kind": "Framework", "name": "p1", "fieldPath": "spec.c"},
                "reason": "R",
                "message": " M\n",
                "type": "Warning",
                "source": {"component": "kubelet", "host": "h"},
            },
            ["<unknown>", "Warning", "R", "framework/p1", "spec.c", "kubelet, h", "M"],
        ),
        (
            {
                "involvedObject": {"kind": "Pod", "name": "p1"},
                "eventTime": "2026-11-21T08:00:00.000000Z",
                "reportingComponent": "rc",
                "reportingInstance": "ri",
                "lastTimestamp": "2026-11-21T08:10:00.000000Z",
                "count": 5,
            },
            ["4m52s", "", "", "pod/p1", "", "rc, ri", "", "14m", 5],
        ),
        (
            {"involvedObject": {}, "lastTimestamp": "2026-11-21T08:10:00Z", "count": 2},
            ["4m52s", "", "", "", "", "", "", "<unknown>", 2],
        ),
    ],
    ids=["source", "reporting component", "counted"],
)
def test_event_row(event: dict[str, Any], expected: list[Any]) -> None:
    assert _cells(builtins.EVENTS, event)[: len(expected)] == expected


@pytest.mark.parametrize(
    ("rt", "item", "expected"),
    [
        (builtins.CONFIG_MAPS, {"data": {"a": ""}, "binaryData": {"b": ""}}, [2, "1s"]),
        (builtins.SECRETS, {"type": "Opaque", "data": {"a": ""}}, ["Opaque", 1, "1s"]),
        (builtins.SERVICE_ACCOUNTS, {}, [0, "1s"]),
        (builtins.NAMESPACES, {"status": {"phase": "Active"}}, ["Active", "1s"]),
        (builtins.LEASES, {"spec": {"holderIdentity": "me"}}, ["me", "1s"]),
        (builtins.CUSTOM_RESOURCE_DEFINITIONS, {}, [CREATED]),
        (builtins.PRIORITY_CLASSES, {}, ["1s"]),
    ],
    ids=lambda value: value.plural if isinstance(value, ResourceType) else "",
)
def test_plain_row(rt: ResourceType, item: dict[str, Any], expected: list[Any]) -> None:
    assert _cells(rt, item)[1:] == expected


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
    ],
)
def test_custom_cell_follows_type_and_path(kind: str, path: str, expected: Any) -> None:
    rt = ResourceType(
        "g",
        "v1",
        "things",
        "Thing",
        is_custom=True,
        printer_columns=(PrinterColumn("C", kind, path),),
    )
    item = {
        "metadata": {"annotations": {"a.b/c": "anno"}},
        "spec": {
            "n": 3,
            "f": 1.5,
            "yes": True,
            "text": "str",
            "null": None,
            "list": [{"a": "x"}, {"a": "y"}],
            "conditions": [{"type": "Other"}, {"type": "Ready", "status": "True"}],
            "object": {"k": 1, "l": ["m"]},
            "when": "2026-11-20T00:00:00Z",
        },
    }

    assert _cells(rt, item)[1:] == [expected]


def test_custom_kind_without_columns_has_name_and_age() -> None:
    rt = ResourceType("g", "v1", "things", "Thing", is_custom=True)

    assert [column.name for column in find_printer(rt).columns] == ["Name", "Age"]
    assert _cells(rt, {}) == ["x", "1s"]
