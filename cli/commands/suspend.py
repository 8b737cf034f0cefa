"""``framework suspend``."""

import click

from cli.arguments import framework_argument
from cli.steer.options import SteerOptions, steer_options


@click.command()
@framework_argument("names", nargs=-1, required=True, metavar="NAME...")
@steer_options(wait="Wait until all Pods have ended.")
def suspend(names: tuple[str, ...], *, options: SteerOptions) -> None:
    """End the Pods of Frameworks, and create none until `resume`.

    The next attempt begins with all Tasks. Its number is one more; it is not counted as a retry.
    """
    from cli.steer.commands import suspend_frameworks

    raise SystemExit(int(suspend_frameworks(names, options)))
