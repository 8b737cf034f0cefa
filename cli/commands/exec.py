"""``framework exec``."""

import click

from cli.arguments import FrameworkCommand, container_option, framework_argument, task_argument
from cli.clusterchoice import ClusterChoice
from cli.options import cluster_options


@click.command(cls=FrameworkCommand)
@framework_argument()
@task_argument()
@click.argument("command", nargs=-1, required=True, metavar="-- COMMAND...")
@container_option()
@click.option("-i", "--stdin", is_flag=True, help="Pass standard input to the program.")
@click.option("-t", "--tty", is_flag=True, help="Give the program a terminal.")
@cluster_options
def exec(  # noqa: A001 the command's name; one argument for each option
    name: str,
    task: str,
    command: tuple[str, ...],
    *,
    container: str | None,
    stdin: bool,
    tty: bool,
    cluster: ClusterChoice,
) -> None:
    """Run a program in the Pod of Task ROLE/INDEX of Framework NAME, as `kubectl exec` does.

    The exit code is that of the program. kubectl must be on the PATH, except for a local cluster.
    """
    from cli.start.exec import ExecOptions, run_command

    options = ExecOptions(
        name=name,
        task=task,
        command=command,
        container=container,
        has_stdin=stdin,
        has_terminal=tty,
        cluster=cluster,
    )
    raise SystemExit(run_command(options))
