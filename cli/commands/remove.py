"""``framework remove``."""

import click

from cli.arguments import FrameworkCommand, framework_argument, task_argument
from cli.steer.options import SteerOptions, steer_options


@click.command(cls=FrameworkCommand)
@framework_argument()
@task_argument("tasks", nargs=-1, required=True, metavar="ROLE/INDEX...")
@click.option("--undo", is_flag=True, help="Bring removed Tasks back, as new Tasks.")
@steer_options(wait="Wait until the Tasks are gone, with --undo until they run.")
def remove(name: str, tasks: tuple[str, ...], *, undo: bool, options: SteerOptions) -> None:
    """Remove Tasks of Framework NAME by index, whichever they are.

    The other Tasks keep their indexes. To remove the Tasks with the highest indexes, use `scale`.
    """
    from cli.steer.commands import remove_tasks

    raise SystemExit(int(remove_tasks(name, tasks, options, is_undo=undo)))
