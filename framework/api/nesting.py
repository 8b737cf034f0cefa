r"""Limits the nesting depth of JSON. Pure.

An API server stores values with up to 10,000 levels: in fields of any type (the Pod template of a
Framework) and in managedFields. The recursion limit of Python is 1,000. Without this module, one
such object would stop a watch of all namespaces, or end the program.

Example: with a depth of 2, ``{"a":[1,[2]],"b":3}`` becomes ``{"a":[1,null],"b":3}``.
"""

import re
from typing import Any

MAX_DEPTH = 100
"""Maximum levels of objects and arrays in an answer or an event."""
MAX_TEMPLATE_DEPTH = 64
"""Levels of a Pod template. A whole template is never cut: it is at most ten levels down."""

_STRING_START = b'"'[0]
_OPENING = frozenset(b"[{")
# The end of a string is optional, so that a string without an end is scanned only once.
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{]+|[\]}]+', re.DOTALL)


def is_deeper(value: Any, depth: int) -> bool:
    """Return whether a decoded value has more than ``depth`` levels of objects and arrays."""
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(depth):
        level = [
            child
            for node in level
            for child in (node.values() if type(node) is dict else node)
            if type(child) is dict or type(child) is list
        ]
        if not level:
            return False
    return bool(level)


def cut_deep_values(raw: bytes, depth: int = MAX_DEPTH) -> bytes:
    """Replace deeper values by null, in linear time. Text that is not JSON stays invalid."""
    parts: list[bytes] = []
    level = start = 0
    for match in _TOKEN.finditer(raw):
        first = raw[match.start()]
        if first == _STRING_START:
            continue
        before = level
        if first in _OPENING:
            level += match.end() - match.start()
            if before <= depth < level:
                parts += raw[start : match.start() + depth - before], b"null"
        else:
            level -= match.end() - match.start()
            if level <= depth < before:
                start = match.end() - (depth - level)
    if level <= depth:
        parts.append(raw[start:])
    return b"".join(parts)
