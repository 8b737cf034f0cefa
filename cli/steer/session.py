"""Runs the commands: reads Frameworks, sends and prints changes, and waits for their effect."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeAlias

from cli.dryrun import NO_DRY_RUN, describe_dry_run
from cli.exitcodes import CliError, ExitCode
from cli.frameworks import drop_kind
from cli.printing.forms import Form
from cli.printing.output import Printer
from cli.session import explained, find_cluster, open_client
from cli.steer.apply import Outcome, change_framework
from cli.steer.changes import Change, Computation
from cli.steer.effects import Goal, Verdict
from cli.steer.options import SteerOptions
from cli.steer.targets import title
from cli.steer.watching import Wait, Waiter
from cli.terminal import print_document, print_error, print_line
from framework.clock import SystemClock, SystemRandom
from framework.kube.client import KubeClient
from framework.kube.resources import Object

_Action: TypeAlias = Callable[["Session"], Coroutine[Any, Any, ExitCode]]


class Session:
    """One command: its cluster, its options and its result so far."""

    def __init__(self, client: KubeClient, namespace: str, options: SteerOptions) -> None:
        """Begin without a result."""
        self.client = client
        self.namespace = namespace
        self.options = options
        self.goals: list[Goal] = []
        self.code = ExitCode.SUCCEEDED
        self._objects: list[Object] = []

    async def choose(self, names: Sequence[str]) -> Sequence[str]:
        """Leave out a word for the kind in front of names; a single word is a name."""
        return await drop_kind(self.client, self.namespace, names) if len(names) > 1 else names

    async def change(
        self,
        name: str,
        compute: Computation,
        build_goal: Callable[[Outcome], Goal] | None = None,
    ) -> None:
        """Change one Framework and print the change.

        Args:
            name: of the Framework.
            compute: computes the change.
            build_goal: builds the goal to wait for.
        """
        try:
            outcome = await change_framework(
                self.client, self.namespace, name, compute, dry_run=self.options.dry_run
            )
        except CliError as e:
            self.fail(e)
            return
        self.show(outcome.after, name, outcome.change)
        if build_goal is not None:
            self.goals.append(build_goal(outcome))

    def fail(self, error: CliError) -> None:
        """Print an error of one Framework; the command goes on with the next one."""
        if self.code is ExitCode.SUCCEEDED:
            self.code = error.exit_code
        for line in error.lines:
            print_error(f"error: {line}")

    def show(self, body: Object, name: str, change: Change) -> None:
        """Print the change of a Framework."""
        if not self.options.output.is_table:
            self._objects.append(body)
        else:
            suffix = self.describe_dry_run() if change.operations else ""
            print_line(f"{title(name)} {change.verb}{suffix}")
            for note in change.notes:
                print_error(f"note: {name}: {note}")
        for warning in change.warnings:
            print_error(f"warning: {name}: {warning}")

    def describe_dry_run(self) -> str:
        """Return the text that kubectl adds to a line in a dry run."""
        return describe_dry_run(self.options.dry_run)

    def print_name(self, name: str) -> bool:
        """Print the name of a Framework if --output asks for names; return whether it does."""
        if self.options.output.form is not Form.NAME:
            return False
        print_line(title(name))
        return True

    def _print_objects(self) -> None:
        """Print the objects of --output: one as it is, several as a List."""
        if self._objects:
            printer = Printer(self.options.output)
            print_document(printer.render(self._objects, is_list=len(self._objects) > 1))

    async def wait(
        self, goals: Sequence[Goal], report: Callable[[Goal, Verdict], None], left: str
    ) -> ExitCode:
        """Print the objects, wait for the goals, and return the exit code of the command."""
        self._print_objects()
        if not goals or self.options.dry_run != NO_DRY_RUN:
            return self.code
        waiter = Waiter(self.client, self.namespace, SystemClock(), SystemRandom())
        code = await waiter.wait(Wait(goals, self.options.timeout_seconds, left, report))
        return self.code if code is ExitCode.SUCCEEDED else code


def run_session(options: SteerOptions, act: _Action) -> ExitCode:
    """Run a command on its cluster.

    Raises:
        CliError: there is no cluster, or it cannot be reached.
    """

    async def run() -> ExitCode:
        config = find_cluster(options.cluster)
        async with open_client(config) as client:
            session = Session(client, config.namespace, options)
            with explained(config, refused=ExitCode.USAGE):
                return await act(session)

    return asyncio.run(run())


def report_effect(goal: Goal, verdict: Verdict) -> None:
    """Print that a change has taken effect, or never will."""
    if verdict.failure:
        print_error(f"error: {goal.name}: {verdict.failure}")
    else:
        print_error(f"{goal.name}: {verdict.text}")
