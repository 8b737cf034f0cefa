r"""How deep JSON may be nested, and JSON cut down to that depth.

Called by ``framework.kube.stream`` and the codec; pure. An API server stores values nested up to
10,000 levels deep: in a field of any type (the Pod template of a Framework), and in managedFields
of every object. Python's recursion ends at 1,000, wherever a program happens to be, so that one
such object would stop a watch of all namespaces, or end the program.

Example: with a depth of 2, ``{"a":[1,[2]],"b":3}`` becomes ``{"a":[1,null],"b":3}``.
"""

import re
from typing import Any

MAX_DEPTH = 100
"""Levels of objects and arrays that are read of an answer or of an event."""
MAX_TEMPLATE_DEPTH = 64
"""Levels of a Pod template. A whole template is never cut: it is at most ten levels down."""

_STRING_START = b'"'[0]
_OPENING = frozenset(b"[{")
# The end of a string is optional, so that one without an end is scanned once.
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{]+|[\]}]+', re.DOTALL)


def is_deeper(value: Any, depth: int) -> bool:
    """Return whether a decoded value has more levels of objects and arrays than ``depth``."""
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
    """Replace by null what is nested deeper; what is not JSON stays so. Takes linear time."""
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
