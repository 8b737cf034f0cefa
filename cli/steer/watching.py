"""Waits until Frameworks have reached goals: watches them, and prints the missing parts.

A single Framework is watched by its name, so that a right for this name is enough. For several, all
Frameworks of the namespace are watched. Pods are watched only from the moment when a goal needs
them, so that other waits need no right to read Pods.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from cli.exitcodes import CliError, ExitCode
from cli.running.objectcache import ObjectCache
from cli.running.outage import GIVE_UP_SECONDS, Outage
from cli.steer.changes import read_gang
from cli.steer.effects import Goal, Verdict
from cli.terminal import print_error
from cli.waiting import Interrupt, wait_any
from framework.api import constants
from framework.clock import Clock, Random
from framework.kube.client import KubeClient
from framework.kube.errors import ForbiddenError, NotFoundError, UnauthorizedError
from framework.kube.listwatch import ListWatch
from framework.kube.resources import FRAMEWORKS, PODS, Resource

_TICK_SECONDS = 1.0
_ENDED_PHASES = frozenset({"Succeeded", "Failed"})
# Goals that are reached within this time need no line about missing parts.
_QUIET_SECONDS = 2.0
# Of the names of a selector; the address of a request has at most 8190 bytes.
_MAX_NAMES_CHARS = 2000


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
        self._pods: ObjectCache | None = None
        self._watches: list[tuple[ListWatch, asyncio.Task[None]]] = []
        self._outage = Outage()
        self._open: list[Goal] = []
        self._shown: dict[str, str] = {}
        self._has_failed = False

    async def wait(self, wait: Wait) -> ExitCode:
        """Wait until every goal is reached, or one of them can never be.

        Raises:
            CliError: the API server is unreachable for too long.
            ForbiddenError: the user may not list or watch Frameworks, or Pods if a goal needs them.
        """
        names = [goal.name for goal in wait.goals]
        by_name = f"metadata.name={names[0]}" if len(names) == 1 else None
        interrupt = Interrupt(stops_on_hangup=False)
        with interrupt.caught():
            self._watch(FRAMEWORKS, self._known, fields=by_name)
            try:
                return await self._follow(wait, interrupt)
            finally:
                tasks = [task for _, task in self._watches]
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    def _watch(
        self,
        resource: Resource,
        cache: ObjectCache,
        *,
        fields: str | None = None,
        labels: str | None = None,
    ) -> None:
        listwatch = ListWatch(
            self._client,
            resource,
            cache,
            clock=self._clock,
            random=self._random,
            namespace=self._namespace,
            on_connection=lambda _: self._changed.set(),
            field_selector=fields,
            label_selector=labels,
        )
        task = asyncio.create_task(listwatch.run(), name=f"watch-{resource.plural}")
        self._watches.append((listwatch, task))

    async def _follow(self, wait: Wait, interrupt: Interrupt) -> ExitCode:
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
            self._check_connection()
            left = _TICK_SECONDS if wait.timeout_seconds is None else wait.timeout_seconds - elapsed
            tick = min(_TICK_SECONDS, left)
            await wait_any(self._changed, interrupt.requested, timeout_seconds=tick)

    def _judge(self, wait: Wait, *, is_quiet: bool) -> None:
        if self._known.objects is None:
            return
        for goal, verdict in self._judge_open():
            if verdict.needs_pods and self._pods is None:
                self._pods = ObjectCache(self._changed.set)
                self._watch(PODS, self._pods, labels=_select_pods(wait.goals))
            if verdict.is_final:
                self._open.remove(goal)
                self._has_failed |= bool(verdict.failure)
                wait.report(goal, verdict)
            elif not is_quiet and verdict.text != self._shown.get(goal.name):
                self._shown[goal.name] = verdict.text
                print_error(f"{goal.name}: {verdict.text}")

    def _judge_open(self) -> Iterator[tuple[Goal, Verdict]]:
        """Judge each open goal by what is known now, one after the other.

        So a Framework that cannot be read does not hide the ends of those before it.
        """
        known, live = self._known.objects or {}, self._list_live_pods()
        for goal in tuple(self._open):
            body = known.get(goal.name)
            yield goal, goal.judge(None if body is None else read_gang(body, live))

    def _list_live_pods(self) -> frozenset[str] | None:
        """List the UIDs of the Pods that have not ended; None if Pods are not known."""
        if self._pods is None or self._pods.objects is None:
            return None
        return frozenset(
            str(pod["metadata"]["uid"])
            for pod in self._pods.objects.values()
            if pod["status"].get("phase") not in _ENDED_PHASES
        )

    def _give_up(self, wait: Wait) -> ExitCode:
        for goal, verdict in self._judge_open():
            print_error(
                f"error: {goal.name}: timeout of {wait.timeout_seconds:g} s passed: "
                f"{verdict.text or 'it could not be read'}; {wait.left}"
            )
        return ExitCode.TIMEOUT

    def _check_connection(self) -> None:
        errors = (watch.last_error for watch, _ in self._watches if not watch.is_connected)
        error = next((error for error in errors if error is not None), None)
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


def _select_pods(goals: Sequence[Goal]) -> str:
    """Select the Pods of the Frameworks; those of all, if the names are too long for an address."""
    names = ",".join(goal.name for goal in goals)
    if len(names) > _MAX_NAMES_CHARS:
        return constants.FRAMEWORK_NAME
    return f"{constants.FRAMEWORK_NAME} in ({names})"
