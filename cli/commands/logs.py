"""``framework logs``."""

from datetime import datetime

import click

from cli.arguments import (
    FrameworkCommand,
    container_option,
    framework_argument,
    role_or_task_argument,
)
from cli.clusterchoice import ClusterChoice
from cli.coloring import color_option
from cli.options import DURATION_HELP, Duration, Moment, cluster_options


@click.command(cls=FrameworkCommand)
@framework_argument(required=False, metavar="[NAME]")
@role_or_task_argument(required=False, metavar="[ROLE[/INDEX]]")
@click.option(
    "-l", "--selector", metavar="SELECTOR", help="Logs of all Frameworks with these labels."
)
@container_option()
@click.option(
    "--all-containers", is_flag=True, help="Print the logs of all containers and init containers."
)
@click.option("-f", "--follow", is_flag=True, help="Follow the logs until the Tasks are completed.")
@click.option(
    "-p", "--previous", is_flag=True, help="Print the log before the container's last restart."
)
@click.option(
    "--tail", type=click.IntRange(min=0), metavar="N", help="Print only the last N lines."
)
@click.option(
    "--since",
    type=Duration(),
    metavar="TIME",
    help=f"Print only lines that are newer, {DURATION_HELP}.",
)
@click.option(
    "--since-time",
    type=Moment(),
    metavar="TIME",
    help="Print only lines since then, for example 2026-01-02T03:04:05Z.",
)
@click.option("--timestamps", is_flag=True, help="Print the time of each line.")
@click.option("--prefix/--no-prefix", default=None, help="Print the Task in each line, or never.")
@click.option("--raw", is_flag=True, help="Print the bytes unchanged, with control characters.")
@click.option(
    "--max-log-requests",
    type=click.IntRange(1, 1000),
    default=50,
    metavar="N",
    help="Read at most N logs at a time; 50 by default.",
)
@color_option
@cluster_options
@click.option(
    "--directory", metavar="DIR", help="Read the logs that `run --local` left in this directory."
)
def logs(  # noqa: PLR0913 one argument for each option
    name: str | None,
    task: str | None,
    *,
    selector: str | None,
    container: str | None,
    all_containers: bool,
    follow: bool,
    previous: bool,
    tail: int | None,
    since: float | None,
    since_time: datetime | None,
    timestamps: bool,
    prefix: bool | None,
    raw: bool,
    max_log_requests: int,
    color: str,
    cluster: ClusterChoice,
    directory: str | None,
) -> None:
    """Print the logs of the Tasks of Framework NAME, of all, of one ROLE or of one ROLE/INDEX.

    With -l, print those of all Tasks of several Frameworks.

    The lines of several Tasks are printed in the order of their times; with -f as they arrive.
    """
    from cli.loglines.output import LogOptions
    from cli.loglines.query import LogQuery, round_since
    from cli.logs.reading import print_logs

    if (name is None) is (selector is None):
        raise click.UsageError("name a Framework, or select several with -l SELECTOR, not both")
    if selector is not None and directory is not None:
        raise click.UsageError("--directory has no labels of Frameworks: write NAME instead of -l")
    if container and all_containers:
        raise click.UsageError("--all-containers has every container: leave out --container")
    if since is not None and since_time is not None:
        raise click.UsageError("--since and --since-time exclude each other: leave one out")
    query = LogQuery(
        container=container,
        all_containers=all_containers,
        previous=previous,
        tail_lines=tail,
        since_seconds=round_since(since),
        since_time=since_time,
        timestamps=timestamps,
    )
    options = LogOptions(
        name=name or "",
        selector=selector,
        task=task,
        query=query,
        follow=follow,
        raw=raw,
        has_prefix=prefix,
        max_requests=max_log_requests,
        color=color,
        cluster=cluster,
        directory=directory,
    )
    raise SystemExit(int(print_logs(options)))
