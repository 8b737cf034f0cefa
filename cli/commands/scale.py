"""``framework scale``."""

import click

from cli.arguments import FrameworkCommand, framework_argument, size_argument
from cli.steer.options import SteerOptions, steer_options


@click.command(cls=FrameworkCommand)
@framework_argument()
@size_argument(nargs=-1, metavar="ROLE=N...")
@click.option("--replicas", hidden=True)
@click.option(
    "--current-replicas",
    multiple=True,
    metavar="ROLE=N",
    help="Change nothing unless the role has N Tasks now.",
)
@steer_options(wait="Wait until new Tasks run and Tasks that leave are gone.")
def scale(
    name: str,
    sizes: tuple[str, ...],
    *,
    replicas: str | None,
    current_replicas: tuple[str, ...],
    options: SteerOptions,
) -> None:
    """Change the number of Tasks of roles of Framework NAME.

    The Tasks with the highest indexes leave first. Absent indexes (`remove`) stay absent.
    """
    from cli.steer.commands import scale_framework

    # Users of `kubectl scale` write it; the answer names the roles.
    sizes = sizes if replicas is None else (*sizes, replicas)
    raise SystemExit(int(scale_framework(name, sizes, current_replicas, options)))
