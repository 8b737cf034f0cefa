"""Decides whether the output has colours."""

import zlib
from collections.abc import Mapping
from typing import TextIO

import click

AUTO, ALWAYS, NEVER = "auto", "always", "never"

# Names of colours and their codes; each Task has one, for its name in front of its output.
_CODES = {
    "cyan": 36,
    "magenta": 35,
    "blue": 34,
    "green": 32,
    "yellow": 33,
    "bright_cyan": 96,
    "bright_magenta": 95,
}

color_option = click.option(
    "--color",
    type=click.Choice([AUTO, ALWAYS, NEVER]),
    default=AUTO,
    help="Colours; auto: on a terminal, except with $NO_COLOR, or with $FORCE_COLOR.",
)


def wants_color(choice: str, stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Return whether to write colours: the option, then $NO_COLOR, $FORCE_COLOR, the terminal.

    Args:
        choice: of the option ``--color``.
        stream: where the output goes.
        environ: the variables of the environment; an empty one counts as not set.
    """
    if choice != AUTO:
        return choice == ALWAYS
    if environ.get("NO_COLOR"):
        return False
    force = environ.get("FORCE_COLOR")
    if force:
        return force != "0"
    return is_drawable(stream, environ)


def is_drawable(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Return whether a stream is a terminal on which the cursor can be moved."""
    return stream.isatty() and environ.get("TERM", "") not in {"dumb", "unknown"}


def choose_color(title: str) -> str:
    """Choose the name of the colour of a Task: always the same for the same title."""
    names = tuple(_CODES)
    return names[zlib.crc32(title.encode()) % len(names)]


def paint(text: str, color: str) -> str:
    """Put the codes of a colour around a text."""
    return f"\x1b[{_CODES[color]}m{text}\x1b[0m"
