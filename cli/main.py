"""The commands of the command line, with their options.

Installed as ``framework`` and as ``kubectl-framework``, so that ``kubectl framework`` works. Each
command imports its modules when it is called, so that ``--help`` stays fast.
"""

import errno
import sys

import click

from cli.exitcodes import CliError, ExitCode
from cli.local import requires_local_cluster
from cli.terminal import print_error, print_line
from framework.api.text import make_printable
from framework.logs import configure_logging
from framework.version import VERSION

EPILOG = (
    "Exit codes: 0 succeeded; 1 the Framework failed; 2 bad usage or input, nothing was applied; "
    "3 the API server is unreachable, fails or refuses us; 4 --timeout passed; 130 Ctrl-C; "
    "143 SIGTERM; 129 SIGHUP with --local."
)
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_DURATION_HELP = "for example 90s, 5m or 1h"


class _Program(click.Group):
    """Turns a CliError into its message and exit code, wherever it comes from."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except click.exceptions.NoArgsIsHelpError:
            raise  # Its message is the help of the group.
        except click.UsageError as e:
            # It repeats arguments, which a script may have from a file or a cluster.
            raise click.UsageError(make_printable(e.format_message()), ctx=e.ctx) from e
        except CliError as e:
            for line in e.lines:
                print_error(f"error: {line}")
            ctx.exit(int(e.exit_code))
        except OSError as e:
            if e.errno not in _NO_ROOM:
                raise
            _give_up_output()
            print_error(f"error: cannot write: {e.strerror}; make room for it")
            ctx.exit(int(ExitCode.USAGE))
        except KeyboardInterrupt:
            # Before anything was started that would have to be stopped.
            ctx.exit(int(ExitCode.INTERRUPTED))


def _give_up_output() -> None:
    """Drop what could not be written: the program's end would try again, and fail again."""
    from cli.display import silence

    silence(sys.stdout)


class _Duration(click.ParamType[float]):
    """A time span in seconds, written with a unit."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read 90, 90s, 5m or 1h."""
        if isinstance(value, int | float):
            return float(value)
        text = str(value).strip()
        factor = {"s": 1, "m": 60, "h": 3600}.get(text[-1:])
        try:
            seconds = float(text[:-1]) * factor if factor else float(text)
        except ValueError:
            self.fail(f"{text!r} is not a time span; write it {_DURATION_HELP}", param, ctx)
        if not 0 < seconds < float("inf"):
            self.fail(
                f"{text!r} is not a positive time span; write it {_DURATION_HELP}", param, ctx
            )
        return seconds


_kubeconfig_option = click.option(
    "--kubeconfig",
    metavar="FILE",
    help="Kubeconfig of the cluster; else $KUBECONFIG, ~/.kube/config or the Pod's own.",
)
_namespace_option = click.option(
    "-n", "--namespace", metavar="NAME", help="Namespace; else the file's or the kubeconfig's."
)


@click.group(
    cls=_Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(VERSION, "-V", "--version", message="%(version)s")
def main() -> None:
    """Run gangs of training Pods: on a Kubernetes cluster, or on this machine with --local."""
    # Progress says what matters; warnings of a watch that reconnects would tear the display.
    configure_logging(level="error")


_gpus_option = click.option(
    "--gpus",
    type=click.IntRange(0, 1024),
    default=0,
    metavar="N",
    help="GPUs that the local cluster offers to Pods; none by default.",
)
_isolation_option = click.option(
    "--isolation",
    type=click.Choice(["auto", "root", "paths"]),
    default="auto",
    help="Local Pods' volumes: in a private root, or by replacing paths; auto takes what works.",
)


_network_option = click.option(
    "--network",
    type=click.Choice(["auto", "namespace", "loopback"]),
    default="auto",
    help="Local Pods' addresses: a network namespace each, or loopback; auto takes what works.",
)


@main.command(epilog=EPILOG, short_help="Apply Frameworks and follow them to their end.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--local", is_flag=True, help="Run on a new local cluster.")
@_namespace_option
@_kubeconfig_option
@click.option(
    "--timeout", type=_Duration(), metavar="TIME", help=f"Stop after this time, {_DURATION_HELP}."
)
@click.option("--replace", is_flag=True, help="Delete Frameworks of the same name first.")
@click.option(
    "--directory",
    metavar="DIR",
    help="With --local: where the cluster works and leaves the logs; else a temporary one.",
)
@click.option("--logs", is_flag=True, help="Print the output of the containers, too.")
@_isolation_option
@_network_option
@_gpus_option
def run(  # noqa: PLR0913 one argument for each option
    files: tuple[str, ...],
    *,
    local: bool,
    namespace: str | None,
    kubeconfig: str | None,
    timeout: float | None,
    replace: bool,
    directory: str | None,
    logs: bool,
    isolation: str,
    network: str,
    gpus: int,
) -> None:
    """Apply the Frameworks of each FILE (- for standard input) and follow them to their end.

    Other objects in the files (ConfigMaps, Secrets, Services, ...) are applied first. Nothing is
    applied unless all of it is valid. Ctrl-C stops the Frameworks and waits for their Pods; a
    second Ctrl-C leaves at once.
    """
    from cli.run import RunOptions, run_frameworks

    if local and kubeconfig:
        raise click.UsageError("--local starts a new cluster: leave out --kubeconfig")
    if gpus and not local:
        raise click.UsageError("--gpus is for --local: leave it out, or add --local")
    if directory and not local:
        raise click.UsageError("--directory is for --local: leave it out, or add --local")
    options = RunOptions(
        files=files,
        is_local=local,
        namespace=namespace,
        kubeconfig=kubeconfig,
        timeout_seconds=timeout,
        replaces=replace,
        directory=directory,
        isolation=isolation,
        network=network,
        gpus=gpus,
        shows_logs=logs,
    )
    raise SystemExit(int(run_frameworks(options)))


@main.command(short_help="Print the logs of a Framework's Tasks.")
@click.argument("name")
@click.argument("task", required=False, metavar="[ROLE[/INDEX]]")
@click.option("-c", "--container", metavar="NAME", help="Container; else the first of the Pod.")
@click.option("-f", "--follow", is_flag=True, help="Go on until the containers have ended.")
@click.option("--previous", is_flag=True, help="The run before the container's last restart.")
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Only the last N lines.")
@click.option("--raw", is_flag=True, help="Print the bytes unchanged, with control characters.")
@_namespace_option
@_kubeconfig_option
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
    namespace: str | None,
    kubeconfig: str | None,
    directory: str | None,
) -> None:
    """Print the logs of the Tasks of Framework NAME, of all, of one ROLE or of one ROLE/INDEX."""
    from cli.logoutput import LogOptions
    from cli.logs import print_logs

    options = LogOptions(
        name=name,
        task=task,
        container=container,
        follow=follow,
        previous=previous,
        tail_lines=tail,
        raw=raw,
        namespace=namespace,
        kubeconfig=kubeconfig,
        directory=directory,
    )
    raise SystemExit(int(print_logs(options)))


@main.command("inject", short_help="Add the agents to the Frameworks of a file.")
@click.argument("file", metavar="FILE")
@click.option("-o", "--output", metavar="FILE", help="Where to write; else standard output.")
@click.option(
    "--rendezvous",
    type=click.Choice(["none", "init", "sidecar", "wrapper"]),
    default="sidecar",
    show_default=True,
    help="Peer files besides the barrier's: never, once, kept fresh, or by PID 1 of the container.",
)
@click.option("--dns", is_flag=True, help="Add a headless Service and name the Pods.")
@click.option("--restricted", is_flag=True, help="Make all containers fit Pod Security restricted.")
@click.option("--registry", metavar="PREFIX", help="Where our images are; else frameworkbarrier.")
def inject_command(
    file: str,
    *,
    output: str | None,
    rendezvous: str,
    dns: bool,
    restricted: bool,
    registry: str | None,
) -> None:
    """Add the agents to the Frameworks of FILE (- for standard input); print all that to apply.

    Added are barrier and rendezvous, their volume, a token that only they see, and a ServiceAccount
    that may read this gang's roster. What you wrote stays as it is; comments are lost.
    """
    from cli.authoring.commands import inject_file
    from cli.authoring.injection import InjectionOptions, Rendezvous
    from framework.api.images import REGISTRY

    options = InjectionOptions(
        rendezvous=Rendezvous(rendezvous),
        registry=registry or REGISTRY,
        dns=dns,
        restricted=restricted,
    )
    raise SystemExit(int(inject_file(file, options, output)))


@main.command("lint", short_help="Find what would not work in Frameworks.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--for-original",
    is_flag=True,
    help="Check them for microsoft/frameworkcontroller, which drops some fields.",
)
@click.option(
    "--quota",
    metavar="NAMES",
    default="",
    help="Resources that a quota of the namespace counts, for example cpu,memory.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def lint_command(files: tuple[str, ...], *, for_original: bool, quota: str, as_json: bool) -> None:
    """Find what is valid in the Frameworks of each FILE and would not work; exit code 1 if any."""
    from cli.authoring.commands import lint_files
    from cli.authoring.rules import LintOptions

    names = [name.strip() for name in quota.split(",") if name.strip()]
    options = LintOptions(for_original=for_original, quota=names)
    raise SystemExit(int(lint_files(files, options, as_json=as_json)))


@main.group(short_help="A Kubernetes on this machine.")
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
@click.option("--no-kubelet", is_flag=True, help="Run no Pods: they stay Pending.")
@click.option("--no-controller", is_flag=True, help="Run no controller, to start one by hand.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="N",
    help="Port of the API server; 0, the default, takes a free one.",
)
@_isolation_option
@_network_option
@_gpus_option
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


@local.command(short_help="Say whether the local cluster runs.")
@_state_option
def status(*, directory: str | None) -> None:
    """Say whether the local cluster runs, and where; exit code 1 if it does not."""
    with requires_local_cluster():
        from cli.local.commands import show_cluster

    raise SystemExit(int(show_cluster(directory)))


@main.command(short_help="Print the version.")
def version() -> None:
    """Print the version, as `--version` does."""
    print_line(VERSION)


if __name__ == "__main__":
    main()
