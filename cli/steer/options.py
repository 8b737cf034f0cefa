"""Options that the commands of this folder share."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import click

from cli.clusterchoice import ClusterChoice
from cli.dryrun import NO_DRY_RUN
from cli.options import (
    DURATION_HELP,
    Duration,
    cluster_options,
    dry_run_option,
)
from cli.printing.forms import OBJECT_FORMS, Form, OutputFormat
from cli.printing.options import output_option

_Command = Callable[..., None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SteerOptions:
    """Options that these commands share."""

    cluster: ClusterChoice = field(default_factory=ClusterChoice)
    """The cluster."""
    dry_run: str = NO_DRY_RUN
    """``none``, ``client`` or ``server``."""
    output: OutputFormat = field(default_factory=OutputFormat)
    """A table means lines such as kubectl prints."""
    waits: bool = False
    """Whether the command waits until the change has taken effect."""
    timeout_seconds: float | None = None
    """Limit of the wait; None for no limit."""


_timeout_option = click.option(
    "--timeout",
    type=Duration(),
    metavar="TIME",
    help=f"Wait no longer than this, {DURATION_HELP}; exit code 4.",
)


def steer_options(
    *,
    wait: str | None = None,
    waits_always: bool = False,
    has_objects: bool = True,
    has_dry_run: bool = True,
) -> Callable[[_Command], _Command]:
    """Add the cluster options, --output, --dry-run, --wait and --timeout.

    The command gets them as ``options``, a ``SteerOptions``.

    Args:
        wait: help of --wait; None if the command has no --wait.
        waits_always: whether the command waits unless --no-wait is given, or has only --timeout.
        has_objects: whether --output may print objects, not only names.
        has_dry_run: whether there is --dry-run.
    """
    added = [output_option(*(OBJECT_FORMS if has_objects else (Form.NAME,)))]
    added += [dry_run_option] if has_dry_run else []
    if wait is not None:
        flag = "--wait/--no-wait" if waits_always else "--wait"
        added.append(click.option(flag, is_flag=True, default=waits_always, help=wait))
    added += [_timeout_option] if wait is not None or waits_always else []

    def decorate(command: _Command) -> _Command:
        decorated = _gather(command, waits_always=waits_always)
        for option in reversed(added):
            decorated = option(decorated)
        return cluster_options(decorated)

    return decorate


def _gather(command: _Command, *, waits_always: bool) -> _Command:
    """Give the command its shared options as one object, ``options``."""

    @wraps(command)
    def with_options(
        *args: Any,
        cluster: ClusterChoice,
        output: OutputFormat,
        dry_run: str = NO_DRY_RUN,
        wait: bool = waits_always,
        timeout: float | None = None,
        **rest: Any,
    ) -> None:
        if timeout is not None and not wait:
            raise click.UsageError("--timeout is the limit of --wait: add --wait")
        options = SteerOptions(
            cluster=cluster, dry_run=dry_run, output=output, waits=wait, timeout_seconds=timeout
        )
        command(*args, options=options, **rest)

    return with_options
