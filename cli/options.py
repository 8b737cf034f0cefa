"""Options and types of arguments that several commands share."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps
from typing import Any

import click

from cli.clusterchoice import ClusterChoice
from cli.dryrun import DRY_RUNS, NO_DRY_RUN

DURATION_HELP = "for example 90s, 5m or 1h"
_Command = Callable[..., None]


class Duration(click.ParamType[float]):
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
            self.fail(f"{text!r} is not a time span; write it {DURATION_HELP}", param, ctx)
        if not 0 < seconds < float("inf"):
            self.fail(f"{text!r} is not a positive time span; write it {DURATION_HELP}", param, ctx)
        return seconds


def read_choice(ctx: click.Context) -> ClusterChoice:
    """Read the cluster options of a command line that is being completed."""
    return ClusterChoice(*(ctx.params.get(key) for key in ("kubeconfig", "context", "namespace")))


def _complete_namespaces(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    from cli.start.livenames import list_namespaces

    return [name for name in list_namespaces(read_choice(ctx)) if name.startswith(incomplete)]


def _complete_contexts(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    from cli.start.livenames import list_contexts

    return [name for name in list_contexts(read_choice(ctx)) if name.startswith(incomplete)]


class Moment(click.ParamType[datetime]):
    """A time with its zone, as in RFC 3339."""

    name = "time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """Read 2026-01-02T03:04:05Z, or with an offset instead of Z."""
        if isinstance(value, datetime):
            return value
        try:
            moment = datetime.fromisoformat(str(value).strip())
            moment.astimezone(UTC)
        except (ValueError, OverflowError):
            # Overflow: the year 1 or 9999, and in UTC the year 0 or 10000.
            moment = None
        if moment is None or moment.tzinfo is None:
            example = "2026-01-02T03:04:05Z"
            self.fail(f"{value!r} is not a time with a zone; write it as {example}", param, ctx)
        return moment


_CLUSTER_OPTIONS = (
    click.option(
        "-n",
        "--namespace",
        metavar="NAME",
        help="Namespace; else the file's or the kubeconfig's.",
        shell_complete=_complete_namespaces,
    ),
    click.option(
        "--kubeconfig",
        metavar="FILE",
        type=click.Path(),
        help="Kubeconfig of the cluster; else $KUBECONFIG, ~/.kube/config or the Pod's own.",
    ),
    click.option(
        "--context",
        metavar="NAME",
        help="Context of the kubeconfig; else its current one.",
        shell_complete=_complete_contexts,
    ),
)


def cluster_options(command: _Command) -> _Command:
    """Add the options that choose the cluster; the command gets them as ``cluster``.

    Returns:
        The command with --namespace, --kubeconfig and --context, which calls ``command`` with a
        ``ClusterChoice`` in the place of the three.
    """

    @wraps(command)
    def with_cluster(
        *args: Any,
        kubeconfig: str | None,
        context: str | None,
        namespace: str | None,
        **options: Any,
    ) -> None:
        command(*args, cluster=ClusterChoice(kubeconfig, context, namespace), **options)

    for option in reversed(_CLUSTER_OPTIONS):
        with_cluster = option(with_cluster)
    return with_cluster


dry_run_option = click.option(
    "--dry-run",
    type=click.Choice(DRY_RUNS),
    default=NO_DRY_RUN,
    help="Change nothing: client sends nothing, server lets the server check it.",
)

isolation_option = click.option(
    "--isolation",
    type=click.Choice(["auto", "root", "paths"]),
    default="auto",
    help="Local Pods' volumes: in a private root, or by replacing paths; auto takes what works.",
)
network_option = click.option(
    "--network",
    type=click.Choice(["auto", "namespace", "loopback"]),
    default="auto",
    help="Local Pods' addresses: a network namespace each, or loopback; auto takes what works.",
)
gpus_option = click.option(
    "--gpus",
    type=click.IntRange(0, 1024),
    default=0,
    metavar="N",
    help="GPUs that the local cluster offers to Pods; none by default.",
)
