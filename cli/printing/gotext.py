"""Writes values as Go writes them, so that the output is equal to that of kubectl. Pure."""

import json
from decimal import Decimal
from typing import Any

from framework.api.text import is_printable

# Go escapes these in JSON, so that it may stand in HTML.
_HTML = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}
_TEXT_EXPONENT = 21
_SHORT_EXPONENT = -4


def render_json(value: Any, indent: int | None = None) -> str:
    """Render JSON on one line, or indented, with control characters escaped."""
    separators = (",", ":") if indent is None else (",", ": ")
    options: dict[str, Any] = {"indent": indent, "separators": separators, "sort_keys": True}
    text = json.dumps(value, ensure_ascii=False, **options)
    if not is_printable(text.replace("\n", "")):
        text = json.dumps(value, **options).replace("\x7f", "\\u007f")
    return text.translate(_HTML)


def render_text(value: Any) -> str:
    """Render a value as ``fmt.Print`` does; objects and lists, too."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case float():
            return _render_float(value)
        case dict():
            parts = (f"{key}:{render_text(value[key])}" for key in sorted(value))
            return f"map[{' '.join(parts)}]"
        case list():
            return f"[{' '.join(map(render_text, value))}]"
        case _:
            return str(value)


def _render_float(value: float) -> str:
    number = Decimal(repr(value))
    sign, digits, _ = number.normalize().as_tuple()
    exponent = number.adjusted() if number else 0
    if _SHORT_EXPONENT <= exponent < _TEXT_EXPONENT:
        return format(number.normalize(), "f")
    mantissa = "".join(map(str, digits))
    point = f".{mantissa[1:]}" if len(mantissa) > 1 else ""
    return f"{'-' * sign}{mantissa[0]}{point}e{exponent:+03d}"
