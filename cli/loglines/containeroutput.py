"""Turns the output of a container into lines that are safe to show. Pure.

Containers write for a terminal. Colours and the cursor movements of progress bars are removed, a
carriage return begins a new line, and all other control characters are escaped.
"""

import re

from framework.api.text import make_printable

MAX_LINE_BYTES = 64 * 1024
"""A longer line is broken, so that a container that never ends one does not fill the memory."""
# SGR, which sets colours; "erase line" and "cursor up", which progress bars use.
_DECORATION = re.compile(r"\x1b\[[0-9;:]{0,64}[mKA]")
_UTF8_BYTES, _UTF8_MASK, _UTF8_CONTINUATION = 4, 0xC0, 0x80
_LINE_END = re.compile(rb"\r\n|\n|\r(?=[^\n])")


def render_output(text: str) -> str:
    """Render one line of a container's output."""
    return make_printable(_DECORATION.sub("", text), keep="\t")


class OutputLines:
    """Splits the output of one container, as it comes in, into lines to show."""

    def __init__(self) -> None:
        """Begin at the start of a line."""
        self._rest = b""

    def feed(self, chunk: bytes) -> list[str]:
        """Add bytes of the output; return the lines that they complete."""
        lines = []
        raw = self._rest + chunk
        start = 0
        for end in _LINE_END.finditer(raw):
            # A progress bar begins each state with a carriage return: no line ends there.
            if end.start() > start or end.group() != b"\r":
                lines += _render_pieces(raw[start : end.start()])
            start = end.end()
        pieces, self._rest = _split_pieces(raw[start:])
        return lines + [_render(piece) for piece in pieces]

    def finish(self) -> list[str]:
        """Return the last line, if it has no end."""
        rest, self._rest = self._rest.removesuffix(b"\r"), b""
        return _render_pieces(rest) if rest else []


class RawLines:
    """Splits the output of one container into lines that are printed unchanged."""

    def __init__(self) -> None:
        """Begin at the start of a line."""
        self._rest = b""

    def feed(self, chunk: bytes) -> list[str]:
        """Add bytes of the output; return the lines that they complete, bytes as surrogates."""
        *lines, rest = (self._rest + chunk).split(b"\n")
        pieces, self._rest = _split_pieces(rest)
        return [line.decode("utf-8", "surrogateescape") for line in (*lines, *pieces)]

    def finish(self) -> list[str]:
        """Return the last line, if it has no end."""
        rest, self._rest = self._rest, b""
        return [rest.decode("utf-8", "surrogateescape")] if rest else []


def split_output(raw: bytes) -> list[str]:
    """Split a whole output into lines to show."""
    lines = OutputLines()
    return [*lines.feed(raw), *lines.finish()]


def _render_pieces(line: bytes) -> list[str]:
    pieces, rest = _split_pieces(line)
    return [_render(piece) for piece in (*pieces, rest)]


def _split_pieces(line: bytes) -> tuple[list[bytes], bytes]:
    """Split off pieces of the maximal length of a line; return them and the rest."""
    pieces = []
    start = 0
    while len(line) - start > MAX_LINE_BYTES:
        end = _find_boundary(line, start + MAX_LINE_BYTES)
        pieces.append(line[start:end])
        start = end
    return pieces, line[start:]


def _render(line: bytes) -> str:
    return render_output(line.decode("utf-8", "backslashreplace"))


def _find_boundary(raw: bytes, limit: int) -> int:
    """Find the last place up to ``limit`` that is between two characters of UTF-8."""
    ends = range(limit, limit - _UTF8_BYTES, -1)
    return next((end for end in ends if raw[end] & _UTF8_MASK != _UTF8_CONTINUATION), limit)
