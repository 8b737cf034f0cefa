"""Applies a JSONPath template to objects, as ``kubectl get -o jsonpath=`` does. Pure.

A missing field gives no value. Each step of a path costs one unit for each value that it reads or
gives; a template that costs more than ``MAX_COST`` is an error, so that no template and no object
takes much time or memory.

Example: for an object with two containers, ``{.spec.containers[*].name}`` gives "main barrier".
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from cli.printing.gotext import render_json, render_text
from cli.printing.jsonpath_parser import (
    Action,
    Constant,
    Descent,
    Field,
    Filter,
    Node,
    Range,
    Slice,
    Step,
    TemplateError,
    Union,
    Wildcard,
    parse_path,
    parse_template,
)

MAX_COST = 5_000_000
"""The most values that a template may read and return, which takes some seconds."""
# Characters of rendered text that cost as much as one value.
_TEXT_UNIT = 10

_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_KINDS = {bool: "a flag", int: "a number", float: "a number", str: "a text"}


class _Budget:
    """The cost that a template may still cause."""

    def __init__(self) -> None:
        self._left = MAX_COST

    def spend(self, cost: int) -> None:
        self._left -= cost
        if self._left < 0:
            raise TemplateError(
                f"it reads more than {MAX_COST} values; name a path in the place of .. and *, "
                "or select fewer objects"
            )


class Template:
    """A template with texts, actions and ranges."""

    def __init__(self, text: str) -> None:
        """Parse the template.

        Raises:
            TemplateError: it is not a template.
        """
        self._nodes = parse_template(text)

    def render(self, value: Any) -> str:
        """Render the template for an object or a List.

        Raises:
            TemplateError: it does not fit the value, or reads too many values.
        """
        return "".join(_render(self._nodes, value, _Budget()))


class Path:
    """The path of values in one object: of a column, or of a sort key."""

    def __init__(self, text: str) -> None:
        """Parse the path; the braces and the first dot may be left out.

        Raises:
            TemplateError: it is not a path.
        """
        self._action = parse_path(text)

    def find(self, value: Any) -> list[Any]:
        """Find the values in an object; [] if there are none.

        Raises:
            TemplateError: the path does not fit the object, or reads too many values.
        """
        return _walk(self._action, value, _Budget())


def _render(nodes: Sequence[Node], value: Any, budget: _Budget) -> Iterator[str]:
    for node in nodes:
        budget.spend(1)
        if isinstance(node, str):
            budget.spend(len(node) // _TEXT_UNIT)
            yield node
        elif isinstance(node, Range):
            for item in _walk(node.path, value, budget):
                yield from _render(node.body, item, budget)
        else:
            yield _join(_walk(node, value, budget), budget)


def _join(values: Iterable[Any], budget: _Budget) -> str:
    texts = []
    for value in values:
        text = render_json(value) if isinstance(value, dict | list) else render_text(value)
        budget.spend(len(text) // _TEXT_UNIT)
        texts.append(text)
    return " ".join(texts)


def _walk(action: Action, value: Any, budget: _Budget) -> list[Any]:
    values = [value]
    for step in action:
        budget.spend(len(values) + 1)
        taken: list[Any] = []
        for found in _take(step, values, budget):
            budget.spend(1)
            taken.append(found)
        values = taken
    return values


def _take(step: Step, values: list[Any], budget: _Budget) -> Iterator[Any]:
    if isinstance(step, Constant):
        yield step.value
    elif isinstance(step, Union):
        for path in step.paths:
            for value in values:
                yield from _walk(path, value, budget)
    else:
        for value in values:
            if value is not None:
                yield from _take_from(step, value, budget)


def _take_from(
    step: Field | Wildcard | Descent | Slice | Filter, value: Any, budget: _Budget
) -> Iterable[Any]:
    match step:
        case Field(name=""):
            return [value]
        case Field():
            return [value[step.name]] if isinstance(value, dict) and step.name in value else []
        case Wildcard():
            return _list_children(value)
        case Descent():
            return _descend(value, budget)
        case Slice():
            return _slice(step, value)
        case Filter():
            return _filter(step, value, budget)


def _list_children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _descend(value: Any, budget: _Budget) -> Iterator[Any]:
    """Yield a value and the values in it: objects, lists and texts that are not empty."""
    waiting = [value]
    while waiting:
        current = waiting.pop()
        budget.spend(1)
        if isinstance(current, dict | list | str) and current:
            yield current
            waiting += reversed(_list_children(current))


def _slice(step: Slice, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TemplateError(f"{_name_kind(value)} has no items; leave out the brackets")
    length = len(value)
    start = step.start + length if step.start < 0 else step.start
    if step.is_single:
        end = start + 1
    else:
        end = length if step.end is None else step.end
        end = end + length if end < 0 else end
    if start == end:
        return []
    if not 0 <= start < length or end > length:
        asked = start if not 0 <= start < length else end - 1
        raise TemplateError(f"index {asked} is beyond a list of {length}; select [*] or a filter")
    if start > end:
        raise TemplateError(f"a slice begins at {start}, after its end {end}; swap the two")
    return value[start : end : step.step]


def _filter(step: Filter, value: Any, budget: _Budget) -> Iterator[Any]:
    if not isinstance(value, list):
        raise TemplateError(f"{_name_kind(value)} cannot be filtered; filter a list")
    for item in value:
        lefts = _walk(step.left, item, budget)
        if not step.operator:
            if lefts:
                yield item
            continue
        rights = _walk(step.right, item, budget)
        if max(len(lefts), len(rights)) > 1:
            raise TemplateError("a filter compares more than one value; name one field")
        if lefts and rights and _compare(lefts[0], step.operator, rights[0]):
            yield item


def _compare(left: Any, name: str, right: Any) -> bool:
    if _KINDS.get(type(left)) != _KINDS.get(type(right)) or type(left) not in _KINDS:
        raise TemplateError(
            f"a filter compares {_name_kind(left)} with {_name_kind(right)}; quote a text, and do "
            "not quote a number"
        )
    return _COMPARE[name](left, right)


def _name_kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", **_KINDS}
    return kinds.get(type(value), "null")
