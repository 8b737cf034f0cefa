"""The log of an agent: one line per message on stderr, as text or JSON.

Every line is flushed at once: users read the log of a container while it waits.
"""

import json
import sys
from typing import Any, Sequence, Set

from framework.api.constants import READINESS_MAX_MISSING
from framework.api.gangreadiness import GangReadiness
from framework.api.text import cut_text, make_printable

MESSAGE_LIMIT_BYTES = 8 * 1024
# Messages contain text of other parties, so this bounds the memory of ``say_once``.
_MAX_REMEMBERED = 1000


class LineReporter:
    """Prints lines."""

    def __init__(self, program: str, *, is_json: bool) -> None:
        """Start each line of text with the name of the program."""
        self._program = program
        self._is_json = is_json
        self._said: Set[str] = set()

    def say(self, message: str, level: str = "info", **fields: Any) -> None:
        """Print one line. The message is cut to 8 KiB, and escaped in text."""
        message = cut_text(message, MESSAGE_LIMIT_BYTES)
        if self._is_json:
            line = json.dumps({"level": level, "message": message, **fields})
        else:
            prefix = "" if level == "info" else level + ": "
            line = f"{self._program}: {prefix}{make_printable(message)}"
        try:
            sys.stderr.write(line + "\n")
            sys.stderr.flush()
        except (OSError, ValueError):
            return  # a broken pipe of the log must not end the agent

    def say_once(self, message: str, level: str = "info") -> None:
        """Print a line, unless the same message was printed before."""
        message = cut_text(message, MESSAGE_LIMIT_BYTES)
        if message not in self._said:
            if len(self._said) >= _MAX_REMEMBERED:
                self._said.clear()
            self._said.add(message)
            self.say(message, level)


def render_missing(readiness: GangReadiness) -> str:
    """Render the missing Tasks and the reasons; the first ten by name."""
    listed = readiness.missing[:READINESS_MAX_MISSING]
    names = [f"{m.role}/{m.index} ({m.reason})" for m in listed]
    return join_names(names, readiness.total - readiness.ready)


def join_names(names: Sequence[str], total: int) -> str:
    """Join names, with the number of those that are left out: ``a, b and 3 more``."""
    more = total - len(names)
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")
