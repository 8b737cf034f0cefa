"""``framework local``: up, down and status."""

import click

from cli.local import requires_local_cluster
from cli.options import gpus_option, isolation_option, network_option


@click.group()
def local() -> None:
    """A Kubernetes on this machine whose Pods are processes; for development and tests."""


_state_option = click.option(
    "--directory",
    metavar="DIR",
    help="The cluster's state; else frameworkbarrier/ in $XDG_RUNTIME_DIR or ~/.local/state.",
)


@local.command(short_help="Start the local cluster.")
@click.option("--detach", is_flag=True, help="Run in the background; see `framework local down`.")
@click.option("--kubeconfig", metavar="FILE", help="Where to write the kubeconfig.")
@click.option("--no-kubelet", is_flag=True, help="Do not run Pods: they stay Pending.")
@click.option(
    "--no-controller",
    is_flag=True,
    help="Do not run the controller, so that you can start your own.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="N",
    help="Port of the API server; 0, the default, takes a free one.",
)
@isolation_option
@network_option
@gpus_option
@_state_option
def up(  # noqa: PLR0913 one argument for each option
    *,
    detach: bool,
    kubeconfig: str | None,
    no_kubelet: bool,
    no_controller: bool,
    port: int,
    isolation: str,
    network: str,
    gpus: int,
    directory: str | None,
) -> None:
    """Start the local cluster and keep it until Ctrl-C (or until `down`, with --detach)."""
    with requires_local_cluster():
        from cli.local.cluster import UpOptions
        from cli.local.commands import start_cluster

    options = UpOptions(
        detach=detach,
        kubeconfig=kubeconfig,
        with_kubelet=not no_kubelet,
        with_controller=not no_controller,
        with_kinds=True,
        port=port,
        isolation=isolation,
        network=network,
        gpus=gpus,
        directory=directory,
    )
    raise SystemExit(int(start_cluster(options)))


@local.command(short_help="Stop the local cluster.")
@_state_option
def down(*, directory: str | None) -> None:
    """Stop the local cluster and everything in it."""
    with requires_local_cluster():
        from cli.local.commands import stop_cluster

    raise SystemExit(int(stop_cluster(directory)))


@local.command(short_help="Print whether the local cluster runs.")
@_state_option
def status(*, directory: str | None) -> None:
    """Print whether the local cluster runs, and where; exit code 1 if it does not."""
    with requires_local_cluster():
        from cli.local.commands import show_cluster

    raise SystemExit(int(show_cluster(directory)))
