"""The readiness of a gang before its first roster, in an annotation of the attempt ConfigMap.

Written for Python 3.7 (agents' zipapp). Rules: docs/design/roster.md, "Readiness".
"""

import json
from typing import Any, Dict, NamedTuple, Tuple

from framework.api.constants import READINESS_MAX_BYTES, READINESS_MAX_MISSING
from framework.api.packed import Bounds, parse_json
from framework.api.rostervalues import MALFORMED, RosterError, read_count, read_typed

_BOUNDS = Bounds(READINESS_MAX_BYTES, READINESS_MAX_BYTES, READINESS_MAX_BYTES)


class Missing(NamedTuple):
    """A missing Task, and the reason for users."""

    role: str
    index: int  # type: ignore[assignment]  # hides tuple.index
    reason: str


class GangReadiness(NamedTuple):
    """The counts and missing Tasks before the first roster. No decision of a barrier reads it."""

    ready: int
    total: int
    missing: Tuple[Missing, ...]


def encode_readiness(readiness: GangReadiness) -> str:
    """Encode to the annotation's JSON: at most 10 missing Tasks and 2 kB, reasons cut first."""
    for width in (160, 80, 40, 20, 0):
        text = json.dumps(_readiness_to_wire(readiness, width), separators=(",", ":"))
        if len(text.encode()) <= READINESS_MAX_BYTES:
            return text
    return json.dumps({"ready": readiness.ready, "total": readiness.total, "missing": []})


def decode_readiness(text: str) -> GangReadiness:
    """Decode the annotation.

    Raises:
        RosterError: The text is not such JSON, or is too large.
    """
    try:
        wire = parse_json(text.encode("utf-8"), _BOUNDS)
        missing = read_typed(wire["missing"], list)
        if len(missing) > READINESS_MAX_MISSING:
            raise RosterError(f"more than {READINESS_MAX_MISSING} Tasks")
        return GangReadiness(
            read_count(wire["ready"]),
            read_count(wire["total"]),
            tuple(
                Missing(_sentence(m["role"]), read_count(m["index"]), _sentence(m["reason"]))
                for m in missing
            ),
        )
    except MALFORMED as e:
        raise RosterError(f"undecodable readiness: {e}") from e


def _sentence(value: Any) -> str:
    """Return a text for users; a lone surrogate, which UTF-8 cannot encode, becomes "?"."""
    return read_typed(value, str).encode("utf-8", "replace").decode("utf-8")


def _readiness_to_wire(readiness: GangReadiness, width: int) -> Dict[str, Any]:
    return {
        "ready": readiness.ready,
        "total": readiness.total,
        "missing": [
            {"role": m.role, "index": m.index, "reason": m.reason[:width]}
            for m in readiness.missing[:READINESS_MAX_MISSING]
        ],
    }
