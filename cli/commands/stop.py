"""``framework stop``."""

import click

from cli.arguments import framework_argument
from cli.steer.options import SteerOptions, steer_options


@click.command()
@framework_argument("names", nargs=-1, required=True, metavar="NAME...")
@steer_options(wait="Wait until all Pods have ended.")
def stop(names: tuple[str, ...], *, options: SteerOptions) -> None:
    """End Frameworks now and delete their Pods. This is final: a stopped Framework cannot start.

    The Frameworks stay as records until they are deleted.
    """
    from cli.steer.commands import stop_frameworks

    raise SystemExit(int(stop_frameworks(names, options)))
