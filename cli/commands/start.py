"""``framework start``."""

import click

from cli.arguments import framework_argument
from cli.steer.options import SteerOptions, steer_options


@click.command()
@framework_argument("names", nargs=-1, required=True, metavar="NAME...")
@steer_options()
def start(names: tuple[str, ...], *, options: SteerOptions) -> None:
    """Start Frameworks that were created with executionType Create.

    A Framework that was stopped or has ended cannot be started again.
    """
    from cli.steer.commands import start_frameworks

    raise SystemExit(int(start_frameworks(names, options)))
