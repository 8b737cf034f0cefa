"""``framework retry``."""

import click

from cli.arguments import FrameworkCommand, framework_argument, task_argument
from cli.steer.options import SteerOptions, steer_options


@click.command(cls=FrameworkCommand)
@framework_argument()
@task_argument("tasks", nargs=-1, required=True, metavar="ROLE/INDEX...")
@steer_options(wait="Wait until the next attempts run.")
def retry(name: str, tasks: tuple[str, ...], *, options: SteerOptions) -> None:
    """End the current attempts of Tasks of Framework NAME, and let the next ones begin.

    The Pods are deleted. These retries do not count against maxRetryCount.
    """
    from cli.steer.commands import retry_tasks

    raise SystemExit(int(retry_tasks(name, tasks, options)))
