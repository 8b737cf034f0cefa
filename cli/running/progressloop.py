"""Shows the progress of a run at each change, and finds the end of the run.

1. Each change of an object sets ``changed``. The loop then shows the states that were replaced
   since the last turn, in the order in which they were observed, and the newest state.
2. Without a change, it draws again after a second, for durations and countdowns.
3. It sets ``ended`` when every Framework is Completed or deleted, ``lost`` when the API server
   has been unreachable for too long, and ``uncontrolled`` while no controller has seen any of the
   Frameworks that go on. It goes on showing until it is cancelled.

The loop pauses after each turn in proportion to its cost, so that it uses at most a fifth of a
processor.
"""

import asyncio
from datetime import datetime

from cli.running.display import Display
from cli.running.followers import FollowedFrameworks
from cli.running.history import AttemptHistory
from cli.running.outage import Outage
from cli.running.views import GangView
from cli.waiting import wait_any
from framework.clock import Clock

_TICK_SECONDS = 1.0
_SPINNER_SECONDS = 0.2
# The pause after a turn is this many times as long as the turn.
_REST_FACTOR = 4.0
_MAX_REST_SECONDS = 2.0


class ProgressLoop:
    """Shows the Frameworks of a run."""

    def __init__(
        self,
        frameworks: FollowedFrameworks,
        display: Display,
        clock: Clock,
        changed: asyncio.Event,
    ) -> None:
        """Show nothing yet.

        Args:
            frameworks: the Frameworks of the run.
            display: an entered display.
            clock: for pauses and countdowns.
            changed: set at each change of an object.
        """
        self.ended = asyncio.Event()
        """Every Framework is Completed or was deleted."""
        self.lost = asyncio.Event()
        """The API server has been unreachable for too long."""
        self.uncontrolled = asyncio.Event()
        """All Frameworks that go on wait for a controller; cleared when a controller sees one."""
        self.outage = Outage()
        self.histories = [AttemptHistory() for _ in frameworks.followers]
        """The failed attempts of each Framework."""
        self._frameworks = frameworks
        self._display = display
        self._clock = clock
        self._changed = changed

    async def run(self) -> None:
        """Show the progress until cancelled."""
        while True:
            self._changed.clear()
            begun = self._clock.monotonic()
            views = self._show_changes()
            if self.outage.is_over_limit:
                self.lost.set()
            if self._frameworks.are_over(views):
                self.ended.set()
            if self._frameworks.lack_controller(views):
                self.uncontrolled.set()
            else:
                self.uncontrolled.clear()
            await self._rest(self._clock.monotonic() - begun)

    def _show_changes(self) -> list[GangView]:
        """Show every state since the last call; return the newest views."""
        for number, view in self._frameworks.take_replaced(self._now):
            self._show_failed_attempts(view, self.histories[number])
            self._display.show_replaced(
                view,
                self._frameworks.elapsed_seconds,
                names_framework=len(self.histories) > 1,
            )
        views = self._frameworks.build_views(self._now)
        error = self._frameworks.connection_error
        alert = self.outage.observe(error, self._clock.monotonic())
        for view, history in zip(views, self.histories, strict=True):
            self._show_failed_attempts(view, history)
        self._display.update(views, self._frameworks.elapsed_seconds, alert)
        return views

    @property
    def _now(self) -> datetime | None:
        """The time for countdowns; None in a pipe, where a countdown would print each second."""
        return self._clock.now() if self._display.is_live else None

    def _show_failed_attempts(self, view: GangView, history: AttemptHistory) -> None:
        """Print each failed attempt once: the live display forgets it with the next attempt."""
        for line in history.observe(view):
            if self._display.is_live and not view.is_completed:
                self._display.say_at(self._frameworks.elapsed_seconds, line)

    async def _rest(self, cost_seconds: float) -> None:
        """Wait for a change, or for the time to update durations."""
        await asyncio.sleep(min(_REST_FACTOR * cost_seconds, _MAX_REST_SECONDS))
        deadline = self._clock.monotonic() + _TICK_SECONDS
        while (left := deadline - self._clock.monotonic()) > 0:
            pause = min(left, _SPINNER_SECONDS) if self._display.is_live else left
            if await wait_any(self._changed, timeout_seconds=pause):
                return
            self._display.turn_spinner()
