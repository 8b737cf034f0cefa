"""``framework tree``."""

import click

from cli.arguments import FrameworkCommand, framework_argument
from cli.clusterchoice import ClusterChoice
from cli.options import cluster_options
from cli.printing.forms import Form, OutputFormat
from cli.printing.options import output_option


@click.command(cls=FrameworkCommand)
@framework_argument()
@cluster_options
@click.option("--all", "shows_all", is_flag=True, help="Each Task in a row of its own.")
@output_option(Form.JSON, Form.YAML, Form.JSONPATH)
def tree(name: str, *, cluster: ClusterChoice, shows_all: bool, output: OutputFormat) -> None:
    """Print Framework NAME with its roles, Tasks, Pods, and the failures of earlier attempts."""
    from cli.see.tree import print_tree

    raise SystemExit(int(print_tree(name, cluster, output, shows_all=shows_all)))
