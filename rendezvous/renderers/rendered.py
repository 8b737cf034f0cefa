"""The result of a renderer."""

from typing import Dict, NamedTuple

READABLE = 0o444
EXECUTABLE = 0o555


class RenderedFile(NamedTuple):
    """The bytes of a file and its mode."""

    content: bytes
    mode: int = READABLE


class Rendered(NamedTuple):
    """Files and variables for one consumer.

    ``files`` belong to one generation and appear with it, in ``current/``. ``fixed_files`` are
    in the directory above: their bytes are the same in every generation.
    """

    files: Dict[str, RenderedFile] = {}  # noqa: RUF012  (never changed)
    env: Dict[str, str] = {}  # noqa: RUF012  (never changed)
    fixed_files: Dict[str, RenderedFile] = {}  # noqa: RUF012  (never changed)


def build_lines_file(lines: "list[str]") -> RenderedFile:
    """Build a file of lines, each with its end."""
    return RenderedFile("".join(line + "\n" for line in lines).encode())
