"""``framework scale``."""

import click

from cli.arguments import FrameworkCommand, framework_argument, size_argument
from cli.steer.options import SteerOptions, steer_options

_REPLICAS = "--replicas"


class _Scale(FrameworkCommand):
    """Reads ``--replicas N`` of ``kubectl scale`` as a size without a role."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Remove the option, so that the error message names the roles."""
        words = [word.removeprefix(f"{_REPLICAS}=") for word in args if word != _REPLICAS]
        return super().parse_args(ctx, words)


@click.command(cls=_Scale)
@framework_argument()
@size_argument(nargs=-1, metavar="ROLE=N...")
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
    current_replicas: tuple[str, ...],
    options: SteerOptions,
) -> None:
    """Change the number of Tasks of roles of Framework NAME.

    The Tasks with the highest indexes leave first. Absent indexes (`remove`) stay absent.
    """
    from cli.steer.commands import scale_framework

    raise SystemExit(int(scale_framework(name, sizes, current_replicas, options)))
