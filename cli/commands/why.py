"""``framework why``."""

import click

from cli.arguments import FrameworkCommand, framework_argument
from cli.clusterchoice import ClusterChoice
from cli.options import cluster_options


@click.command(cls=FrameworkCommand)
@framework_argument()
@click.option("--all", "shows_all", is_flag=True, help="All causes, the root cause first.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "yaml"]),
    default="text",
    help="Form of it.",
)
@cluster_options
def why(name: str, *, shows_all: bool, output: str, cluster: ClusterChoice) -> None:
    """Say what holds Framework NAME or made it fail, since when, and what helps.

    Exit code 0: nothing is wrong; 1: something is, or there is no such Framework.
    """
    from cli.why.command import WhyOptions, explain

    options = WhyOptions(name, cluster, shows_all=shows_all, output=output)
    raise SystemExit(int(explain(options)))
