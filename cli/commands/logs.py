"""``framework logs``."""

import click

from cli.arguments import container_option, framework_argument, role_or_task_argument
from cli.options import ClusterChoice, cluster_options


@click.command()
@framework_argument()
@role_or_task_argument(required=False, metavar="[ROLE[/INDEX]]")
@container_option()
@click.option(
    "-f", "--follow", is_flag=True, help="Follow the logs until the containers have ended."
)
@click.option("--previous", is_flag=True, help="Print the log before the container's last restart.")
@click.option(
    "--tail", type=click.IntRange(min=0), metavar="N", help="Print only the last N lines."
)
@click.option("--raw", is_flag=True, help="Print the bytes unchanged, with control characters.")
@cluster_options
@click.option(
    "--directory", metavar="DIR", help="Read the logs that `run --local` left in this directory."
)
def logs(  # noqa: PLR0913 one argument for each option
    name: str,
    task: str | None,
    *,
    container: str | None,
    follow: bool,
    previous: bool,
    tail: int | None,
    raw: bool,
    cluster: ClusterChoice,
    directory: str | None,
) -> None:
    """Print the logs of the Tasks of Framework NAME, of all, of one ROLE or of one ROLE/INDEX."""
    from cli.logs.output import LogOptions
    from cli.logs.reading import print_logs

    options = LogOptions(
        name=name,
        task=task,
        container=container,
        follow=follow,
        previous=previous,
        tail_lines=tail,
        raw=raw,
        cluster=cluster,
        directory=directory,
    )
    raise SystemExit(int(print_logs(options)))
