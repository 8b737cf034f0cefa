"""Cuts a stream of bytes into lines and lines into watch events.

Pure. It works on bytes, so a chunk may end inside a character.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from framework.api.nesting import MAX_DEPTH, cut_deep_values, is_deeper
from framework.kube.resources import Object

# An object is at most 1.5 MiB in etcd; a line beyond this is no event.
MAX_LINE_BYTES = 16 * 2**20

_DECODER: msgspec.json.Decoder[Any] = msgspec.json.Decoder()


class BrokenStreamError(Exception):
    """The bytes are not a sequence of events."""


class LineSplitter:
    """Collects chunks and yields complete lines, in linear time."""

    def __init__(self) -> None:
        """Start at the beginning of a line."""
        self._pending: list[bytes] = []
        self._pending_bytes = 0

    @property
    def has_rest(self) -> bool:
        """Return whether a line is incomplete."""
        return self._pending_bytes > 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Add a chunk; yield the lines it completes, without their end and without empty ones.

        Raises:
            BrokenStreamError: a line without end.
        """
        lines = chunk.split(b"\n")
        last = lines.pop()
        for line in lines:
            whole = b"".join((*self._pending, line)) if self._pending else line
            self._pending.clear()
            self._pending_bytes = 0
            if whole.strip():
                yield whole
        if last:
            self._pending.append(last)
            self._pending_bytes += len(last)
        if self._pending_bytes > MAX_LINE_BYTES:
            raise BrokenStreamError(f"a line of more than {MAX_LINE_BYTES} bytes")


def decode_event(line: bytes) -> tuple[str, Object]:
    """Decode one line of a watch into (type, object); values nested too deep become null.

    Raises:
        BrokenStreamError: it is no event.
    """
    try:
        event = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        raise BrokenStreamError(f"an event is not JSON: {e}") from e
    if isinstance(event, dict):
        event_type, obj = event.get("type"), event.get("object")
        if isinstance(event_type, str) and isinstance(obj, dict):
            return event_type, obj
    raise BrokenStreamError("an event has no type or no object")


def decode_object(raw: bytes) -> Object:
    """Decode a whole answer; values nested too deep become null.

    Raises:
        BrokenStreamError: it is not one JSON object.
    """
    try:
        obj = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        raise BrokenStreamError(f"the answer is not JSON: {e}") from e
    if not isinstance(obj, dict):
        raise BrokenStreamError("the answer is not a JSON object")
    return obj


def _decode(raw: bytes) -> Any:
    with suppress(RecursionError):
        value = _DECODER.decode(raw)
        # Keep a margin: JSON that is just below the recursion limit here exceeds it where the
        # stack is deeper.
        if not is_deeper(value, MAX_DEPTH):
            return value
    return _DECODER.decode(cut_deep_values(raw))
