"""``framework wait``."""

import click

from cli.arguments import framework_argument
from cli.steer.options import SteerOptions, steer_options


@click.command()
@framework_argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option(
    "--for",
    "wanted",
    default="condition=Succeeded",
    show_default=True,
    metavar="CONDITION",
    help="condition=NAME, condition=NAME=false, or delete.",
)
@steer_options(waits_always=True, has_objects=False, has_dry_run=False)
def wait(names: tuple[str, ...], *, wanted: str, options: SteerOptions) -> None:
    """Wait until Frameworks have a condition; end at once when it can never come."""
    from cli.steer.commands import wait_for_frameworks

    raise SystemExit(int(wait_for_frameworks(names, wanted, options)))
