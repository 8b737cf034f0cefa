r"""The part of JSONPath that printer columns use.

Known are field names (``\.`` is a dot that belongs to the name), ``['name']``, ``[0]``, ``[*]`` and
the filter ``[?(@.a.b=="value")]``. Slices, unions, recursion and arithmetic are errors.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

# The pattern takes time that grows with the square of what it looks at.
MAX_LENGTH = 1000
_TOKEN = re.compile(
    r"""\.?\[\?\(\s*@(?P<filter>[^=!]+?)\s*==\s*(?P<value>"[^"]*"|'[^']*'|[^)\s]+)\s*\)\]
      | \.?\[\s*(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\s*\]
      | \.?\[\s*(?P<index>-?\d+)\s*\]
      | \.?\[\s*(?P<every>\*)\s*\]
      | \.(?P<wildcard>\*)
      | \.(?P<field>(?:\\.|[^.\[\\])+)
    """,
    re.VERBOSE,
)


class JsonPathError(ValueError):
    """A path outside the known part of the language."""


@dataclass(frozen=True, slots=True)
class _Filter:
    path: str
    value: str


_Step = str | int | _Filter | None
"""A field, an index, a filter, or None for every element."""


def find_values(document: object, path: str) -> list[Any]:
    """Return all values at ``path``; an empty list if there is none.

    Raises:
        JsonPathError: The path is not understood.
    """
    values: Iterable[Any] = [document]
    for step in _parse(path):
        values = [found for value in values for found in _take(value, step)]
    return list(values)


@lru_cache(maxsize=1024)
def _parse(path: str) -> tuple[_Step, ...]:
    if len(path) > MAX_LENGTH:
        raise JsonPathError(f"jsonPath has {len(path)} characters: write at most {MAX_LENGTH}")
    text = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    if text and text[0] not in ".[":
        text = "." + text
    steps: list[_Step] = []
    position = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            raise JsonPathError(f"jsonPath {path!r}: not understood from {text[position:]!r} on")
        steps.append(_step(token))
        position = token.end()
    return tuple(steps)


def _step(token: re.Match[str]) -> _Step:
    if token["filter"] is not None:
        return _Filter(token["filter"], token["value"].strip("\"'"))
    if token["quoted"] is not None:
        return token["quoted"]
    if token["index"] is not None:
        return int(token["index"])
    if token["field"] is not None:
        return re.sub(r"\\(.)", r"\1", token["field"])
    return None


def _take(value: object, step: _Step) -> Iterator[Any]:
    if isinstance(step, str):
        if isinstance(value, dict) and step in value:
            yield value[step]
    elif isinstance(step, int):
        if isinstance(value, list) and -len(value) <= step < len(value):
            yield value[step]
    else:
        yield from (
            element for element in _elements(value) if step is None or _matches(element, step)
        )


def _elements(value: object) -> Iterable[Any]:
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        return value.values()
    return ()


def _matches(element: object, condition: _Filter) -> bool:
    return any(_text(found) == condition.value for found in find_values(element, condition.path))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
