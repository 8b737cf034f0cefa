"""Names inside messages: users choose them, so a rule must not match their text. Pure.

Kubernetes writes most names as Go's ``%q`` does: in quotation marks, with a backslash before each
quotation mark of the name. ``hide_names`` replaces them before a rule matches the message.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

# A quotation mark that nothing closes quotes the rest, so that each character is read once.
_QUOTED = re.compile(r'"(?:[^"\\]|\\.?)*+(?:"|\Z)', re.DOTALL)
_HIDDEN = re.compile(r'"(\d{1,9})"')


@dataclass(frozen=True, slots=True)
class HiddenNames:
    """A message without its quoted names."""

    text: str
    """The message, with ``"0"``, ``"1"`` and so on in the places of the names."""
    names: Sequence[str]
    """The names with their quotation marks."""

    def restore(self, part: str) -> str:
        """Put the names back into a part of the text."""
        return _HIDDEN.sub(lambda found: self.names[int(found.group(1))], part)


def hide_names(message: str) -> HiddenNames:
    """Replace the quoted names of a message by numbers."""
    names: list[str] = []

    def hide(found: re.Match[str]) -> str:
        names.append(found.group())
        return f'"{len(names) - 1}"'

    return HiddenNames(_QUOTED.sub(hide, message), names)


def unquote(name: str) -> str:
    """Return a name without its quotation marks and their backslashes."""
    if not name.startswith('"'):
        return name
    try:
        return str(json.loads(name))
    except ValueError:
        # Go has escapes that JSON does not have.
        return name.strip('"')
