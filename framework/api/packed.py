"""Decodes untrusted JSON within bounds: plain, gzipped, or base64 of gzip.

All packed JSON of ConfigMaps, annotations and statuses is decoded here. The cost is bounded before
a value is built, by the length of the text, the length after gzip (decompression stops there) and
the number of values, counted in the text. Numbers have at most the length of 64 bits, because older
versions of Python need quadratic time for long ones. Nesting is bounded by the recursion limit. The
caller checks types. Python 3.7 syntax, because the zipapp of the agents contains this file.
"""

import base64
import json
import re
import zlib
from typing import Any, NamedTuple

from framework.api.constants import MAX_TASKS

_MAX_NUMBER_LENGTH = 20
_CHUNK_BYTES = 256 * 1024
_ALWAYS_READ_BYTES = 128 * 1024
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")


class Bounds(NamedTuple):
    """Limits of a document: stored bytes, bytes of JSON, and values.

    Each comma and each opening bracket counts as a value, also in a string. ``expansion`` is the
    maximum of bytes of JSON per stored byte, so that a small text costs little; 128 KiB of JSON are
    always allowed.
    """

    stored_bytes: int
    json_bytes: int
    values: int
    expansion: int = 1000


# Of taskRoleStatusesCompressed. The server stores objects of at most 1.5 MiB. A Task of
# the Go original takes 45 values and 1 kB, and up to 6 kB and 100 commas with its texts; Frameworks
# that were stored before there was a limit may have more Tasks.
STATUS_BOUNDS = Bounds(1536 * 1024, 6400 * MAX_TASKS, 150 * MAX_TASKS)


class PackedError(ValueError):
    """The text is not such a document, or exceeds its bounds."""


def unpack_base64(stored: Any, bounds: Bounds) -> Any:
    """Decode base64 of gzipped JSON.

    Raises:
        PackedError: The text is something else, or too large.
    """
    if not isinstance(stored, str):
        raise PackedError("is not a text")
    if len(stored) > -(-bounds.stored_bytes // 3) * 4:
        raise PackedError(f"longer than {bounds.stored_bytes} bytes as stored")
    if len(stored) % 4 or not _BASE64.fullmatch(stored):
        raise PackedError("is not base64")
    return unpack(base64.b64decode(stored), bounds)


def unpack(blob: bytes, bounds: Bounds) -> Any:
    """Decode gzipped JSON.

    Raises:
        PackedError: The text is something else, or too large.
    """
    if len(blob) > bounds.stored_bytes:
        raise PackedError(f"longer than {bounds.stored_bytes} bytes as stored")
    limit = min(bounds.json_bytes, max(_ALWAYS_READ_BYTES, bounds.expansion * len(blob)))
    return parse_json(_gunzip(blob, limit), bounds)


def parse_json(raw: bytes, bounds: Bounds) -> Any:
    """Decode JSON.

    Raises:
        PackedError: The text is not JSON, or too large.
    """
    if len(raw) > bounds.json_bytes:
        raise PackedError(f"longer than {bounds.json_bytes} bytes")
    values = raw.count(b",") + raw.count(b"[") + raw.count(b"{")
    if values > bounds.values:
        raise PackedError(f"more than {bounds.values} values")
    try:
        return json.loads(
            raw.decode("utf-8"),
            parse_int=_parse_int,
            parse_float=_parse_float,
        )
    except PackedError:
        raise
    except (ValueError, RecursionError) as e:
        raise PackedError(f"{type(e).__name__}: {e}") from e


def _gunzip(blob: bytes, limit: int) -> bytes:
    decompressor = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    parts, size, rest = [], 0, blob
    try:
        while not decompressor.eof:
            part = decompressor.decompress(rest, min(_CHUNK_BYTES, limit + 1 - size))
            rest = decompressor.unconsumed_tail
            if not part and not rest:
                break
            parts.append(part)
            size += len(part)
            if size > limit:
                raise PackedError(f"longer than {limit} bytes")
    except zlib.error as e:
        raise PackedError(f"is not gzip: {e}") from e
    if not decompressor.eof or decompressor.unused_data:
        raise PackedError("is not gzip: cut off, or followed by more")
    return b"".join(parts)


def _parse_int(text: str) -> int:
    if len(text) > _MAX_NUMBER_LENGTH:
        raise PackedError("a number that does not fit 64 bits")
    return int(text)


def _parse_float(text: str) -> float:
    if len(text) > 2 * _MAX_NUMBER_LENGTH:
        raise PackedError("a number that does not fit 64 bits")
    return float(text)
