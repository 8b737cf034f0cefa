"""The agent's log: one whole line a message, text or JSON, on stderr.

Called by every part of the agent that talks. As wrapper it shares stderr with the command, so it
says little.
"""

import json
import sys
from typing import Any, Mapping, Set

from framework.api import constants


class Reporter:
    """Prints lines."""

    def __init__(self, env: Mapping[str, str]) -> None:
        """Print text, or JSON where the environment asks for it."""
        self._is_json = env.get(constants.BARRIER_LOG_ENV) == "json"
        self._said: Set[str] = set()

    def say(self, message: str, level: str = "info", **fields: Any) -> None:
        """Print one line."""
        if self._is_json:
            line = json.dumps({"level": level, "message": message, **fields})
        else:
            prefix = "" if level == "info" else level + ": "
            line = f"rendezvous: {prefix}{_make_printable(message)}"
        try:
            sys.stderr.write(line + "\n")
            sys.stderr.flush()
        except (OSError, ValueError):
            return  # a log that nobody reads any more must not stop the gang

    def say_once(self, message: str, level: str = "info") -> None:
        """Print a line that was not printed before."""
        if message not in self._said:
            self._said.add(message)
            self.say(message, level)


def _make_printable(text: str) -> str:
    """Replace control characters: texts of the API server go to somebody's terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)
