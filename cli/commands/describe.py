"""``framework describe``."""

import click

from cli.arguments import FrameworkCommand, framework_argument
from cli.clusterchoice import ClusterChoice
from cli.options import cluster_options


@click.command(cls=FrameworkCommand)
@framework_argument()
@cluster_options
@click.option("--all", "shows_all", is_flag=True, help="Each Task, and all failures and Events.")
def describe(name: str, *, cluster: ClusterChoice, shows_all: bool) -> None:
    """Print the state of Framework NAME, what needs attention first, and its last Events."""
    from cli.see.describe import describe_framework

    raise SystemExit(int(describe_framework(name, cluster, shows_all=shows_all)))
