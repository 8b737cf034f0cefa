"""Decides whether the output has colours."""

from collections.abc import Mapping
from typing import TextIO

import click

AUTO, ALWAYS, NEVER = "auto", "always", "never"

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
