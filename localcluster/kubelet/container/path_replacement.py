"""Replaces paths where the host forbids mount namespaces. Pure.

A mountPath in command, arguments and env values is replaced by the directory that would be mounted
there, the longest path first, and only where a path begins and ends.
"""

import re
from collections.abc import Mapping

# A path begins at the start or after white space, a quote or a mark of shell and URL syntax; after
# a letter, a brace or a slash it is the rest of another path.
_BEFORE = r"(?<![^\s'\"`=:;,(<>|&@])"
_AFTER = r"(?![A-Za-z0-9_.-])"


class PathReplacement:
    """Replaces paths of the container by paths of the host."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        """Take container path -> host path."""
        self._paths = {path.rstrip("/"): host for path, host in paths.items() if path.strip("/")}
        longest_first = sorted(self._paths, key=lambda path: (-len(path), path))
        alternatives = "|".join(re.escape(path) for path in longest_first)
        self._pattern = re.compile(f"{_BEFORE}(?:{alternatives}){_AFTER}") if alternatives else None

    def apply(self, text: str) -> str:
        """Return the text with every path replaced."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda match: self._paths[match[0]], text)
