"""One agent: observes the gang and the volume, calls ``core.decision``, and executes the plan.

One thread; each step takes a limited time. The loop is in ``process.sidecar``.
"""

from typing import Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Union

from framework.agent.clock import AgentClock
from framework.agent.gang import SelectedRoster
from framework.agent.probes import Probe, Prober
from framework.agent.report import LineReporter
from framework.api.roster import Roster
from rendezvous.core.decision import decide
from rendezvous.core.generations import compute_poll_seconds, start_debounce
from rendezvous.core.membership import build_view
from rendezvous.core.notifying.departures import render_departures
from rendezvous.core.notifying.failures import render_failures
from rendezvous.core.notifying.notification import Notify
from rendezvous.core.plan import (
    Acknowledge,
    Action,
    Context,
    EndCommand,
    GenerationMemory,
    Log,
    Memory,
    NotificationMemory,
    Observation,
    Plan,
    RecordDepartures,
    RecordFailures,
    RecordNotified,
    ShowGeneration,
    Warn,
    assert_never,
)
from rendezvous.core.refusal import RefusedError
from rendezvous.core.selection import Generation, NoRoster, is_of_attempt
from rendezvous.core.target import Target
from rendezvous.notify.acknowledge import Acknowledger
from rendezvous.notify.notifiers import Notifier
from rendezvous.observer import AttemptObserver
from rendezvous.process.scaler import Scaler
from rendezvous.renderers.plugins import Renderer
from rendezvous.renderers.registry import Rendering, render_all
from rendezvous.settings.options import Options
from rendezvous.volume.writer import Writer

_LONGEST_POLL_SECONDS = 1.0
_PROBE_SECONDS = 1.0


class Setup(NamedTuple):
    """The parts that each agent needs."""

    options: Options
    """Its settings."""
    target: Target
    """The gang that it follows, and its own Pod."""
    plugins: Mapping[str, Renderer]
    """The user's own renderers, by format."""
    reporter: LineReporter
    """Writes the lines of the log."""
    clock: AgentClock
    """Its clock; virtual in tests."""
    named_roles: Mapping[str, List[str]] = {}
    """The roles that each setting names."""


class Agent:
    """The agent.

    ``env`` has the variables that processes export in the current generation. ``refusal`` is the
    error with which the newest complete generation could not be rendered. ``notifiers`` are called
    if there are processes to notify: a process that is not started yet reads the files at its
    start. If processes restart in place, ``on_recovery`` is called with each roster, and whether it
    is complete and its members are shown.
    """

    def __init__(
        self,
        setup: Setup,
        observer: AttemptObserver,
        writer: Writer,
        acknowledger: Optional[Acknowledger] = None,
        notifiers: Sequence[Notifier] = (),
        end_command: Callable[[], None] = lambda: None,
        scaler: Optional[Scaler] = None,
    ) -> None:
        """Continue from the volume as an agent before this one left it."""
        self._setup = setup
        self._observer = observer
        self._writer = writer
        self._acknowledger = acknowledger
        self._end_command = end_command
        self._scaler = scaler
        self._unacknowledged: Optional[int] = None
        self._prober = Prober(setup.clock)
        self._context = Context(setup.target.identity, setup.options, setup.named_roles)
        self._memory = self._restore_memory()
        self.notifiers = notifiers
        self.on_recovery: Optional[Callable[[Roster, bool], None]] = None
        self.env: Dict[str, str] = {}
        self.refusal: Optional[RefusedError] = None

    @property
    def generation(self) -> int:
        """The current generation that this agent has shown; 0 before."""
        roster = self._get_applied()
        return 0 if roster is None else roster.generation

    @property
    def roster(self) -> Optional[Roster]:
        """The roster of the current generation."""
        current = self._memory.generations.current
        return None if current is None else current.roster

    @property
    def last_wait(self) -> str:
        """The reason of the last wait."""
        return self._memory.last_wait

    def turn(self, longest_seconds: float = _LONGEST_POLL_SECONDS) -> None:
        """Wait for news for about ``longest_seconds`` at most, and act on it.

        Raises:
            OSError: The volume cannot be written to; the generation before is still current.
        """
        now, scaler = self._setup.clock.monotonic(), self._scaler
        if scaler is not None:
            longest_seconds = min(longest_seconds, scaler.poll_seconds)
        self._observer.poll(compute_poll_seconds(self._memory, longest_seconds, now))
        if scaler is not None:
            scaler.observe(self._observer.get_scaler())
        for right in self._observer.list_missing_rights():
            self._setup.reporter.say_once(right.describe_rule(), "warning")
        candidate = self._observer.select()
        self._follow_recovery(candidate)
        plan = self._decide(candidate)
        if plan.probes:
            self._probe(plan.probes)
            plan = self._decide(candidate)
        self._carry_out(plan, candidate)
        self._follow_recovery(candidate)
        if scaler is not None:
            scaler.turn(self._get_applied())
        self._acknowledge()

    def _carry_out(self, plan: Plan, candidate: Union[SelectedRoster, NoRoster]) -> None:
        """Show the generation of a plan, then execute the actions that follow."""
        is_shown = False
        try:
            if plan.show is not None:
                with self._writer.alone():
                    # Another agent of the Pod may have written since.
                    plan = self._decide(candidate)
                    is_shown = plan.show is None or self._show(plan.show)
        finally:
            steps = plan.then if is_shown or plan.show is None else plan.otherwise
            self._memory = steps.memory
            if is_shown and plan.show is not None:
                now = self._setup.clock.monotonic()
                self._memory = start_debounce(steps.memory, self._context, now)
            for action in steps.actions:
                self._apply(action)
        if is_shown and plan.show is not None and plan.show.is_new:
            self._writer.settle()

    def _get_applied(self) -> Optional[Roster]:
        """Return the roster of the current generation, if this agent has shown it."""
        return self.roster if self._memory.generations.is_applied else None

    def _follow_recovery(self, candidate: Union[SelectedRoster, NoRoster]) -> None:
        """Pass on an epoch, though its generation may not be complete or not be shown yet."""
        if self.on_recovery is None or not isinstance(candidate, SelectedRoster):
            return
        known, shown = candidate.roster.recovery, self.roster
        if known is not None and shown is not None and shown.recovery is not None:
            is_shown = known.since == shown.recovery.since and _has_members_of(
                shown, candidate.roster, known.roles
            )
            self.on_recovery(candidate.roster, candidate.roster.complete and is_shown)

    def _acknowledge(self) -> None:
        """Acknowledge the newest generation, unless drains and Pods that leave must wait."""
        if self._acknowledger is None:
            return
        if self._unacknowledged is not None and not self._is_delayed():
            self._acknowledger.acknowledge(self._unacknowledged)
            self._unacknowledged = None
        self._acknowledger.flush()

    def _is_delayed(self) -> bool:
        return self._scaler is not None and self._scaler.delays_acknowledgement(self.roster)

    def _decide(self, candidate: Union[SelectedRoster, NoRoster]) -> Plan:
        current = self._memory.generations.current
        last_number = self._writer.find_last_number()
        in_volume = current
        if current is None or current.number != last_number:
            in_volume = self._read_current()
        observation = Observation(
            candidate, last_number, in_volume, frozenset(self._prober.reached)
        )
        return decide(observation, self._memory, self._context, self._setup.clock.monotonic())

    def _probe(self, probes: Sequence[Probe]) -> None:
        # Forget the results of all other probes: when such a probe is wanted again, its address may
        # belong to another Pod.
        self._prober.reached.intersection_update(probes)
        missing = [probe for probe in probes if probe not in self._prober.reached]
        self._prober.try_once(missing, _PROBE_SECONDS)

    def _show(self, show: ShowGeneration) -> bool:
        """Make a generation current; return whether it could be rendered."""
        generation, reporter = show.generation, self._setup.reporter
        try:
            rendering = self._render(generation.roster)
        except RefusedError as e:
            self.refusal = e
            reporter.say_once(f"generation {generation.number} is not shown: {e}", "error")
            return False
        if show.is_new:
            self._writer.write(generation, rendering.files, rendering.fixed_files)
            self._report_shown(generation, rendering)
        self.env, self.refusal = rendering.env, None
        return True

    def _render(self, roster: Roster) -> Rendering:
        setup = self._setup
        view = build_view(roster, setup.target.identity, setup.options)
        return render_all(view, setup.options, setup.plugins)

    def _apply(self, action: Action) -> None:
        reporter = self._setup.reporter
        if isinstance(action, Notify):
            self._notify(action)
        elif isinstance(action, (RecordNotified, RecordFailures, RecordDepartures)):
            self._record(action)
        elif isinstance(action, Acknowledge):
            self._unacknowledged = action.generation
            self._acknowledge()
        elif isinstance(action, EndCommand):
            self._end_command()
        elif isinstance(action, Log):
            reporter.say(action.text)
        elif isinstance(action, Warn):
            reporter.say_once(action.text, "warning")
        else:
            assert_never(action)

    def _record(self, action: Union[RecordNotified, RecordFailures, RecordDepartures]) -> None:
        try:
            if isinstance(action, RecordNotified):
                # After an error, only an agent after this one would notify processes again.
                self._writer.records.write_notified(action.notified)
            elif isinstance(action, RecordFailures):
                self._writer.records.write_failures(render_failures(*action))
            else:
                self._writer.records.write_departures(render_departures(*action))
        except OSError as e:
            self._setup.reporter.say_once(f"the volume cannot be written: {e}", "error")

    def _notify(self, notification: Notify) -> None:
        for notify in self.notifiers:
            try:
                notify(notification, self.env)
            except RuntimeError as e:
                # At the Pod's limit of processes no thread starts. Call the other notifiers.
                self._setup.reporter.say(f"a notification failed: {e}", "warning")

    def _report_shown(self, generation: Generation, rendering: Rendering) -> None:
        reporter = self._setup.reporter
        count = sum(len(role.members) for role in generation.roster.roles)
        reporter.say(
            f"generation {generation.number} is current: {count} members",
            generation=generation.number,
            members=count,
        )
        for name, refusal in rendering.refusals.items():
            reporter.say_once(f"{name} is not written: {refusal}")
        for name, variable in rendering.moved.items():
            reporter.say_once(f"{name} is too long to export: ${variable} names its file")

    def _read_current(self) -> Optional[Generation]:
        """Read the current generation, if it is of this Pod's attempt."""
        current = self._writer.read_current()
        is_own = current is not None and is_of_attempt(current, self._setup.target.identity)
        return current if is_own else None

    def _restore_memory(self) -> Memory:
        """Restore the current generation and the last notifications from the volume."""
        self._writer.records.clear_departures()
        current = self._read_current()
        if current is None:
            return Memory()
        notified = self._writer.records.read_notified()
        before: Optional[Generation] = current
        if notified.generation != current.number:
            before = self._writer.read_generation(notified.generation)
        is_same = before and before.roster.instance_uid == current.roster.instance_uid
        roster = before.roster if before and is_same else None
        return Memory(GenerationMemory(current), NotificationMemory(notified, roster))


def _has_members_of(shown: Roster, newest: Roster, roles: Sequence[str]) -> bool:
    """Return whether the ranks of the generation that is shown are those of the newest one.

    A member that has succeeded since then has a rank in the former only.
    """
    return [role.members for role in shown.roles if role.name in roles] == [
        role.members for role in newest.roles if role.name in roles
    ]
