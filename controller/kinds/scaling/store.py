"""The store of the scalers, by ``namespace/name`` of the job that they name.

Its only sources are the watches, and the answers to our own writes until a watch shows the same. Of
a scaler that has ended, only its version is kept. A scaler that names no TrainingJob is under the
key ``namespace/``: it ends with the faults of its spec.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice

from controller.store.object_identity import parse_version
from framework.kinds.scaling.reading import read_job_name, read_scaler
from framework.kinds.scaling.status import SCALING, decode_status, find_condition, find_end
from framework.kinds.scaling.types import Scaler, ScalerKind, ScalerStatus
from framework.kube.resources import Object

MAX_SCALERS = 100
"""Scalers of one job that a decision considers; the others wait until these have ended."""


@dataclass(frozen=True, slots=True)
class _Id:
    kind: ScalerKind
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class _Known:
    """What is kept of each scaler."""

    key: str
    uid: str
    version: int


@dataclass(frozen=True, slots=True)
class _Open:
    """A scaler that has not ended."""

    order: tuple[bool, str, str, str]
    """Where it is among the scalers of its job."""
    wire: Object
    """As the API server has it."""


class ScalerStore:
    """The scalers that have not ended, and are not being deleted."""

    def __init__(self, on_change: Callable[[str], None]) -> None:
        """Call ``on_change`` with the key of the job when one of its scalers has changed."""
        self._on_change = on_change
        self._known: dict[_Id, _Known] = {}
        self._open: dict[str, dict[_Id, _Open]] = {}

    def list_keys(self) -> list[str]:
        """List the keys of the jobs with scalers that have not ended."""
        return list(self._open)

    def list_open(self, key: str) -> tuple[Scaler, ...]:
        """List the scalers of a job: first those in progress, then the oldest."""
        found = sorted(self._open.get(key, {}).items(), key=lambda item: item[1].order)
        return tuple(read_scaler(id_.kind, known.wire) for id_, known in islice(found, MAX_SCALERS))

    def has_open(self, key: str) -> bool:
        """Return whether a job has scalers that have not ended."""
        return key in self._open

    def get(self, scaler: Scaler) -> Object | None:
        """Return a scaler as the API server has it; None if it is gone or has ended."""
        known = self._known.get(_Id(scaler.kind, scaler.namespace, scaler.name))
        if known is None or known.uid != scaler.uid:
            return None
        found = self._open.get(known.key, {}).get(_Id(scaler.kind, scaler.namespace, scaler.name))
        return None if found is None else found.wire

    def put(self, kind: ScalerKind, wire: Object) -> None:
        """Take a scaler as a watch or the answer to a write shows it; not an older version."""
        id_ = _identify(kind, wire)
        version = parse_version(wire["metadata"].get("resourceVersion"))
        known = self._known.get(id_)
        if known is not None and known.version > version:
            return
        self._forget(id_)
        key = f"{id_.namespace}/{read_job_name(wire)}"
        self._known[id_] = _Known(key, str(wire["metadata"].get("uid")), version)
        status = decode_status(kind, wire.get("status"))
        if find_end(status) is None and not wire["metadata"].get("deletionTimestamp"):
            order = _find_order(id_, wire, status)
            self._open.setdefault(key, {})[id_] = _Open(order, _trim(wire))
        self._on_change(key)
        if known is not None and known.key != key:
            self._on_change(known.key)

    def remove(self, kind: ScalerKind, wire: Object) -> None:
        """Take the deletion of a scaler."""
        id_ = _identify(kind, wire)
        known = self._known.get(id_)
        if known is not None and known.uid == str(wire["metadata"].get("uid")):
            self._forget(id_)
            self._on_change(known.key)

    def replace(self, kind: ScalerKind, items: Iterable[Object]) -> None:
        """Take all scalers of one kind."""
        for id_ in [id_ for id_ in self._known if id_.kind is kind]:
            key = self._known[id_].key
            self._forget(id_)
            self._on_change(key)
        for wire in items:
            self.put(kind, wire)

    def _forget(self, id_: _Id) -> None:
        known = self._known.pop(id_, None)
        if known is None:
            return
        found = self._open.get(known.key, {})
        found.pop(id_, None)
        if not found:
            self._open.pop(known.key, None)


class ScalerSink:
    """Passes the lists and changes of a watch of one kind to the store."""

    def __init__(self, store: ScalerStore, kind: ScalerKind) -> None:
        """Pass them as those of ``kind``."""
        self._store = store
        self._kind = kind

    def replace(self, items: list[Object], resource_version: str) -> None:  # noqa: ARG002 a Sink
        """Take a whole list."""
        self._store.replace(self._kind, items)

    def apply(self, event_type: str, obj: Object) -> None:
        """Take a change."""
        if event_type == "DELETED":
            self._store.remove(self._kind, obj)
        else:
            self._store.put(self._kind, obj)

    def bookmark(self, resource_version: str) -> None:
        """Do nothing: a version without an object is not kept."""


def _identify(kind: ScalerKind, wire: Object) -> _Id:
    metadata = wire["metadata"]
    return _Id(kind, str(metadata.get("namespace")), str(metadata.get("name")))


def _find_order(id_: _Id, wire: Object, status: ScalerStatus) -> tuple[bool, str, str, str]:
    is_waiting = find_condition(status, SCALING) is None
    # All times of the API server have the same form, so they are in the order of their texts.
    return is_waiting, str(wire["metadata"].get("creationTimestamp")), id_.name, id_.kind


def _trim(wire: Object) -> Object:
    metadata = {key: value for key, value in wire["metadata"].items() if key != "managedFields"}
    return {**wire, "metadata": metadata}
