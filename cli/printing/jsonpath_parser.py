r"""Reads a JSONPath template, as ``kubectl get -o jsonpath=`` takes it. Pure.

A template is text with actions in braces. An action is a list of steps; each step takes the values
of the step before. The grammar is that of kubectl, not that of RFC 9535 (docs/adr/0022):

- ``.name``, ``['name']``: a field; ``\.`` is a dot in a name. ``$`` and ``@`` are the value itself.
- ``[2]``, ``[-1]``, ``[1:3]``, ``[0:8:2]``, ``[*]``, ``.*``, ``..``, ``[0,2]``, ``['a','b']``
- ``[?(@.a.b=="c")]``, ``[?(@.a)]`` with ``==``, ``!=``, ``<``, ``<=``, ``>``, ``>=``
- ``"text"``, ``'text'``, numbers, ``true`` and ``false``
- ``{range ...}`` to ``{end}`` repeats what is between them for each value.

Example: ``{range .items[*]}{.metadata.name}{"\n"}{end}``.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

MAX_LENGTH = 8192
"""The most characters of a template."""
MAX_DEPTH = 16
"""The most ranges within each other."""

_FIELD = re.compile(r"(?:\\.|[^ \t\r\n.,\[\]$@{}\\])*", re.DOTALL)
_WORD = re.compile(r"[^ \t\r\n.,\[\]$@{}]+")
_NUMBER = re.compile(r"[+-]?[0-9.]+")
_QUOTED = re.compile(r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'")
_BRACKETS = re.compile(r"\[([^\]\n]*)\]")
_KEY = re.compile(r"'([^']*)'\Z")
_SLICE = re.compile(r"(-?[0-9]{0,9})(:-?[0-9]{0,9})?(:-?[0-9]{0,9})?\Z")
_COMPARISON = re.compile(r"([^!<>=]+)([!<>=]+)(.+)\Z", re.DOTALL)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'"}
_OPERATORS = frozenset({"==", "!=", "<", "<=", ">", ">="})


class TemplateError(ValueError):
    """A template that cannot be read, or that does not fit the objects."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an object; with the name "", the object itself."""

    name: str


@dataclass(frozen=True, slots=True)
class Wildcard:
    """All values of an object or a list."""


@dataclass(frozen=True, slots=True)
class Descent:
    """A value and all values in it."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Items of a list. ``end`` is None for the length; ``is_single``: only that at ``start``."""

    start: int
    end: int | None
    step: int
    is_single: bool


@dataclass(frozen=True, slots=True)
class Constant:
    """A text, a number or a flag."""

    value: str | int | float | bool


@dataclass(frozen=True, slots=True)
class Union:
    """The values of several paths, one path after the other."""

    paths: "tuple[Action, ...]"


@dataclass(frozen=True, slots=True)
class Filter:
    """The items of a list for which a comparison is true; with the operator "", that have ``left``.

    The two sides are paths from the item.
    """

    left: "Action"
    operator: str
    right: "Action"


Step: TypeAlias = Field | Wildcard | Descent | Slice | Constant | Union | Filter
Action: TypeAlias = tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """A part of a template that is repeated for each value of a path."""

    path: Action
    body: "tuple[Node, ...]"


Node: TypeAlias = str | Action | Range


def parse_template(text: str) -> tuple[Node, ...]:
    """Parse a template.

    Raises:
        TemplateError: it is not a template, or beyond the limits.
    """
    if len(text) > MAX_LENGTH:
        raise TemplateError(f"it has {len(text)} characters; write at most {MAX_LENGTH}")
    return tuple(_nest(_split(text)))


def parse_path(text: str) -> Action:
    """Parse the path of one value, with or without braces and the dot at its start.

    Raises:
        TemplateError: it is not a path.
    """
    inner = text[1:-1] if text.startswith("{") and text.endswith("}") else text
    if not inner or "{" in inner or "}" in inner or len(text) > MAX_LENGTH:
        raise TemplateError(f"{text[:80]!r} is not a path; write for example .metadata.name")
    dot = "" if inner.startswith((".", "[", "$")) else "."
    keyword, path, _ = _Scanner("{" + dot + inner + "}", 0).scan()
    if keyword:
        raise TemplateError(f"{keyword} has no meaning in a path; leave it out")
    return path


_Part: TypeAlias = str | tuple[str, Action]


def _split(text: str) -> Iterator[_Part]:
    """Split a template into its texts and actions; an action has its keyword, or ""."""
    position = 0
    while position < len(text):
        start = text.find("{", position)
        if start < 0:
            yield text[position:]
            return
        if start > position:
            yield text[position:start]
        keyword, steps, position = _Scanner(text, start).scan()
        yield keyword, steps


def _nest(parts: Iterator[_Part]) -> list[Node]:
    """Put the nodes between range and end into a Range."""
    levels: list[tuple[Action, list[Node]]] = [((), [])]
    for part in parts:
        nodes = levels[-1][1]
        if isinstance(part, str):
            nodes.append(part)
            continue
        keyword, steps = part
        if keyword == "range":
            levels.append((steps, []))
            if len(levels) > MAX_DEPTH:
                raise TemplateError(f"more than {MAX_DEPTH} ranges are in each other; write fewer")
        elif keyword == "end":
            if len(levels) == 1:
                raise TemplateError("{end} without {range}; add {range PATH} before it")
            path, body = levels.pop()
            levels[-1][1].append(Range(path, tuple(body)))
        else:
            nodes.append(steps)
    if len(levels) > 1:
        raise TemplateError("{range} without {end}; add {end}")
    return levels[0][1]


class _Scanner:
    """Reads one action of a text, which has a brace at ``start``."""

    def __init__(self, text: str, start: int) -> None:
        self._text = text
        self._position = start + 1
        self._keyword = ""
        self._steps: list[Step] = []

    def scan(self) -> tuple[str, Action, int]:
        """Read the action; return its keyword, its steps and the position after it."""
        while not self._text.startswith("}", self._position):
            self._scan_step()
        return self._keyword, tuple(self._steps), self._position + 1

    def _scan_step(self) -> None:
        text, position = self._text, self._position
        character = text[position : position + 1]
        if not character or character in "\r\n":
            raise TemplateError("an action has no end; add }")
        if character in " \t@$":
            self._position += 1
        elif text.startswith("[?(", position):
            self._scan_filter()
        elif text.startswith("..", position):
            self._scan_descent()
        elif character == "[":
            self._scan_brackets()
        elif character in "\"'":
            quoted = self._take(_QUOTED, "a text has no closing quote")
            self._steps.append(Constant(_unquote(quoted)))
        elif character == ".":
            self._position += 1
            self._scan_field()
        elif character in "+-" or character.isdigit():
            self._steps.append(Constant(_read_number(self._take(_NUMBER, "a sign has no number"))))
        elif character == "_" or character.isalpha():
            self._scan_word()
        else:
            near = text[position : position + 20]
            raise TemplateError(f"{near!r} is not understood; quote texts")

    def _take(self, pattern: "re.Pattern[str]", fault: str) -> str:
        found = pattern.match(self._text, self._position)
        if found is None:
            raise TemplateError(f"{fault}: {self._text[self._position : self._position + 20]!r}")
        self._position = found.end()
        return found.group()

    def _scan_field(self) -> None:
        name = self._take(_FIELD, "a field has no name")
        self._steps.append(Wildcard() if name == "*" else Field(name.replace("\\", "")))

    def _scan_descent(self) -> None:
        if self._steps and isinstance(self._steps[-1], Descent):
            raise TemplateError(".. follows ..; write it once")
        self._position += 2
        self._steps.append(Descent())
        following = self._text[self._position : self._position + 1]
        if following in {"_", "*"} or following.isalnum():
            self._scan_field()

    def _scan_word(self) -> None:
        word = self._take(_WORD, "a word is missing")
        if word in {"true", "false"}:
            self._steps.append(Constant(word == "true"))
        elif word in {"range", "end"} and not self._steps and not self._keyword:
            self._keyword = word
        else:
            raise TemplateError(f"{word[:40]!r} is not understood; begin a field with a dot")

    def _scan_brackets(self) -> None:
        inner = self._take(_BRACKETS, "a bracket is not closed")[1:-1]
        parts = [part.strip(" ") for part in inner.split(",")]
        if len(parts) > 1:
            self._steps.append(Union(tuple(_parse_bracket(part) for part in parts)))
        else:
            self._steps += _parse_bracket(inner)

    def _scan_filter(self) -> None:
        end = self._find_filter_end(self._position + len("[?("))
        inner = self._text[self._position + len("[?(") : end]
        self._position = end + len(")]")
        found = _COMPARISON.match(inner)
        if found is None:
            self._steps.append(Filter(_parse_inner(inner), "", ()))
            return
        left, operator, right = found.groups()
        if operator not in _OPERATORS:
            known = ", ".join(sorted(_OPERATORS))
            raise TemplateError(f"{operator[:10]!r} does not compare; write one of {known}")
        self._steps.append(Filter(_parse_inner(left), operator, _parse_inner(right)))

    def _find_filter_end(self, position: int) -> int:
        while position < len(self._text):
            quoted = _QUOTED.match(self._text, position)
            if quoted is not None:
                position = quoted.end()
            elif self._text.startswith(")]", position):
                return position
            elif self._text[position] in "\"'\n":
                break
            else:
                position += 1
        raise TemplateError("a filter has no end; add )]")


def _parse_inner(text: str) -> Action:
    """Parse one side of a filter."""
    if "[?(" in text:
        raise TemplateError("a filter is in a filter; write two actions")
    keyword, steps, _ = _Scanner("{" + text + "}", 0).scan()
    if keyword or (not steps and "@" not in text and "$" not in text):
        raise TemplateError(f"a filter cannot compare {text[:40]!r}; write a path such as @.name")
    return steps


def _parse_bracket(inner: str) -> Action:
    """Parse one part of the text in brackets: a name in quotes, an index or a slice."""
    key = _KEY.match(inner)
    if key is not None:
        return _Scanner("{." + key.group(1).replace("}", "") + "}", 0).scan()[1]
    if inner == "*":
        return (Slice(0, None, 1, is_single=False),)
    numbers = _SLICE.match(inner)
    if numbers is None or not inner:
        raise TemplateError(f"[{inner[:40]}] is not an index; write [0], [1:3], [*] or ['name']")
    start, end, step = (part.lstrip(":") if part else "" for part in numbers.groups())
    stride = int(step) if step else 1
    if stride < 1:
        raise TemplateError(f"the step of [{inner[:40]}] is below 1; write 1 or more")
    is_single = numbers.group(2) is None
    return (Slice(int(start or 0), int(end) if end else None, stride, is_single=is_single),)


def _read_number(text: str) -> int | float:
    try:
        return int(text) if "." not in text else float(text)
    except ValueError:
        raise TemplateError(f"{text[:40]!r} is not a number; quote texts") from None


def _unquote(quoted: str) -> str:
    def replace(found: "re.Match[str]") -> str:
        escape = found.group(1)
        if len(escape) > 1:
            return chr(int(escape[1:], 16))
        if escape not in _ESCAPES:
            raise TemplateError(f"\\{escape} is not an escape; write \\\\ for a backslash")
        return _ESCAPES[escape]

    return _ESCAPE.sub(replace, quoted[1:-1])
