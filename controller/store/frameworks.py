"""Takes a version of a Framework into an entry, decoded at once or later."""

from dataclasses import replace

from controller.store.entry import Entry
from controller.store.object_identity import measure_object
from controller.store.packed_templates import pack_metadata, pack_templates
from framework.api import codec
from framework.api.fielderrors import FieldError, FieldErrors
from framework.kube.deferred import DeferredObject
from framework.kube.resources import Object
from framework.kube.stream import BrokenStreamError


def decode_framework(entry: Entry) -> None:
    """Decode the newest version of a Framework, if that is not done yet."""
    known = entry.observed
    wire, known.undecoded = known.undecoded, None
    if wire is not None:
        take(entry, wire, is_stored=known.is_status_undecoded)


def decode_status(entry: Entry) -> None:
    """Decode a Framework whose status is not decoded yet."""
    if entry.observed.is_status_undecoded:
        decode_framework(entry)


def take(entry: Entry, wire: Object, *, is_stored: bool) -> None:
    """Take a version of a Framework.

    Args:
        entry: of this Framework.
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
        # Not the exception itself: its traceback would keep the whole object.
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
