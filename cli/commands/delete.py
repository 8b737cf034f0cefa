"""``framework delete``."""

import click

from cli.arguments import framework_argument
from cli.steer.options import SteerOptions, steer_options


@click.command()
@framework_argument("names", nargs=-1, metavar="[NAME...]")
@click.option("-l", "--selector", metavar="LABELS", help="Delete the Frameworks with these labels.")
@click.option("--all", "deletes_all", is_flag=True, help="Delete all Frameworks of the namespace.")
@click.option(
    "--cascade",
    type=click.Choice(["foreground", "background", "orphan"]),
    default="foreground",
    show_default=True,
    help="Delete the Pods before the Framework, after it, or leave them.",
)
@click.option("--ignore-not-found", is_flag=True, help="A Framework that is not there is no error.")
@steer_options(wait="Wait until the Frameworks are gone.", waits_always=True, has_objects=False)
def delete(
    names: tuple[str, ...],
    *,
    selector: str | None,
    deletes_all: bool,
    cascade: str,
    ignore_not_found: bool,
    options: SteerOptions,
) -> None:
    """Delete Frameworks with their Pods."""
    from cli.steer.deletion import DeleteOptions, delete_frameworks

    delete_options = DeleteOptions(
        steer=options,
        cascade=cascade,
        selector=selector,
        deletes_all=deletes_all,
        ignores_missing=ignore_not_found,
    )
    raise SystemExit(int(delete_frameworks(names, delete_options)))
