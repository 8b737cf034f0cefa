"""Puts versions of a Framework into its entry, and decodes or strips them."""

from dataclasses import replace

from controller.store.entry import Entry
from controller.store.object_identity import (
    is_newer_framework,
    measure_object,
    read_meta,
    read_version,
)
from controller.store.packed_templates import pack_metadata, pack_templates
from framework.api import codec
from framework.api.fielderrors import FieldError, FieldErrors
from framework.api.types import Framework, FrameworkStatus
from framework.kube.deferred import DeferredObject, strip_object
from framework.kube.keptjson import KeptJson
from framework.kube.resources import Object
from framework.kube.stream import BrokenStreamError

# A smaller Framework takes about as much memory as its identity.
_LEAST_STRIPPED_BYTES = 4096


def decode_framework(entry: Entry) -> None:
    """Decode the newest version of a Framework, if that is not done yet and it is not stripped."""
    known = entry.observed
    if known.undecoded is not None and not known.undecoded.is_stripped:
        wire, known.undecoded = known.undecoded, None
        take(entry, wire, is_stored=known.is_status_undecoded)


def decode_status(entry: Entry) -> None:
    """Decode a Framework whose status is not decoded yet, and that is not stripped."""
    if entry.observed.is_status_undecoded:
        decode_framework(entry)


def take_read(entry: Entry, wire: Object, *, is_stored: bool) -> None:
    """Take the answer to a live GET of the known Framework, instead of a stripped version.

    Args:
        entry: the entry of this Framework.
        wire: the answer.
        is_stored: whether the status of the answer is taken, and not only spec and metadata.
    """
    known = entry.observed
    if known.undecoded is not None:
        is_stored |= known.is_status_undecoded
        # A watch may have shown a later version before the answer came: that is read later.
        if read_version(wire).resource_version >= read_version(known.undecoded).resource_version:
            known.undecoded = None
    take(entry, wire, is_stored=is_stored)


def take_written(entry: Entry, wire: Object, status: FrameworkStatus) -> None:
    """Take the answer to our own status write; a later edit that a watch has shown stays.

    Args:
        entry: the entry of this name; if it has a later Framework, that is not changed.
        wire: the answer.
        status: the status that was written.
    """
    decode_framework(entry)
    known = entry.observed.framework
    if known is None or known.metadata.uid != read_meta(wire).get("uid"):
        return
    # While a later version is stripped, its spec is read in the next turn.
    is_newer = is_newer_framework(wire, entry.observed.version)
    entry.observed.wire_status = wire.get("status")
    entry.observed.is_status_ours = True
    entry.observed.is_diverged = False
    entry.observed.needs_refresh = False
    if is_newer:
        metadata = pack_metadata(codec.decode_metadata(wire))
        spec = known.spec
        if metadata.generation != known.metadata.generation:
            spec = pack_templates(codec.decode_spec(wire.get("spec")))
        known = replace(known, metadata=metadata, spec=spec)
    entry.observed.framework = replace(known, status=status)


def put_away(entry: Entry, budget: KeptJson, *, is_at_rest: bool) -> None:
    """Find room for the JSON of a decoded Framework until its next turn, or strip it.

    Args:
        entry: the entry of this Framework; no request for it is unsent or in flight.
        budget: the room for the JSON of all Frameworks.
        is_at_rest: whether the Framework is not likely to be needed soon.
    """
    known = entry.observed
    known.kept = None
    if known.framework is None or known.undecoded is not None:
        return
    if not is_at_rest or known.object_bytes < _LEAST_STRIPPED_BYTES:
        known.kept = budget.keep(entry.namespace, known.object_bytes)
    if known.kept is None:
        _strip(entry, known.framework)


def _strip(entry: Entry, framework: Framework) -> None:
    """Keep only the identity: the API server has the rest, also the status."""
    known, meta = entry.observed, framework.metadata
    metadata = {
        "name": entry.name,
        "namespace": entry.namespace,
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
        "generation": meta.generation,
    }
    known.undecoded = strip_object(metadata, known.object_bytes)
    known.is_status_undecoded = True
    known.framework = known.wire_status = None


def take(entry: Entry, wire: Object, *, is_stored: bool) -> None:
    """Take a version of a Framework.

    Args:
        entry: the entry of this Framework.
        wire: the version.
        is_stored: whether its status is taken, and not only spec and metadata.
    """
    try:
        whole = _decode(wire)
        if is_stored:
            _take_stored(entry, whole)
        else:
            _take_edit(entry, whole)
        unread_bytes = wire.unread_bytes if isinstance(wire, DeferredObject) else 0
        entry.observed.object_bytes = measure_object(whole) + unread_bytes
        entry.observed.fault = None
    except FieldErrors as e:
        entry.observed.framework = None
        # A new exception, because the traceback of ``e`` would keep the whole object in memory.
        entry.observed.fault = FieldErrors(e.errors)


def _decode(wire: Object) -> Object:
    if not isinstance(wire, DeferredObject):
        return wire
    try:
        return wire.decode()
    except BrokenStreamError as e:
        raise FieldErrors([FieldError("", str(e))]) from e


def _take_edit(entry: Entry, wire: Object) -> None:
    known = entry.observed.framework
    if known is None:
        return
    metadata = pack_metadata(codec.decode_metadata(wire))
    spec = pack_templates(codec.decode_spec(wire.get("spec")))
    entry.observed.framework = replace(known, metadata=metadata, spec=spec)
    entry.observed.is_diverged = wire.get("status") != entry.observed.wire_status


def _take_stored(entry: Entry, wire: Object) -> None:
    framework = codec.decode_framework(wire)
    entry.observed.framework = replace(
        framework,
        metadata=pack_metadata(framework.metadata),
        spec=pack_templates(framework.spec),
    )
    entry.observed.wire_status = wire.get("status")
    entry.observed.is_diverged = False
