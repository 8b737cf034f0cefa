"""The Table form, which ``kubectl get`` prints. Pure.

Built-in kinds have their columns here; custom resources declare theirs in
``additionalPrinterColumns``; every other kind has NAME and AGE.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from framework.api.durations import format_age
from localcluster.apiserver.model.errors import Object
from localcluster.apiserver.model.registry import PrinterColumn, ResourceType
from localcluster.apiserver.views.jsonpath import JsonPathError, find_values
from localcluster.apiserver.views.pod_row import pod_cells

Cells = Callable[[Object, datetime], list[Any]]

NONE = "<none>"


@dataclass(frozen=True, slots=True)
class Column:
    """A column; with a priority above 0, it is shown only with ``-o wide``."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0

    def to_wire(self) -> Object:
        """Return the columnDefinitions entry."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


@dataclass(frozen=True, slots=True)
class Printer:
    """The columns of a kind, and the function for its cells."""

    columns: tuple[Column, ...]
    cells: Cells


def render_table(
    printer: Printer, objects: Iterable[Object], metadata: Object, now: datetime
) -> Object:
    """Return a Table whose rows carry each object's metadata."""
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [column.to_wire() for column in printer.columns],
        "rows": [
            {"cells": printer.cells(item, now), "object": partial_metadata(item)}
            for item in objects
        ],
    }


def partial_metadata(item: Object) -> Object:
    """Return an object's PartialObjectMetadata."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": item.get("metadata") or {},
    }


def find_printer(rt: ResourceType) -> Printer:
    """Return the printer of a resource type."""
    if rt.printer_columns:
        return _custom_printer(rt.printer_columns)
    return BUILTIN_PRINTERS.get(rt.key, DEFAULT_PRINTER)


# --- cells ---------------------------------------------------------------------------------------


def _name(item: Object) -> str:
    return str((item.get("metadata") or {}).get("name", ""))


def _age(item: Object, now: datetime) -> str:
    return format_age((item.get("metadata") or {}).get("creationTimestamp"), now)


def _named(*columns: Column, cells: Cells) -> Printer:
    """Return a printer with NAME in front."""
    return Printer(
        (Column("Name", format="name"), *columns),
        lambda item, now: [_name(item), *cells(item, now)],
    )


def _config_map(item: Object, now: datetime) -> list[Any]:
    return [len(item.get("data") or ()) + len(item.get("binaryData") or ()), _age(item, now)]


def _secret(item: Object, now: datetime) -> list[Any]:
    return [str(item.get("type", "")), len(item.get("data") or ()), _age(item, now)]


def _service_account(item: Object, now: datetime) -> list[Any]:
    return [len(item.get("secrets") or ()), _age(item, now)]


def _namespace(item: Object, now: datetime) -> list[Any]:
    return [(item.get("status") or {}).get("phase", ""), _age(item, now)]


def _lease(item: Object, now: datetime) -> list[Any]:
    return [(item.get("spec") or {}).get("holderIdentity", ""), _age(item, now)]


def _crd(item: Object, _now: datetime) -> list[Any]:
    return [(item.get("metadata") or {}).get("creationTimestamp")]


def _pod(item: Object, now: datetime) -> list[Any]:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    addresses = status.get("podIPs") or ()
    address = status.get("podIP") or (addresses[0].get("ip") if addresses else "")
    gates = spec.get("readinessGates") or ()
    true = {c.get("type") for c in status.get("conditions") or () if c.get("status") == "True"}
    open_gates = sum(gate.get("conditionType") in true for gate in gates)
    return [
        *pod_cells(item, now),
        _age(item, now),
        address or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        f"{open_gates}/{len(gates)}" if gates else NONE,
    ]


def _service(item: Object, now: datetime) -> list[Any]:
    spec = item.get("spec") or {}
    ports = ",".join(
        f"{port.get('port')}"
        + (f":{port['nodePort']}" if port.get("nodePort") else "")
        + f"/{port.get('protocol', 'TCP')}"
        for port in spec.get("ports") or ()
    )
    selector = ",".join(f"{key}={value}" for key, value in sorted(_dict(spec, "selector").items()))
    return [
        spec.get("type", "ClusterIP"),
        spec.get("clusterIP") or NONE,
        spec.get("externalName") or NONE,
        ports or NONE,
        _age(item, now),
        selector or NONE,
    ]


def _dict(item: Object, key: str) -> Object:
    return item.get(key) or {}


def _node(item: Object, now: datetime) -> list[Any]:
    machine = _dict(_dict(item, "status"), "nodeInfo")
    return [_node_status(item), _age(item, now), machine.get("kubeletVersion", "")]


def _node_status(item: Object) -> str:
    words = [
        "Ready" if condition.get("status") == "True" else "NotReady"
        for condition in (item.get("status") or {}).get("conditions") or ()
        if condition.get("type") == "Ready"
    ] or ["Unknown"]
    if (item.get("spec") or {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _event(item: Object, now: datetime) -> list[Any]:
    about = item.get("involvedObject") or {}
    first = item.get("firstTimestamp") or item.get("eventTime")
    last = item.get("lastTimestamp") or first
    return [
        format_age(last, now),
        item.get("type", ""),
        item.get("reason", ""),
        "/".join(filter(None, (str(about.get("kind", "")).lower(), about.get("name")))),
        about.get("fieldPath", ""),
        _event_source(item),
        str(item.get("message") or "").strip(),
        format_age(first, now),
        item.get("count") or 1,
        _name(item),
    ]


def _event_source(item: Object) -> str:
    source = item.get("source") or {}
    component = source.get("component") or item.get("reportingComponent") or ""
    host = source.get("host") or item.get("reportingInstance") or ""
    return ", ".join(part for part in (component, host) if part)


def _wide(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, priority=1) for name in names)


def _narrow(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name) for name in names)


DEFAULT_PRINTER = _named(
    Column("Age", "date"),
    cells=lambda item, now: [_age(item, now)],
)

_EVENT_PRINTER = Printer(
    (
        *_narrow("Last Seen", "Type", "Reason", "Object"),
        *_wide("Subobject", "Source"),
        *_narrow("Message"),
        *_wide("First Seen", "Count"),
        Column("Name", format="name", priority=1),
    ),
    _event,
)

BUILTIN_PRINTERS = {
    ("", "configmaps"): _named(*_narrow("Data", "Age"), cells=_config_map),
    ("", "secrets"): _named(*_narrow("Type", "Data", "Age"), cells=_secret),
    ("", "serviceaccounts"): _named(*_narrow("Secrets", "Age"), cells=_service_account),
    ("", "namespaces"): _named(*_narrow("Status", "Age"), cells=_namespace),
    ("", "pods"): _named(
        *_narrow("Ready", "Status", "Restarts", "Age"),
        *_wide("IP", "Node", "Nominated Node", "Readiness Gates"),
        cells=_pod,
    ),
    ("", "services"): _named(
        *_narrow("Type", "Cluster-IP", "External-IP", "Port(s)", "Age"),
        *_wide("Selector"),
        cells=_service,
    ),
    ("", "nodes"): _named(*_narrow("Status", "Age", "Version"), cells=_node),
    ("", "events"): _EVENT_PRINTER,
    ("coordination.k8s.io", "leases"): _named(*_narrow("Holder", "Age"), cells=_lease),
    ("apiextensions.k8s.io", "customresourcedefinitions"): _named(
        Column("Created At", "date"), cells=_crd
    ),
}


# --- custom resources ----------------------------------------------------------------------------


def _custom_printer(definitions: Sequence[PrinterColumn]) -> Printer:
    columns = [
        Column(column.name, column.type, column.format, column.description, column.priority)
        for column in definitions
    ]

    def cells(item: Object, now: datetime) -> list[Any]:
        return [_custom_cell(_find(item, column), column.type, now) for column in definitions]

    return _named(*columns, cells=cells)


def _find(item: Object, column: PrinterColumn) -> list[Any]:
    try:
        return find_values(item, column.json_path)
    except JsonPathError:
        # A path that this JSONPath does not support has an empty cell; the row is still shown.
        return []


def _custom_cell(values: list[Any], kind: str, now: datetime) -> Any:
    """Return a cell; as in Kubernetes, a value of another type than the column is left out."""
    if not values or values[0] is None:
        return None
    value = values[0]
    if kind == "date":
        return format_age(value, now, unknown="<invalid>")
    if kind == "string":
        return value if isinstance(value, str) else msgspec.json.encode(value).decode()
    is_flag = isinstance(value, bool)
    if kind == "boolean":
        return value if is_flag else None
    if isinstance(value, int | float) and not is_flag:
        return int(value) if kind == "integer" else value
    return None
