"""The node affinity of a Pod against the nodes that its Task avoids.

``avoid_nodes`` changes the required node affinity of a Pod's spec:

1. Without nodes, or with ``nodeName``, which names the only possible node, nothing changes.
2. A template without required node affinity gets one term, with a requirement for each node.
3. Otherwise each term gets these requirements: a Pod runs where one of its terms matches.
4. A term without requirements matches no node, and stays as it is. A value that is not as the API
   server requires it stays, too, so that the server refuses it.

Invariant: the Pod runs on no avoided node, and on no node on which its template would not run.

Example: for n1 and n2, the term ``{matchExpressions: [E]}`` becomes
``{matchExpressions: [E], matchFields: [metadata.name NotIn [n1], metadata.name NotIn [n2]]}``. The
API server allows one value for each requirement of ``matchFields``.

Rules: docs/design/avoiding.md, "The Pod".
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Object = dict[str, Any]
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_TERMS = "nodeSelectorTerms"
_FIELDS = "matchFields"
# Characters of a requirement in JSON, without the name of the node.
_REQUIREMENT_CHARS = 60


def avoid_nodes(
    spec: Object, nodes: Sequence[str], count_growth: Callable[[int], None] = lambda _: None
) -> Object:
    """Build the spec of a Pod that runs on none of the nodes.

    ``count_growth`` is called with the characters by which the JSON becomes longer; it may raise.
    """
    if not nodes or spec.get("nodeName"):
        return spec
    affinity = _read(spec, "affinity")
    node_affinity = _read(affinity, "nodeAffinity")
    required = _read(node_affinity, _REQUIRED)
    if affinity is None or node_affinity is None or required is None:
        return spec
    is_new = not required and node_affinity.get(_REQUIRED) is None
    terms = [{_FIELDS: []}] if is_new else required.get(_TERMS)
    if not isinstance(terms, (list, tuple)):
        return spec
    excluded = [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in nodes]
    count_growth(len(terms) * sum(_REQUIREMENT_CHARS + len(name) for name in nodes))
    required = {**required, _TERMS: [_restrict(term, excluded, is_new=is_new) for term in terms]}
    return {
        **spec,
        "affinity": {**affinity, "nodeAffinity": {**node_affinity, _REQUIRED: required}},
    }


def _read(value: Mapping[str, Any] | None, key: str) -> Mapping[str, Any] | None:
    """Read an object; an empty one if it is absent, None if it is not an object."""
    found = value.get(key) if value is not None else None
    if found is None and value is not None:
        return {}
    return found if isinstance(found, Mapping) else None


def _restrict(term: Any, excluded: list[Object], *, is_new: bool) -> Any:
    if not isinstance(term, Mapping):
        return term
    fields = term.get(_FIELDS) or []
    is_empty = not fields and not term.get("matchExpressions")
    if not isinstance(fields, (list, tuple)) or (is_empty and not is_new):
        return term
    return {**term, _FIELDS: [*fields, *excluded]}
