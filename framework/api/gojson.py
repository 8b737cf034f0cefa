r"""JSON as Go's ``encoding/json`` writes it, where bytes are a contract.

Called for diagnostics texts and framework.json, which users parse and compare. Differs from
``json.dumps`` in what it escapes: ``<``, ``>``, ``&``, U+2028 and U+2029 too, and control
characters other than newline, return and tab always as ``\u00xx``.
"""

import json
import re
from typing import Any

_EXTRA = str.maketrans({c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})
# Short escapes of json.dumps that Go does not use. The backslash may itself be escaped.
_SHORT = re.compile(r"(?<!\\)((?:\\\\)*)\\([bf])")
_LONG = {"b": "\\u0008", "f": "\\u000c"}


def dumps(value: Any) -> str:
    """Encode a JSON value without spaces; keys keep their order."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False).translate(_EXTRA)
    if "\\b" in text or "\\f" in text:
        text = _SHORT.sub(lambda match: match.group(1) + _LONG[match.group(2)], text)
    return text
