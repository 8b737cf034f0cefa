"""``framework version``."""

import click

from cli.terminal import print_line
from framework.version import VERSION


@click.command()
def version() -> None:
    """Print the version, as `--version` does."""
    print_line(VERSION)
