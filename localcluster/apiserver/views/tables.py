"""The Table form, which ``kubectl get`` prints. Pure.

A resource type declares its columns by paths, as a CRD does in ``additionalPrinterColumns``; a type
without columns has NAME and AGE. The cells of Pods, Nodes and Events are computed here.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from framework.api.durations import format_age
from localcluster.apiserver.model.errors import Object
from localcluster.apiserver.model.registry import AGE, PrinterColumn, ResourceType
from localcluster.apiserver.views.jsonpath import JsonPathError, find_values
from localcluster.apiserver.views.pod_row import pod_cells

Cells = Callable[[Object, datetime], list[Any]]

NONE = "<none>"


@dataclass(frozen=True, slots=True)
class Printer:
    """The columns of a kind, and the function for its cells."""

    columns: tuple[PrinterColumn, ...]
    cells: Cells


_NAME = PrinterColumn("Name", format="name")


def render_table(
    printer: Printer, objects: Iterable[Object], metadata: Object, now: datetime
) -> Object:
    """Return a Table whose rows carry each object's metadata."""
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [_describe(column) for column in printer.columns],
        "rows": [
            {"cells": printer.cells(item, now), "object": partial_metadata(item)}
            for item in objects
        ],
    }


def _describe(column: PrinterColumn) -> Object:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
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
    return _COMPUTED.get(rt.key) or _build_printer(rt.printer_columns or (AGE,))


# --- cells ---------------------------------------------------------------------------------------


def _name(item: Object) -> str:
    return str((item.get("metadata") or {}).get("name", ""))


def _age(item: Object, now: datetime) -> str:
    return format_age((item.get("metadata") or {}).get("creationTimestamp"), now)


def _pod(item: Object, now: datetime) -> list[Any]:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    return [
        _name(item),
        *pod_cells(item, now),
        _age(item, now),
        status.get("podIP") or NONE,
        spec.get("nodeName") or NONE,
    ]


def _node(item: Object, now: datetime) -> list[Any]:
    return [_name(item), _node_status(item), _age(item, now)]


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
    last = item.get("lastTimestamp") or item.get("firstTimestamp") or item.get("eventTime")
    return [
        format_age(last, now),
        item.get("type", ""),
        item.get("reason", ""),
        "/".join(filter(None, (str(about.get("kind", "")).lower(), about.get("name")))),
        str(item.get("message") or "").strip(),
    ]


def _columns(*names: str, priority: int = 0) -> tuple[PrinterColumn, ...]:
    return tuple(PrinterColumn(name, priority=priority) for name in names)


_COMPUTED = {
    ("", "pods"): Printer(
        (
            _NAME,
            *_columns("Ready", "Status", "Restarts", "Age"),
            *_columns("IP", "Node", priority=1),
        ),
        _pod,
    ),
    ("", "nodes"): Printer((_NAME, *_columns("Status", "Age")), _node),
    ("", "events"): Printer(
        _columns("Last Seen", "Type", "Reason", "Object", "Message"),
        _event,
    ),
}


# --- columns by paths ----------------------------------------------------------------------------


def _build_printer(columns: Sequence[PrinterColumn]) -> Printer:
    def cells(item: Object, now: datetime) -> list[Any]:
        found = (_build_cell(_find(item, column), column.type, now) for column in columns)
        return [_name(item), *found]

    return Printer((_NAME, *columns), cells)


def _find(item: Object, column: PrinterColumn) -> list[Any]:
    try:
        return find_values(item, column.json_path)
    except JsonPathError:
        # A path that this JSONPath does not support has an empty cell; the row is still shown.
        return []


def _build_cell(values: list[Any], kind: str, now: datetime) -> Any:
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
