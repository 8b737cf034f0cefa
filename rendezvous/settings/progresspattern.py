"""Reads the step of training code that cannot be changed, from a file or its output. Pure.

A pattern is plain text with ``{step}`` and, if wanted, ``{total}``. It is not a regular expression,
because those of the standard library may take unlimited time for a line and block all threads
meanwhile. A pattern takes time in proportion to the length of the line.

Example: ``Step {step}/{total}`` finds 40 of 1000 in ``[INFO] Step   40/1000 loss=0.5``.
"""

import json
import re
from collections import deque
from itertools import islice
from typing import Any, Match, NamedTuple, Optional, Pattern

_MAX_PATTERN = 200
_MAX_LINE = 4096
_MAX_LINES = 100
_END = 10**18
_NUMBER = r"([0-9]{1,18})"
_BLANKS = r"[ \t]{1,64}"
_FIELDS = re.compile(r"(\{step\}|\{total\}|[ \t]+)")


class TextStep(NamedTuple):
    """A step, and the number of all steps; None if it is not known."""

    step: int
    total: Optional[int]


class StepPattern(NamedTuple):
    """The form of a step in a text."""

    regex: Pattern[str]
    """A group for each number, at most two; everything else is literal."""
    is_total_first: bool
    """Whether the first number is the total."""

    def find(self, line: str) -> Optional[TextStep]:
        """Find the step in a line; None if it has none."""
        match = self.regex.search(line[:_MAX_LINE])
        return None if match is None else self._read(match)

    def find_last(self, lines: str) -> Optional[TextStep]:
        """Find the first step of the last line that has one; None if none has."""
        last = next(iter(deque(self.regex.finditer(lines), maxlen=1)), None)
        if last is None:
            return None
        first = self.regex.search(lines, lines.rfind("\n", 0, last.start()) + 1)
        return self._read(first or last)

    def find_open(self, line: str, newest: Optional[TextStep]) -> Optional[TextStep]:
        """Find the newest step in a line that may go on, of which ``newest`` is known already.

        A step at its end may get more digits, so it does not count yet.
        """
        for match in self.regex.finditer(line):
            if match.end() < len(line):
                step = self._read(match)
                is_newer = newest is not None and newest.total == step.total
                if newest is None or (is_newer and newest.step < step.step):
                    newest = step
        return newest

    def _read(self, match: Match[str]) -> TextStep:
        numbers = [int(text) for text in match.groups()]
        if len(numbers) == 1:
            return TextStep(numbers[0], None)
        return TextStep(*(reversed(numbers) if self.is_total_first else numbers))


def parse_pattern(text: str) -> Optional[StepPattern]:
    """Parse a pattern; "" is none.

    Raises:
        ValueError: It has no ``{step}``, or is too long, or two numbers touch.
    """
    if not text:
        return None
    if len(text) > _MAX_PATTERN or text.count("{step}") != 1 or text.count("{total}") > 1:
        raise ValueError("it needs {step} once, {total} at most once, and at most 200 characters")
    if "{step}{total}" in text or "{total}{step}" in text:
        raise ValueError("it needs a text between {step} and {total}")
    parts = [_render(part) for part in _FIELDS.split(text)]
    return StepPattern(re.compile("".join(parts)), -1 < text.find("{total}") < text.find("{step}"))


def _render(part: str) -> str:
    if part in {"{step}", "{total}"}:
        return _NUMBER
    return _BLANKS if part and not part.strip() else re.escape(part)


def parse_content(content: str) -> Optional[TextStep]:
    """Parse the last line of a file that has a step; None if none of the last 100 lines has.

    Such a line is a number, or JSON with ``step`` and ``total``.
    """
    lines = (line for line in reversed(content.splitlines()) if line.strip())
    return next((step for step in map(_parse_line, islice(lines, _MAX_LINES)) if step), None)


def _parse_line(line: str) -> Optional[TextStep]:
    try:
        found: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if isinstance(found, dict):
        step, total = found.get("step"), found.get("total")
    else:
        step, total = found, None
    number = _check_number(step)
    return None if number is None else TextStep(number, _check_number(total))


def _check_number(value: Any) -> Optional[int]:
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value < _END else None
