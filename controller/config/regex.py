"""Regular expressions in the dialect of the Go original: RE2, unanchored, in linear time.

Called by ``controller.config.pod_failure``. The only importer of ``re2`` in this program.
"""

import re2  # type: ignore[import-untyped]  # it ships no types


class RegexError(ValueError):
    """A pattern is no regular expression of this dialect; the message says why."""


class Regex:
    """A compiled pattern: a ``framework.api.completion.Matcher``."""

    __slots__ = ("_compiled", "pattern")

    def __init__(self, pattern: str) -> None:
        """Compile ``pattern``.

        Raises:
            RegexError: it cannot be compiled.
        """
        options = re2.Options()
        # RE2 would also print each bad pattern on standard error, around our own logging.
        options.log_errors = False
        try:
            self._compiled = re2.compile(pattern, options)
        except re2.error as e:
            reason = e.args[0] if e.args else pattern
            text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
            raise RegexError(text) from e
        self.pattern = pattern

    def find(self, text: str) -> str | None:
        """Return the first match in ``text``, None if there is none."""
        found = self._compiled.search(text)
        if found is None:
            return None
        matched: str = found.group(0)
        return matched

    def __eq__(self, other: object) -> bool:
        """Compare by pattern."""
        return isinstance(other, Regex) and other.pattern == self.pattern

    def __hash__(self) -> int:
        """Hash by pattern."""
        return hash(self.pattern)

    def __repr__(self) -> str:
        """Show the pattern."""
        return f"Regex({self.pattern!r})"
