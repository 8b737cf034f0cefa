"""The option ``-o`` of commands. What reads its value is imported when it is used."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from cli.printing.output import OutputFormat

_Command = Callable[..., None]
