r"""The part of JSONPath that printer columns of this project's CRDs use.

Known are field names (``\.`` is a dot that belongs to the name) and the filter
``[?(@.a.b=="value")]``. Everything else is an error.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

# The pattern takes quadratic time.
MAX_LENGTH = 1000
_TOKEN = re.compile(
    r"""\[\?\(\s*@(?P<filter>[^=!]+?)\s*==\s*"(?P<value>[^"]*)"\s*\)\]
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


_Step = str | _Filter


def find_values(document: object, path: str) -> list[Any]:
    """Return all values at ``path``; an empty list if there is none."""
    values: list[Any] = [document]
    for step in _parse(path):
        values = [found for value in values for found in _take(value, step)]
    return values


@lru_cache(maxsize=1024)
def _parse(path: str) -> tuple[_Step, ...]:
    if len(path) > MAX_LENGTH:
        raise JsonPathError(f"jsonPath has {len(path)} characters: write at most {MAX_LENGTH}")
    steps: list[_Step] = []
    position = 0
    while position < len(path):
        token = _TOKEN.match(path, position)
        if token is None:
            raise JsonPathError(f"jsonPath {path!r}: not understood from {path[position:]!r} on")
        if token["field"] is not None:
            steps.append(re.sub(r"\\(.)", r"\1", token["field"]))
        else:
            steps.append(_Filter(token["filter"], token["value"]))
        position = token.end()
    return tuple(steps)


def _take(value: object, step: _Step) -> list[Any]:
    if isinstance(step, str):
        return [value[step]] if isinstance(value, dict) and step in value else []
    if not isinstance(value, list):
        return []
    return [item for item in value if step.value in find_values(item, step.path)]
