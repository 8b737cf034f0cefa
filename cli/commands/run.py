"""``framework run``."""

from pathlib import Path

import click

from cli.clusterchoice import ClusterChoice
from cli.coloring import color_option
from cli.dryrun import NO_DRY_RUN, SERVER
from cli.options import (
    DURATION_HELP,
    Duration,
    cluster_options,
    dry_run_option,
    gpus_option,
    isolation_option,
    network_option,
)

EPILOG = (
    "Exit codes: 0 succeeded; 1 the Framework failed; 2 bad usage or input, nothing was applied; "
    "3 the API server is unreachable, fails or refuses us; 4 --timeout passed; 130 Ctrl-C; "
    "143 SIGTERM; 129 SIGHUP with --local."
)


@click.command(epilog=EPILOG)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@click.option("--local", is_flag=True, help="Run on a new local cluster.")
@cluster_options
@click.option(
    "--timeout", type=Duration(), metavar="TIME", help=f"Stop after this time, {DURATION_HELP}."
)
@click.option("--replace", is_flag=True, help="Delete Frameworks of the same name first.")
@dry_run_option
@click.option(
    "--directory",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="With --local: where the cluster works and leaves the logs; else a temporary one.",
)
@click.option("--logs", is_flag=True, help="Print the output of the containers, too.")
@click.option("--all", "shows_all", is_flag=True, help="Show equal Tasks on a line each.")
@color_option
@isolation_option
@network_option
@gpus_option
def run(  # noqa: PLR0913 one argument for each option
    files: tuple[str, ...],
    *,
    local: bool,
    cluster: ClusterChoice,
    timeout: float | None,
    replace: bool,
    dry_run: str,
    directory: str | None,
    logs: bool,
    shows_all: bool,
    color: str,
    isolation: str,
    network: str,
    gpus: int,
) -> None:
    """Apply the Frameworks of each FILE (- for standard input) and follow them to their end.

    Other objects in the files (ConfigMaps, Secrets, Services, ...) are applied first. Nothing is
    applied unless all of it is valid. Ctrl-C stops the Frameworks and waits for their Pods; a
    second Ctrl-C leaves at once.
    """
    from cli.running.options import RunOptions
    from cli.running.run import dry_run_frameworks, run_frameworks

    if local and cluster.kubeconfig:
        raise click.UsageError("--local starts a new cluster: leave out --kubeconfig")
    if files[0] == "local" and not Path("local").exists():
        raise click.UsageError(
            "'local' is no file: to run on a new local cluster, write `framework run --local FILE`"
        )
    if local and dry_run == SERVER:
        raise click.UsageError("--local has no server yet: write --dry-run=client")
    if gpus and not local:
        raise click.UsageError("--gpus is for --local: leave it out, or add --local")
    if directory and not local:
        raise click.UsageError("--directory is for --local: leave it out, or add --local")
    options = RunOptions(
        files=files,
        is_local=local,
        cluster=cluster,
        timeout_seconds=timeout,
        replaces=replace,
        dry_run=dry_run,
        directory=directory,
        isolation=isolation,
        network=network,
        gpus=gpus,
        shows_logs=logs,
        shows_all=shows_all,
        color=color,
    )
    if dry_run != NO_DRY_RUN:
        dry_run_frameworks(options)
        return
    raise SystemExit(int(run_frameworks(options)))
