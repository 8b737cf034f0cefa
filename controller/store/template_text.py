r"""The text of a packed Pod template: replaces placeholders, and opens what a Pod is built from.

A template of 1.4 MB may be half a million empty lists. Python would need half a second to copy it
for each Pod, in which the controller does nothing else. So placeholders are replaced in the JSON
text, by C code, and only the parts to which the builder adds something become Python objects. All
other parts stay JSON, as ``msgspec.Raw``, which the client sends unchanged.

- A placeholder has no character that JSON escapes, so it has the same bytes in any JSON string, and
  can be nowhere else: outside of strings, ``{{`` is no JSON.
- A value is written as in a JSON string, with escapes where it needs them.
- One scan: a placeholder in a replaced value is not replaced again.

Example: ``{"args":["{{FC_TASK_INDEX}}"]}`` becomes ``{"args":["3"]}``.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from framework.api import constants

_PLACEHOLDER = re.compile(b"{{(" + "|".join(constants.TEMPLATE_PLACEHOLDERS).encode() + b")}}")
_BRACES = len("{{}}")
_open_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_open_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


def has_placeholder(text: bytes) -> bool:
    """Return whether a JSON text has a placeholder."""
    return _PLACEHOLDER.search(text) is not None


def replace_placeholders(
    text: bytes, names: Mapping[str, str], count_growth: Callable[[int], None]
) -> bytes:
    """Replace the placeholders of a JSON text.

    Args:
        text: of the template.
        names: the value of each placeholder.
        count_growth: called with the characters by which the text becomes longer; it may raise.
    """
    parts = _PLACEHOLDER.split(text)
    found = Counter(parts[1::2])
    values = {name: names[name.decode()] for name in found}
    for name, count in found.items():
        count_growth(count * max(0, len(values[name]) - len(name) - _BRACES))
    escaped = {name: msgspec.json.encode(value)[1:-1] for name, value in values.items()}
    parts[1::2] = [escaped[name] for name in parts[1::2]]
    return b"".join(parts)


def open_template(text: bytes, *, with_affinity: bool = False) -> dict[str, Any]:
    """Open the metadata and the containers of a template; other values stay JSON.

    With ``with_affinity``, also what decides on which nodes the Pod may run.
    """
    fields = _PLACED_TEMPLATE if with_affinity else _TEMPLATE
    opened: dict[str, Any] = _open_fields(msgspec.Raw(text), fields)
    return opened


def _open(value: msgspec.Raw) -> Any:
    """Open one level of a value; its parts stay JSON."""
    start = bytes(memoryview(value)[:1])
    if start == b"{":
        return _open_object(value)
    return _open_list(value) if start == b"[" else _decode(value)


def _decode(value: msgspec.Raw) -> Any:
    return msgspec.json.decode(value)


def _open_fields(value: msgspec.Raw, fields: Mapping[str, Callable[[msgspec.Raw], Any]]) -> Any:
    """Open one level of a value, and these fields of it."""
    opened = _open(value)
    if isinstance(opened, dict):
        for name in fields.keys() & opened.keys():
            opened[name] = fields[name](opened[name])
    return opened


def _open_containers(value: msgspec.Raw) -> Any:
    opened = _open(value)
    return [_open_fields(each, _CONTAINER) for each in opened] if type(opened) is list else opened


_CONTAINER = {"env": _open, "terminationMessagePolicy": _decode}
_POD_SPEC = dict.fromkeys(("containers", "initContainers"), _open_containers)
# To sign the Pod, its owners are read.
_METADATA = {"annotations": _open, "labels": _open, "ownerReferences": _decode}
_TEMPLATE = {
    "metadata": lambda value: _open_fields(value, _METADATA),
    "spec": lambda value: _open_fields(value, _POD_SPEC),
}
_PLACED_POD_SPEC = {**_POD_SPEC, "affinity": _decode, "nodeName": _decode}
_PLACED_TEMPLATE = {
    **_TEMPLATE,
    "spec": lambda value: _open_fields(value, _PLACED_POD_SPEC),
}
