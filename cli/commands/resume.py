"""``framework resume``."""

import click

from cli.arguments import framework_argument
from cli.steer.options import SteerOptions, steer_options


@click.command()
@framework_argument("names", nargs=-1, required=True, metavar="NAME...")
@steer_options()
def resume(names: tuple[str, ...], *, options: SteerOptions) -> None:
    """Let suspended Frameworks run again."""
    from cli.steer.commands import resume_frameworks

    raise SystemExit(int(resume_frameworks(names, options)))
