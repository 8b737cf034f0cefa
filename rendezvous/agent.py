"""One agent: follow the gang, show its generations, tell processes, acknowledge.

Called by ``app`` (once), ``sidecar`` and ``wrapper`` (in a loop, one turn after the other). One
thread; everything that takes time is bounded. The decisions are in ``selection``, ``diff`` and the
renderers.
"""

from typing import Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from framework.agent.clock import AgentClock
from framework.agent.gang import SOURCE_DNS
from framework.api.naming import TaskKey
from framework.api.roster import Leaving, Roster
from rendezvous.core.diff import Diff, compute_diff
from rendezvous.core.membership import build_view
from rendezvous.core.refusal import RefusedError
from rendezvous.core.selection import (
    PUBLISHED,
    Shown,
    Sight,
    Wait,
    adopt_source,
    find_leaving,
    find_obstacle,
    is_completing,
    is_news,
    number_sight,
)
from rendezvous.core.target import Target
from rendezvous.following import Follower
from rendezvous.notify.acknowledge import Acknowledger
from rendezvous.notify.notifiers import CHANGED, COMPLETING, LEAVING, Notification, Notifier
from rendezvous.reach import Reach
from rendezvous.renderers.plugins import Renderer
from rendezvous.renderers.registry import Rendering, render_all
from rendezvous.report import Reporter
from rendezvous.settings.behaviour import Settings
from rendezvous.settings.options import Options
from rendezvous.settings.unused_settings import list_foreign_roles
from rendezvous.volume.writer import Told, Writer

_LONGEST_LOOK_SECONDS = 1.0
_HELD_LOOK_SECONDS = 0.2
_WAIT_LINE_SECONDS = 10.0


class Setup(NamedTuple):
    """What every agent is made of."""

    settings: Settings
    options: Options
    target: Target
    plugins: Mapping[str, Renderer]
    reporter: Reporter
    clock: AgentClock
    named_roles: Mapping[str, List[str]] = {}
    """The roles that each setting names."""


class Agent:
    """The agent. ``env`` is what processes export in the generation in force."""

    def __init__(
        self,
        setup: Setup,
        follower: Follower,
        writer: Writer,
        acknowledger: Optional[Acknowledger],
        notifiers: List[Notifier],
    ) -> None:
        """Go on where an agent before this one left the volume."""
        self._setup = setup
        self._follower = follower
        self._writer = writer
        self._acknowledger = acknowledger
        self._notifiers = notifiers
        self._shown = self._restore()
        self._told = self._writer.read_told() if self._shown else Told()
        self._notified = self._restore_notified()
        settings, identity = setup.settings, setup.target.identity
        own = TaskKey(identity.role, identity.index)
        self._reach = Reach(settings.reach, settings.reach_seconds, own, setup.clock)
        self._is_held = False
        self._has_applied = False
        self._next_apply_at = 0.0
        self._next_line_at = 0.0
        self.last_line = ""
        self._has_completed = False
        self._refused: Optional[RefusedError] = None
        self.env: Dict[str, str] = {}
        # While no process runs yet that could be told; it reads the files at its start.
        self.is_quiet = False
        self.on_completing: Callable[[], None] = lambda: None

    @property
    def generation(self) -> int:
        """The generation in force that this agent has seen through; 0 before."""
        return self._shown.number if self._shown and self._has_applied else 0

    @property
    def refusal(self) -> Optional[RefusedError]:
        """Why the newest complete generation could not be rendered."""
        return self._refused

    def turn(self, longest_seconds: float = _LONGEST_LOOK_SECONDS) -> None:
        """Wait for news for at most about so long, and act on it.

        Raises:
            OSError: The volume cannot be written to; the generation before is still in force.
        """
        now = self._setup.clock.monotonic()
        wait = min(longest_seconds, _HELD_LOOK_SECONDS) if self._is_held else longest_seconds
        if self._next_apply_at > now:
            wait = min(wait, self._next_apply_at - now)
        self._follower.poll(wait)
        self._tell_missing_rights()
        sight = self._follower.look()
        if isinstance(sight, Wait):
            self._show_wait(sight.message)
        else:
            self._take(sight)
        if self._acknowledger is not None:
            self._acknowledger.flush()

    def _take(self, sight: Sight) -> None:
        for line in list_foreign_roles(self._setup.named_roles, sight.roster):
            self._setup.reporter.say_once(line, "warning")
        try:
            self._show(sight)
        finally:
            # At once, whatever becomes of the files.
            self._heed_leaving(sight.roster)
            self._heed_completing(sight.roster)

    def _show(self, sight: Sight) -> None:
        identity, shown = self._setup.target.identity, self._shown
        obstacle = find_obstacle(sight.roster, identity, was_member=shown is not None)
        self._is_held = False
        if obstacle or (shown is not None and _is_lesser(sight, shown)):
            self._show_wait(obstacle or "the API server does not show the ConfigMap any more")
        elif shown is not None and self._is_settled(sight, shown):
            self._reach.forget()
            self._adopt(sight, shown)
        elif self._setup.clock.monotonic() >= self._next_apply_at:
            # Before, nothing is done: the newest that is known then will be shown.
            self._apply_reachable(sight)

    def _is_settled(self, sight: Sight, shown: Shown) -> bool:
        """Return whether there is nothing to do: no news, and no other agent has come further."""
        if not self._has_applied or is_news(sight, shown):
            return False
        is_overtaken = self._writer.find_last_number() > shown.number
        return not is_overtaken or self._restore() is None  # None: by nobody of ours

    def _apply_reachable(self, sight: Sight) -> None:
        obstacle = ""
        if self._has_applied and self._shown is not None:
            obstacle = self._reach.find_obstacle(self._shown.roster, sight.roster)
        self._is_held = bool(obstacle)
        if obstacle:
            self._show_wait(obstacle)
        else:
            self._apply(sight)

    def _apply(self, sight: Sight) -> None:
        """Show a generation, tell of it, acknowledge it: in this order."""
        with self._writer.alone():
            is_new, rendering = self._put_in_force(sight)
        shown = self._shown
        if rendering is None or shown is None:
            return
        self.env = rendering.env
        self._has_applied, self._refused = True, None
        self._next_apply_at = self._setup.clock.monotonic() + self._setup.settings.debounce_seconds
        if is_new:
            self._say_applied(shown, rendering)
        self._notify_change(shown.roster)
        self._acknowledge(shown)
        if is_new:
            self._writer.settle()

    def _put_in_force(self, sight: Sight) -> Tuple[bool, Optional[Rendering]]:
        """Write a generation, unless another agent has; None if it is not to be shown."""
        known = self._find_in_force()
        if known is not None and not is_news(sight, known):
            if not sight.roster.is_same_gang(known.roster):
                return False, None  # the server's cache lags behind what another agent has shown
            # In force already, by an agent before this one or beside it.
            shown = adopt_source(sight, known)
        else:
            shown = number_sight(sight, known, self._writer.find_last_number())
        rendering = self._render(shown.roster)
        is_new = known is None or shown.number != known.number
        if rendering is not None:
            if is_new:
                self._writer.write(shown, rendering.files, rendering.fixed_files)
            self._shown = shown
        return is_new, rendering

    def _find_in_force(self) -> Optional[Shown]:
        """Find what is shown, by this agent or another one of the Pod."""
        if self._shown is not None and self._writer.find_last_number() == self._shown.number:
            return self._shown
        return self._restore() or self._shown

    def _render(self, roster: Roster) -> Optional[Rendering]:
        setup = self._setup
        try:
            view = build_view(roster, setup.target.identity, setup.options)
            return render_all(view, setup.options, setup.plugins)
        except RefusedError as e:
            self._refused = e
            setup.reporter.say_once(f"generation {roster.generation} is not shown: {e}", "error")
            return None

    def _adopt(self, sight: Sight, shown: Shown) -> None:
        adopted = adopt_source(sight, shown)
        if adopted != shown:
            self._shown = adopted
            self._acknowledge(adopted)

    def _acknowledge(self, shown: Shown) -> None:
        if self._acknowledger is not None and shown.source == PUBLISHED:
            self._acknowledger.acknowledge(shown.source_generation)

    def _notify_change(self, roster: Roster) -> None:
        diff = compute_diff(self._notified, roster)
        leaving = find_leaving(roster, self._setup.target.identity)
        told = self._told._replace(generation=roster.generation)
        if leaving is not None and told.leaving != leaving.deadline:
            told = told._replace(leaving=leaving.deadline)
            self._notify(Notification(LEAVING, diff, leaving.deadline))
        elif not diff.is_empty:
            self._notify(Notification(CHANGED, diff))
        self._notified = roster
        self._note(told)

    def _heed_leaving(self, roster: Roster) -> None:
        """Tell at once, also in a generation that is not shown."""
        leaving: Optional[Leaving] = find_leaving(roster, self._setup.target.identity)
        if leaving is None or self._told.leaving == leaving.deadline:
            return
        self._notify(Notification(LEAVING, self._build_empty_diff(), leaving.deadline))
        self._note(self._told._replace(leaving=leaving.deadline))

    def _heed_completing(self, roster: Roster) -> None:
        if not is_completing(roster) or self._has_completed:
            return
        self._has_completed = True
        if not self._told.completing:
            self._notify(Notification(COMPLETING, self._build_empty_diff()))
            self._note(self._told._replace(completing=True))
        self.on_completing()

    def _build_empty_diff(self) -> Diff:
        generation = self._notified.generation if self._notified else 0
        return Diff(generation, generation, (), (), ())

    def _notify(self, notification: Notification) -> None:
        for notifier in () if self.is_quiet else self._notifiers:
            notifier(notification, self.env)

    def _restore(self) -> Optional[Shown]:
        """Take over what lies in the volume, if it is of this Pod's attempt."""
        shown = self._writer.read_shown()
        own = self._setup.target.identity.instance_uid
        if shown is None or not own:
            return shown
        # DNS knows no attempts.
        is_own = shown.source == SOURCE_DNS or shown.roster.instance_uid == own
        return shown if is_own else None

    def _restore_notified(self) -> Optional[Roster]:
        if self._shown is None:
            return None
        number = self._told.generation
        if number == self._shown.number:
            return self._shown.roster
        told = self._writer.read_generation(number) if number else None
        is_same = told is not None and told.roster.instance_uid == self._shown.roster.instance_uid
        return told.roster if told is not None and is_same else None

    def _note(self, told: Told) -> None:
        if told != self._told:
            self._told = told
            try:
                self._writer.note_told(told)
            except OSError as e:
                # They were told. Only an agent after this one would tell them again.
                self._setup.reporter.say_once(f"the volume cannot be written: {e}", "error")

    def _say_applied(self, shown: Shown, rendering: Rendering) -> None:
        roster, reporter = shown.roster, self._setup.reporter
        count = sum(len(role.members) for role in roster.roles)
        reporter.say(
            f"generation {shown.number} is in force: {count} members",
            generation=shown.number,
            members=count,
        )
        for name, refusal in rendering.refusals.items():
            reporter.say_once(f"{name} is not written: {refusal}")
        for name, variable in rendering.moved.items():
            reporter.say_once(f"{name} is too long to export: ${variable} names its file")

    def _tell_missing_rights(self) -> None:
        for right in self._follower.list_missing_rights():
            self._setup.reporter.say_once(right.describe_rule(), "warning")

    def _show_wait(self, message: str) -> None:
        """Say what the agent waits for, when it changes and now and then."""
        now = self._setup.clock.monotonic()
        is_calm = self._has_applied and now >= self._next_line_at and message == self.last_line
        if (message == self.last_line and now < self._next_line_at) or is_calm:
            return
        self.last_line, self._next_line_at = message, now + _WAIT_LINE_SECONDS
        kept = ", the last good one is kept" if self._has_applied else ""
        self._setup.reporter.say(f"waiting: {message}{kept}")


def _is_lesser(sight: Sight, shown: Shown) -> bool:
    """Return whether a Framework was read where there is a published roster.

    It has no generation, so nobody knows whether it is older. An agent that starts anew while the
    ConfigMap is away would else go back.
    """
    return sight.source != PUBLISHED and shown.source == PUBLISHED
