"""Views of nodes: whether a node is cordoned, and its taints. Pure.

Parsing never fails: a field with a wrong type counts as absent. Everything is bounded, because an
account that may write nodes could fill the memory of each controller.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from framework.api.podtemplates import walk_objects
from framework.api.wire import format_time, parse_time

# The API server does not bound the number of taints. Keys are at most 316 characters long (a
# prefix, "/", and a name), effects are words.
MAX_TAINTS = 64
MAX_KEY_CHARS = 316
_MAX_VALUE_CHARS = 63
_MAX_NAME_CHARS = 253
_MAX_EFFECT_CHARS = 32
UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint."""

    key: str
    effect: str = ""
    value: str = ""
    added_at: datetime | None = None
    """When it was added; None if unknown."""

    def __str__(self) -> str:
        """Return KEY:EFFECT, or KEY."""
        return f"{self.key}:{self.effect}" if self.effect else self.key

    def matches(self, rule: "Taint") -> bool:
        """Return whether a rule names this taint; a rule without an effect names all effects."""
        return self.key == rule.key and rule.effect in ("", self.effect)


class Toleration(NamedTuple):
    """Which taints a Pod tolerates without a limit of time."""

    key: str
    """Of the taint; "" for each key."""
    effect: str
    """Of the taint; "" for each effect."""
    value: str | None = None
    """Of the taint; None for each value."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """The fields of a node that decisions read."""

    name: str
    is_cordoned: bool = False
    taints: tuple[Taint, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeNotice:
    """A reason for Tasks to leave a node: a taint, or a cordon, which is also a taint."""

    taint: Taint
    """The taint; that of a cordon has the key ``UNSCHEDULABLE_TAINT``."""
    since: datetime
    """Pods of attempts that started after this do not leave because of it."""
    is_dated: bool = True
    """False if the taint may be older than ``since``: no time is known."""

    @property
    def is_cordon(self) -> bool:
        """Return whether the node is cordoned."""
        return self.taint.key == UNSCHEDULABLE_TAINT


NodeNotices: TypeAlias = tuple[NodeNotice, ...]
"""The notices of a node: first those of taints, then that of a cordon."""


def build_node(name: Any, unschedulable: Any, taints: Any) -> NodeView:
    """Build the view of a node from the fields of its JSON."""
    return NodeView(
        _cut(name, _MAX_NAME_CHARS),
        is_cordoned=unschedulable is True,
        taints=tuple(_parse_taints(taints)),
    )


def encode_node(node: NodeView) -> dict[str, Any]:
    """Encode a view as the JSON from which it is built."""
    taints = [
        {
            "key": taint.key,
            "effect": taint.effect,
            "value": taint.value,
            "timeAdded": format_time(taint.added_at) if taint.added_at is not None else None,
        }
        for taint in node.taints
    ]
    spec = {"unschedulable": node.is_cordoned, "taints": taints}
    return {"metadata": {"name": node.name}, "spec": spec}


def parse_taint(text: str) -> Taint | None:
    """Parse KEY or KEY:EFFECT; None if it is neither."""
    key, _, effect = text.partition(":")
    is_effect = effect in ("", "NoSchedule", "NoExecute", "PreferNoSchedule")
    if not 0 < len(key) <= MAX_KEY_CHARS or not is_effect or text.endswith(":"):
        return None
    return Taint(key, effect)


def walk_tolerations(template: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Walk the tolerations of a Pod template."""
    spec = template.get("spec")
    tolerations = spec.get("tolerations") if isinstance(spec, Mapping) else None
    return walk_objects(tolerations)


def parse_toleration(wire: Mapping[str, Any]) -> Toleration | None:
    """Parse a toleration; None if it lets no Pod stay at a taint without a limit of time."""
    key, effect, value = (wire.get(field) or "" for field in ("key", "effect", "value"))
    operator = wire.get("operator") or "Equal"
    if wire.get("tolerationSeconds") is not None or operator not in ("Exists", "Equal"):
        return None
    is_any_value = operator == "Exists"
    if not (_is_text(key, MAX_KEY_CHARS) and _is_text(effect, _MAX_EFFECT_CHARS)):
        return None
    if is_any_value:
        return Toleration(key, effect)
    return Toleration(key, effect, value) if key and _is_text(value, _MAX_VALUE_CHARS) else None


def _parse_taints(taints: Any) -> Iterable[Taint]:
    if not isinstance(taints, (list, tuple)):
        return
    for taint in islice(taints, MAX_TAINTS):
        if isinstance(taint, Mapping) and (key := _cut(taint.get("key"), MAX_KEY_CHARS)):
            effect = _cut(taint.get("effect"), _MAX_EFFECT_CHARS)
            value = _cut(taint.get("value"), _MAX_VALUE_CHARS)
            yield Taint(key, effect, value, _parse_time(taint.get("timeAdded")))


def _parse_time(value: Any) -> datetime | None:
    try:
        return parse_time(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _is_text(value: Any, limit: int) -> bool:
    return isinstance(value, str) and len(value) <= limit


def _cut(value: Any, limit: int) -> str:
    return value[:limit] if isinstance(value, str) else ""
