"""Decodes the pages of lists, one object after the other.

As Python objects, hostile values such as ``[[],[],...]`` take over 40 times the memory of their
JSON. So a page is split into the JSON of its objects first, and never decoded as a whole.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from framework.api.nesting import MAX_DEPTH, cut_deep_values
from framework.kube.resources import Object
from framework.kube.stream import BrokenStreamError, decode_object

# The list, and its array of objects.
_LEVELS_ABOVE = 2
# It takes milliseconds to decode an object of this size.
_LARGE_ITEM_BYTES = 100_000

_split_list = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_split_items = msgspec.json.Decoder(list[msgspec.Raw] | None).decode


class Page(NamedTuple):
    """A page of a list."""

    head: Object
    """The list without its objects, decoded; its metadata is an object."""
    items: list[msgspec.Raw]
    """The JSON of each object."""


async def decode_page(raw: bytes, read_item: Callable[[bytes], Object]) -> Object:
    """Decode a page, empty or not; between large objects the event loop does other work.

    Args:
        raw: the answer.
        read_item: decodes the JSON of an object, whole or in part.

    Raises:
        BrokenStreamError: it is not a list of objects.
    """
    try:
        try:
            page = split_page(raw)
        except RecursionError:
            # This takes seconds for the largest page.
            page = split_page(await asyncio.to_thread(cut_page, raw))
        items = []
        for item in page.items:
            one = bytes(item)
            items.append(read_item(one))
            if len(one) >= _LARGE_ITEM_BYTES:
                await asyncio.sleep(0)
    except BrokenStreamError as e:
        raise BrokenStreamError(f"the answer is not a list of objects: {e}") from e
    return {**page.head, "items": items}


def build_item_reader(
    trim: Callable[[Object], Object] | None, decode: Callable[[bytes], Object] = decode_object
) -> Callable[[bytes], Object]:
    """Build a reader that decodes an object and trims it."""
    return decode if trim is None else lambda item: trim(decode(item))


def split_page(raw: bytes) -> Page:
    """Split a page, empty or not; the rows of a Table become its items.

    Raises:
        RecursionError: an object is nested too deep; call ``cut_page`` first.
        BrokenStreamError: it is no page of a list.
    """
    try:
        fields = _split_list(raw)
        items, rows = (_split_items(fields.pop(key, b"null")) for key in ("items", "rows"))
        head: Object = {key: msgspec.json.decode(value) for key, value in fields.items()}
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        raise BrokenStreamError(f"a list is not JSON: {e}") from e
    head["metadata"] = head.get("metadata") or {}
    if not isinstance(head["metadata"], dict):
        raise BrokenStreamError("its metadata is not an object")
    return Page(head, items or rows or [])


def cut_page(raw: bytes) -> bytes:
    """Replace values nested too deep in objects by null: 0.2 s for each MB."""
    return cut_deep_values(raw, MAX_DEPTH + _LEVELS_ABOVE)
