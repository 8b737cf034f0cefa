r"""JSON as Go's ``encoding/json`` writes it, where bytes are a contract.

Called for diagnostics texts and framework.json, which users parse and compare. Differs from
``json.dumps`` in what it escapes: ``<``, ``>``, ``&``, U+2028 and U+2029 too, and control
characters other than newline, return and tab always as ``\u00xx``.
"""

import json
import re
from typing import Any

_ESCAPED = re.compile('["\\\\\x00-\x1f<>&\u2028\u2029]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    return _SHORT.get(char) or f"\\u{ord(char):04x}"


def _quote(text: str) -> str:
    return f'"{_ESCAPED.sub(_escape, text)}"'


def dumps(value: Any) -> str:
    """Encode a JSON value, compact, keys in the order given."""
    if isinstance(value, str):
        return _quote(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_quote(str(k))}:{dumps(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(dumps(v) for v in value) + "]"
    return json.dumps(value)
