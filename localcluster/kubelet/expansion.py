"""``$(VAR)`` in commands, arguments and env values, by the kubelet's rules. Pure.

``$$`` is an escaped dollar sign, and a reference to an undefined variable is kept.
"""

import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"\$(?:\$|\((?P<name>[^)]*)\))")
_ESCAPE = "$$"


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace references to ``variables``, once: values are not expanded again."""

    def replace(match: re.Match[str]) -> str:
        name = match["name"]
        return "$" if name is None else variables.get(name, match[0])

    # There is no reference behind the last bracket. A search there would take quadratic time.
    end = text.rfind(")") + 1
    return _REFERENCE.sub(replace, text[:end]) + text[end:].replace(_ESCAPE, "$")
