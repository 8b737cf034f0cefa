"""``framework port-forward``."""

import re

import click

from cli.arguments import FrameworkCommand, framework_argument, task_argument
from cli.clusterchoice import ClusterChoice
from cli.options import cluster_options

_PORTS = re.compile(r"(?:[0-9]{0,5}:)?[0-9]{1,5}\Z")


def _check_ports(
    _ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...]:
    for text in value:
        if _PORTS.match(text) is None:
            raise click.BadParameter(f"{text!r}: write it as 6006, 8080:6006 or :6006")
    return value


@click.command(cls=FrameworkCommand, name="port-forward")
@framework_argument()
@task_argument()
@click.argument(
    "ports", nargs=-1, required=True, metavar="[LOCAL:]REMOTE...", callback=_check_ports
)
@cluster_options
def port_forward(name: str, task: str, ports: tuple[str, ...], *, cluster: ClusterChoice) -> None:
    """Connect ports of this machine to those of Task ROLE/INDEX of Framework NAME, by kubectl."""
    from cli.start.exec import forward_ports

    forward_ports(name, task, ports, cluster)
