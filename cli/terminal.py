"""Writes text to the terminal, with every control character escaped.

``Display`` draws with rich and escapes its texts in the same way. A test checks that no other
module of the command line prints.
"""

import os
import sys
from contextlib import suppress
from typing import IO, Any

import click

from framework.api.text import make_printable


def print_line(text: str = "") -> None:
    """Print a line on standard output; a line end in it is escaped."""
    click.echo(make_printable(text))


def print_error(text: str) -> None:
    """Print a line on standard error in the same way."""
    click.echo(make_printable(text), err=True)


def print_document(text: str, *, keep: str = "\n") -> None:
    """Print text of many lines that another program reads: it must be printable as it is.

    Args:
        text: ends with a line end.
        keep: control characters that this program needs.
    """
    click.echo(make_printable(text, keep=keep), nl=False)


def silence(stream: IO[Any]) -> None:
    """Discard everything that is written to a stream from now on, without an error at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def end_program(code: int) -> None:
    """End the process without the interpreter's cleanup, which takes longer than a completion may.

    Use it only in a program that has started nothing that must be ended. Returns if the output
    cannot be written, so that the interpreter reports it.
    """
    with suppress(OSError, ValueError):
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)
