"""Waits until Frameworks have reached goals: watches them, and prints the missing parts.

A single Framework is watched by its name, so that a right for this name is enough. For several, all
Frameworks of the namespace are watched.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cli.exitcodes import CliError, ExitCode
from cli.running.objectcache import ObjectCache
from cli.running.outage import GIVE_UP_SECONDS, Outage
from cli.steer.changes import read_gang
from cli.steer.effects import Goal, Verdict
from cli.terminal import print_error
from cli.waiting import Interrupt, wait_any
from framework.clock import Clock, Random
from framework.kube.client import KubeClient
from framework.kube.errors import ForbiddenError, NotFoundError, UnauthorizedError
from framework.kube.listwatch import ListWatch
from framework.kube.resources import FRAMEWORKS

_TICK_SECONDS = 1.0
# Goals that are reached within this time need no line about missing parts.
_QUIET_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Wait:
    """The goals of a wait, and its limit."""

    goals: Sequence[Goal]
    """One for each Framework."""
    timeout_seconds: float | None
    """None: as long as it takes."""
    left: str
    """Text after Ctrl-C or the timeout, about the state that remains."""
    report: Callable[[Goal, Verdict], None]
    """Called once for each goal that was reached or can never be reached."""


class Waiter:
    """Waits for the goals of a command."""

    def __init__(self, client: KubeClient, namespace: str, clock: Clock, random: Random) -> None:
        """Prepare; nothing is sent yet."""
        self._client = client
        self._namespace = namespace
        self._clock = clock
        self._random = random
        self._changed = asyncio.Event()
        self._known = ObjectCache(self._changed.set)
        self._outage = Outage()
        self._open: list[Goal] = []
        self._shown: dict[str, str] = {}
        self._has_failed = False

    async def wait(self, wait: Wait) -> ExitCode:
        """Wait until every goal is reached, or one of them can never be.

        Raises:
            CliError: the API server is unreachable for too long.
            ForbiddenError: the user may not list or watch Frameworks.
        """
        names = [goal.name for goal in wait.goals]
        listwatch = ListWatch(
            self._client,
            FRAMEWORKS,
            self._known,
            clock=self._clock,
            random=self._random,
            namespace=self._namespace,
            on_connection=lambda _: self._changed.set(),
            field_selector=f"metadata.name={names[0]}" if len(names) == 1 else None,
        )
        interrupt = Interrupt(stops_on_hangup=False)
        with interrupt.caught():
            watching = asyncio.create_task(listwatch.run(), name="watch-frameworks")
            try:
                return await self._follow(wait, listwatch, interrupt)
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)

    async def _follow(self, wait: Wait, listwatch: ListWatch, interrupt: Interrupt) -> ExitCode:
        self._open = list(wait.goals)
        started = self._clock.monotonic()
        while True:
            self._changed.clear()
            elapsed = self._clock.monotonic() - started
            self._judge(wait, is_quiet=elapsed < _QUIET_SECONDS)
            if not self._open:
                return ExitCode.FAILED if self._has_failed else ExitCode.SUCCEEDED
            if interrupt.requested.is_set():
                print_error(f"no longer waiting; {wait.left}")
                return interrupt.exit_code
            if wait.timeout_seconds is not None and elapsed >= wait.timeout_seconds:
                return self._give_up(wait)
            self._check_connection(listwatch)
            left = _TICK_SECONDS if wait.timeout_seconds is None else wait.timeout_seconds - elapsed
            tick = min(_TICK_SECONDS, left)
            await wait_any(self._changed, interrupt.requested, timeout_seconds=tick)

    def _judge(self, wait: Wait, *, is_quiet: bool) -> None:
        known = self._known.objects
        if known is None:
            return
        for goal in list(self._open):
            body = known.get(goal.name)
            verdict = goal.judge(None if body is None else read_gang(body))
            if verdict.is_final:
                self._open.remove(goal)
                self._has_failed |= bool(verdict.failure)
                wait.report(goal, verdict)
            elif not is_quiet and verdict.text != self._shown.get(goal.name):
                self._shown[goal.name] = verdict.text
                print_error(f"{goal.name}: {verdict.text}")

    def _give_up(self, wait: Wait) -> ExitCode:
        known = self._known.objects or {}
        for goal in self._open:
            body = known.get(goal.name)
            verdict = goal.judge(None if body is None else read_gang(body))
            print_error(
                f"error: {goal.name}: timeout of {wait.timeout_seconds:g} s passed: "
                f"{verdict.text or 'it could not be read'}; {wait.left}"
            )
        return ExitCode.TIMEOUT

    def _check_connection(self, listwatch: ListWatch) -> None:
        error = None if listwatch.is_connected else listwatch.last_error
        if isinstance(error, ForbiddenError | UnauthorizedError | NotFoundError):
            raise error
        alert = self._outage.observe(None if error is None else str(error), self._clock.monotonic())
        if self._outage.is_over_limit:
            raise CliError(
                ExitCode.UNREACHABLE,
                f"the API server is unreachable for {GIVE_UP_SECONDS:.0f} s "
                f"({self._outage.last_error})",
            )
        if alert is not None and alert != self._shown.get(""):
            self._shown[""] = alert
            print_error(f"warning: {alert}")
