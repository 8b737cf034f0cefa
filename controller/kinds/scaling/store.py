"""The store of the scalers, by ``namespace/name`` of the job that they name.

Its only sources are the watches, and the answers to our own writes until a watch shows the same. Of
a scaler that has ended, only its version and its end are kept. A scaler that names no TrainingJob
has the key ``namespace/``: it ends with the faults of its spec.
"""

import sys
from bisect import bisect_left, insort
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeAlias

import msgspec

from controller.kinds.scaling.trim import trim_scaler
from controller.store.object_identity import parse_version
from framework.kinds.scaling.reading import read_job_name, read_scaler
from framework.kinds.scaling.status import SUCCEEDED, decode_status, find_end, is_started
from framework.kinds.scaling.types import Scaler, ScalerKind, ScalerStatus
from framework.kinds.trainingjob.status import ScalerEnd
from framework.kube.resources import Object

MAX_SCALERS = 100
"""Scalers of one job that a decision considers; the others wait until these have ended."""
_MAX_REASON = 64


@dataclass(frozen=True, slots=True, order=True)
class _Id:
    kind: ScalerKind
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class _Known:
    """The job, the versions and the end of a scaler; kept for each scaler."""

    key: str
    """``namespace/name`` of its job."""
    uid: str
    version: int
    """The newest version that is known."""
    first_version: int
    """The version in which it was seen first."""
    end: ScalerEnd | None = None
    """How it ended; None if it has not."""


_Order: TypeAlias = tuple[bool, str, int, str, str]


@dataclass(slots=True)
class _Open:
    """A scaler that has not ended."""

    order: _Order
    """Its place among the scalers of its job."""
    first_version: int
    """The version in which it was seen first."""
    json: bytes
    """Its known fields as the API server has them."""
    scaler: Scaler | None = None
    """The decoded scaler; None until a decision reads it."""


class _Job:
    """The scalers of one job that have not ended, in their order."""

    def __init__(self) -> None:
        self.by_id: dict[_Id, _Open] = {}
        self._order: list[tuple[_Order, _Id]] = []

    def add(self, id_: _Id, scaler: _Open) -> None:
        """Add a scaler that is not in this list."""
        self.by_id[id_] = scaler
        insort(self._order, (scaler.order, id_))

    def remove(self, id_: _Id) -> None:
        """Remove a scaler, if it is in this list."""
        known = self.by_id.pop(id_, None)
        if known is not None:
            del self._order[bisect_left(self._order, (known.order, id_))]

    def list_first(self) -> Iterator[Scaler]:
        """List them, decoded."""
        for _, id_ in self._order:
            known = self.by_id[id_]
            if known.scaler is None:
                scaler = read_scaler(id_.kind, _decode(known.json))
                known.scaler = replace(scaler, first_version=known.first_version)
            yield known.scaler


class ScalerStore:
    """The scalers that have not ended, and are not being deleted."""

    def __init__(self, on_change: Callable[[str], None]) -> None:
        """Call ``on_change`` with the key of the job when one of its scalers has changed."""
        self._on_change = on_change
        self._known: dict[_Id, _Known] = {}
        self._open: dict[str, _Job] = {}

    def list_keys(self) -> list[str]:
        """List the keys of the jobs with scalers that have not ended."""
        return list(self._open)

    def list_open(self, key: str, skipped: Container[str] = ()) -> tuple[Scaler, ...]:
        """List the scalers of a job: first those in progress, then the oldest.

        Those that wait and whose UID is in ``skipped`` are left out.
        """
        job = self._open.get(key)
        if job is None:
            return ()
        listed = (s for s in job.list_first() if s.uid not in skipped or is_started(s.status))
        return tuple(islice(listed, MAX_SCALERS))

    def has_open(self, key: str) -> bool:
        """Return whether a job has scalers that have not ended."""
        return key in self._open

    def find_end(self, title: str) -> ScalerEnd | None:
        """Find how the scaler of this title ended; None if it has not, or is gone."""
        kind, _, rest = title.partition(":")
        namespace, _, name = rest.partition("/")
        if kind not in list(ScalerKind):
            return None
        known = self._known.get(_Id(ScalerKind(kind), namespace, name))
        return None if known is None else known.end

    def get(self, scaler: Scaler) -> Object | None:
        """Return a scaler as the API server has it; None if it is gone or has ended."""
        known = self._known.get(_Id(scaler.kind, scaler.namespace, scaler.name))
        if known is None or known.uid != scaler.uid:
            return None
        job = self._open.get(known.key)
        found = job and job.by_id.get(_Id(scaler.kind, scaler.namespace, scaler.name))
        return _decode(found.json) if found else None

    def put(self, kind: ScalerKind, wire: Object) -> None:
        """Take a scaler as a watch shows it; not an older version.

        Raises:
            BrokenStreamError: the server sent an object that cannot be read.
        """
        id_ = _identify(kind, wire)
        version = parse_version(wire["metadata"].get("resourceVersion"))
        known = self._known.get(id_)
        if known is None or known.version <= version:
            self._put(id_, wire, version, known)

    def _put(self, id_: _Id, wire: Object, version: int, known: _Known | None) -> None:
        """Take a scaler in place of ``known``."""
        kind = id_.kind
        self._forget(id_)
        trimmed = trim_scaler(kind, wire)
        key = f"{id_.namespace}/{read_job_name(kind, trimmed)}"
        uid = str(wire["metadata"].get("uid"))
        is_same = known is not None and known.uid == uid
        first = known.first_version if known is not None and is_same else version
        status = decode_status(kind, trimmed.get("status"))
        end = _read_end(id_, status)
        self._known[id_] = _Known(key, uid, version, first, end)
        if end is None and not wire["metadata"].get("deletionTimestamp"):
            order = _find_order(id_, trimmed, status, first)
            opened = _Open(order, first, msgspec.json.encode(trimmed))
            self._open.setdefault(key, _Job()).add(id_, opened)
        self._on_change(key)
        if known is not None and known.key != key:
            self._on_change(known.key)

    def put_answer(self, scaler: Scaler, wire: Object) -> None:
        """Take the answer to a write, unless a watch has shown the end of this scaler."""
        known = self._known.get(_Id(scaler.kind, scaler.namespace, scaler.name))
        if known is not None and known.uid == scaler.uid == wire["metadata"].get("uid"):
            self.put(scaler.kind, wire)

    def drop(self, scaler: Scaler) -> None:
        """Record that a scaler is gone."""
        id_ = _Id(scaler.kind, scaler.namespace, scaler.name)
        known = self._known.get(id_)
        if known is not None and known.uid == scaler.uid:
            self._forget(id_)
            self._on_change(known.key)

    def has_version(self, kind: ScalerKind, metadata: Object) -> bool:
        """Return whether this version of a scaler is known, also if the scaler has ended."""
        known = self._known.get(_identify(kind, {"metadata": metadata}))
        version = parse_version(metadata.get("resourceVersion"))
        return known is not None and known.uid == metadata.get("uid") and known.version >= version

    def remove(self, kind: ScalerKind, wire: Object) -> None:
        """Take the deletion of a scaler."""
        id_ = _identify(kind, wire)
        known = self._known.get(id_)
        if known is not None and known.uid == str(wire["metadata"].get("uid")):
            self._forget(id_)
            self._on_change(known.key)

    def replace(self, kind: ScalerKind, items: Iterable[Object]) -> None:
        """Take all scalers of one kind."""
        before = {id_: known for id_, known in self._known.items() if id_.kind is kind}
        for id_, known in before.items():
            self._forget(id_)
            self._on_change(known.key)
        for wire in items:
            id_ = _identify(kind, wire)
            version = parse_version(wire["metadata"].get("resourceVersion"))
            self._put(id_, wire, version, before.get(id_))

    def _forget(self, id_: _Id) -> None:
        known = self._known.pop(id_, None)
        if known is None:
            return
        job = self._open.get(known.key)
        if job is not None:
            job.remove(id_)
            if not job.by_id:
                del self._open[known.key]


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


def _find_order(id_: _Id, wire: Object, status: ScalerStatus, first_version: int) -> _Order:
    # All times of the API server have the same form, so they are in the order of their texts.
    created = str(wire["metadata"].get("creationTimestamp"))
    return not is_started(status), created, status.order or first_version, id_.name, id_.kind


def _read_end(id_: _Id, status: ScalerStatus) -> ScalerEnd | None:
    end = find_end(status)
    if end is None:
        return None
    # Scalers that have ended are many: each reason is kept once, and no message.
    reason = sys.intern(end.reason[:_MAX_REASON])
    return ScalerEnd(f"{id_.kind}:{id_.namespace}/{id_.name}", end.type == SUCCEEDED, reason)


def _decode(json: bytes) -> Object:
    obj: Object = msgspec.json.decode(json)
    return obj
