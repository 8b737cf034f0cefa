"""The option ``-o`` of a command."""

from collections.abc import Callable
from typing import Any

import click

from cli.printing.forms import Form, OutputFormat, name_form


class _Output(click.ParamType[OutputFormat]):
    """A value of ``-o``."""

    name = "format"

    def __init__(self, forms: tuple[Form, ...]) -> None:
        self._forms = forms

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> OutputFormat:
        """Parse the value."""
        if isinstance(value, OutputFormat):
            return value
        from cli.printing.jsonpath_parser import TemplateError
        from cli.printing.output import parse_output

        try:
            return parse_output(str(value), self._forms)
        except TemplateError as e:
            self.fail(str(e), param, ctx)


def output_option(*forms: Form) -> Callable[[Any], Any]:
    """Add ``-o``; the command gets an ``OutputFormat`` as ``output``.

    Args:
        forms: the formats of the command besides its table, for example ``*OBJECT_FORMS``.
    """
    return click.option(
        "-o",
        "--output",
        type=_Output(forms),
        default=OutputFormat(),
        metavar="FORMAT",
        help=f"Print another format: {', '.join(map(name_form, forms))}.",
    )
