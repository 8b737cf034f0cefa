"""What the agent does next: a pure function of what it observed and what it remembers.

``decide`` takes these steps:

1. Without a roster of this attempt: report what is waited for.
2. With a roster that may not be shown (incomplete, without this Pod, or without a number after one
   that had a number): report what is waited for.
3. With the gang that is shown already: acknowledge it under its newest number, nothing else.
4. Within the debounce time after a generation: nothing. The newest roster at its end is shown.
5. With new members that do not answer on their port yet (FB_REACH), or of a role whose Pods do
   not all run yet (FB_REACH_RUNNING): probe and report, for at most ``reach_seconds``. A generation
   that takes members away is never held back.
6. Else show the roster as the next generation, notify processes of the difference, acknowledge.

Whatever these steps are, processes are notified at once that peers failed, that their Pod is to
leave, that members leave without which the gang is not complete, and that the attempt completes.

Invariants:

- Generations count up, and each is shown once; processes are notified of each difference once, also
  where agents take turns on a volume, because the volume holds what they were notified of.
- Nothing is acknowledged before it is shown, and nothing is notified before it can be read. Except
  by a Pod that leaves a gang which is not complete without it: it acknowledges after it was told.
- ``Plan.then`` assumes that showing has succeeded, ``Plan.otherwise`` that it has failed.

Example: generation 3 is current, and generation 4 removes worker/2. At 10.0 s the plan is to show
generation 4, ``then`` Notify(changed, 3 -> 4), RecordNotified(4), Acknowledge(4). At 10.5 s
generation 5 drains this Pod: before the debounce ends at 12.0 s the plan is Notify(leaving)
only; from then on it is to show generation 5, and Notify(changed, 4 -> 5), Acknowledge(5).
"""

from typing import (
    FrozenSet,
    List,
    Mapping,
    NamedTuple,
    NoReturn,
    Optional,
    Sequence,
    Tuple,
    Union,
)

from framework.agent.gang import (
    SOURCE_CONFIGMAP,
    Assessment,
    Identity,
    SelectedRoster,
    assess,
    index_members,
)
from framework.agent.probes import Probe
from framework.api.roster import Roster
from rendezvous.core.departures import Departures, find_departures
from rendezvous.core.diff import Diff, compute_diff
from rendezvous.core.failures import MemberFailure, find_failures
from rendezvous.core.newcomers import list_probes, list_starting
from rendezvous.core.notification import CHANGED, COMPLETING, FAILED, LEAVING, PEER_LEAVING, Notify
from rendezvous.core.selection import (
    Generation,
    NoRoster,
    find_obstacle,
    follow_source,
    is_newer,
    is_unordered,
    number_roster,
)
from rendezvous.settings.options import WAIT, Options
from rendezvous.settings.unused_settings import list_foreign_roles

_WAIT_LINE_SECONDS = 10.0
_HELD_POLL_SECONDS = 0.2
_NAMED_PROBES = 3
_NAMED_FAILURES = 3


class Context(NamedTuple):
    """What does not change while an agent runs."""

    identity: Identity
    options: Options = Options()
    named_roles: Mapping[str, List[str]] = {}
    """The roles that each setting names."""


class Observation(NamedTuple):
    """What was observed: the gang, and the volume, which other agents of the Pod may write."""

    candidate: Union[SelectedRoster, NoRoster]
    last_number: int
    """The number of the current generation, whatever program wrote it; 0: none."""
    in_volume: Optional[Generation]
    """The current generation, if an agent wrote it for this attempt."""
    reached: FrozenSet[Probe] = frozenset()


class Notified(NamedTuple):
    """What processes were notified of last.

    A generation (0: none), a drain, the end, and the newest generations of which failures and peers
    that leave were notified (0: none).
    """

    generation: int = 0
    leaving: str = ""
    completing: bool = False
    failed: int = 0
    peers_leaving: int = 0


class Memory(NamedTuple):
    """What an agent remembers from one turn to the next. All times are monotonic seconds."""

    current: Optional[Generation] = None
    """The current generation, as far as this agent knows."""
    is_applied: bool = False
    """Whether this agent has shown ``current``: one that starts has not."""
    notified: Notified = Notified()
    """What processes were notified of last."""
    notified_roster: Optional[Roster] = None
    """The roster of ``notified.generation``, for the next difference."""
    next_show_at: float = 0.0
    """Before this time no generation is shown: the debounce."""
    held_since: Optional[float] = None
    """When the agent began to wait for new members to answer."""
    is_held: bool = False
    """Whether the generation is held back for them now."""
    has_completed: bool = False
    """Whether the end of the attempt was handled."""
    departures: Departures = Departures()
    """The Pods that leave, as they were written into the volume."""
    left_generation: int = 0
    """The newest generation without this Pod that was acknowledged and not shown."""
    last_wait: str = ""
    """What was waited for last."""
    next_wait_line_at: float = 0.0
    """Before this time the same wait is not reported again."""


class RecordNotified(NamedTuple):
    """Write into the volume what processes were notified of."""

    notified: Notified


class RecordFailures(NamedTuple):
    """Write the failures into the volume, where training code reads them."""

    instance_uid: str
    failures: Tuple[MemberFailure, ...]


class RecordDepartures(NamedTuple):
    """Write the Pods that leave into the volume, where training code reads them."""

    instance_uid: str
    departures: Departures


class Acknowledge(NamedTuple):
    """Let the controller know that a published generation was applied."""

    generation: int


class EndCommand(NamedTuple):
    """End the training command, because the attempt completes."""


class Report(NamedTuple):
    """Write a line of the log."""

    text: str


class Warn(NamedTuple):
    """Write a warning, once."""

    text: str


Action = Union[
    Notify,
    RecordNotified,
    RecordFailures,
    RecordDepartures,
    Acknowledge,
    EndCommand,
    Report,
    Warn,
]


class Steps(NamedTuple):
    """Actions in their order, and what to remember."""

    actions: Tuple[Action, ...]
    memory: Memory


class ShowGeneration(NamedTuple):
    """Make a generation current; it is written only if it ``is_new``."""

    generation: Generation
    is_new: bool


class Plan(NamedTuple):
    """First ``show``. Then ``then`` if that worked or there is nothing to show, or ``otherwise``.

    With ``probes``, try them and decide again.
    """

    then: Steps
    otherwise: Steps
    show: Optional[ShowGeneration] = None
    probes: Tuple[Probe, ...] = ()


def assert_never(value: NoReturn) -> NoReturn:
    """Have the type checker prove that all kinds of actions are handled."""
    raise AssertionError(f"unhandled: {value!r}")


def decide(observation: Observation, memory: Memory, context: Context, now: float) -> Plan:
    """Decide what to do at ``now``."""
    candidate = observation.candidate
    memory = memory._replace(is_held=False)
    if isinstance(candidate, NoRoster):
        return _plan(_wait(candidate.reason, memory, now))
    assessment = assess(candidate.roster, context.identity, candidate.source)
    foreign = list_foreign_roles(context.named_roles, candidate.roster)
    so_far = Steps(tuple(map(Warn, foreign)), memory)
    so_far = _add(so_far, _notify_failures(candidate.roster, memory, context))
    departures = find_departures(
        candidate.roster, assessment.leaving, memory.notified_roster, context.identity
    )
    so_far = _add(so_far, _notify_departures(candidate.roster, departures, so_far.memory))
    plan = _decide_generation(observation, candidate, assessment, so_far, context, now)
    return plan._replace(
        then=_leave(_notify_at_once(plan.then, assessment), candidate, assessment, context.options),
        otherwise=_notify_at_once(plan.otherwise, assessment),
    )


def start_debounce(memory: Memory, context: Context, now: float) -> Memory:
    """Remember that a generation became current at ``now``: writing it may take seconds."""
    return memory._replace(next_show_at=now + context.options.debounce_seconds)


def compute_poll_seconds(memory: Memory, longest_seconds: float, now: float) -> float:
    """Compute how long to wait for news before time alone may change the decision."""
    seconds = min(longest_seconds, _HELD_POLL_SECONDS) if memory.is_held else longest_seconds
    return min(seconds, memory.next_show_at - now) if memory.next_show_at > now else seconds


def _decide_generation(
    observation: Observation,
    selected: SelectedRoster,
    assessment: Assessment,
    so_far: Steps,
    context: Context,
    now: float,
) -> Plan:
    memory = so_far.memory
    current, roster = memory.current, selected.roster
    obstacle = find_obstacle(roster, assessment, context.identity, was_member=current is not None)
    if not obstacle and current is not None and is_unordered(selected, current):
        obstacle = "the API server does not show the ConfigMap any more"
    if obstacle:
        return _plan(_add(so_far, _wait(obstacle, memory, now)))
    if current is not None and _is_settled(observation, selected, memory):
        return _plan(_add(so_far, _follow(selected, current, memory)))
    if now < memory.next_show_at:
        return _plan(so_far)
    if memory.is_applied and current is not None:
        held = _hold(current.roster, roster, observation.reached, memory, context, now)
        if held is not None:
            return held._replace(then=_add(so_far, held.then), otherwise=so_far)
        # Also where showing fails: the wait was for this generation, not for the next one.
        so_far = so_far._replace(memory=memory._replace(held_since=None))
    show = _choose_generation(observation, selected, memory)
    if show is None:
        return _plan(so_far)
    return Plan(_follow_show(show, assessment, so_far), so_far, show)


def _is_settled(observation: Observation, selected: SelectedRoster, memory: Memory) -> bool:
    """Return whether there is nothing to show: no news, and no other agent has come further."""
    current = memory.current
    if current is None or not memory.is_applied or is_newer(selected, current):
        return False
    return observation.last_number <= current.number or observation.in_volume is None


def _follow(selected: SelectedRoster, current: Generation, memory: Memory) -> Steps:
    memory = memory._replace(held_since=None)
    followed = follow_source(selected, current)
    if followed == current:
        return Steps((), memory)
    return Steps(_acknowledge(followed), memory._replace(current=followed))


def _hold(
    before: Roster,
    after: Roster,
    reached: FrozenSet[Probe],
    memory: Memory,
    context: Context,
    now: float,
) -> Optional[Plan]:
    """Hold a generation back until its new members answer, or for so long."""
    probes = list_probes(before, after, context.identity, context.options)
    missing = [probe for probe in probes if probe not in reached]
    waits = _list_waits(missing, list_starting(before, after, context.options))
    is_shrinking = bool(index_members(before).keys() - index_members(after).keys())
    since = now if memory.held_since is None else memory.held_since
    if not waits or is_shrinking or now - since >= context.options.reach_seconds:
        return None
    steps = _wait("; ".join(waits), memory._replace(held_since=since, is_held=True), now)
    return Plan(steps, steps, probes=probes)


def _list_waits(missing: Sequence[Probe], starting: Sequence[str]) -> List[str]:
    waits = []
    if missing:
        named = ", ".join(probe.describe() for probe in missing[:_NAMED_PROBES])
        waits.append(f"{len(missing)} new members do not answer yet: {named}")
    if starting:
        waits.append(f"not all Pods of these roles with new members run yet: {', '.join(starting)}")
    return waits


def _choose_generation(
    observation: Observation, selected: SelectedRoster, memory: Memory
) -> Optional[ShowGeneration]:
    """Choose what to show; None while this agent's API server lags behind another agent's."""
    current = memory.current
    if current is None or observation.last_number != current.number:
        current = observation.in_volume or current
    if current is not None and not is_newer(selected, current):
        if not selected.roster.is_same_gang(current.roster):
            return None
        return ShowGeneration(follow_source(selected, current), is_new=False)
    return ShowGeneration(number_roster(selected, current, observation.last_number), is_new=True)


def _follow_show(show: ShowGeneration, assessment: Assessment, so_far: Steps) -> Steps:
    """Notify of a generation and acknowledge it: in this order."""
    memory, roster = so_far.memory, show.generation.roster
    diff = compute_diff(memory.notified_roster, roster)
    notified = memory.notified._replace(generation=roster.generation)
    actions: List[Action] = []
    leaving = assessment.leaving
    if leaving is not None and notified.leaving != leaving.deadline:
        notified = notified._replace(leaving=leaving.deadline)
        actions.append(Notify(LEAVING, diff, leaving.deadline))
    elif not diff.is_empty:
        actions.append(Notify(CHANGED, diff))
    if notified != memory.notified:
        actions.append(RecordNotified(notified))
    if not (memory.is_applied and _is_only_epoch_new(memory.current, roster)):
        actions += _acknowledge(show.generation)
    memory = memory._replace(
        current=show.generation,
        is_applied=True,
        notified=notified,
        notified_roster=roster,
    )
    return _add(so_far, Steps(tuple(actions), memory))


def _notify_at_once(steps: Steps, assessment: Assessment) -> Steps:
    """Notify of a drain and of the end, also in a generation that is not shown."""
    memory, notified = steps.memory, steps.memory.notified
    generation = memory.notified_roster.generation if memory.notified_roster else 0
    same = Diff(generation, generation, (), (), ())
    actions: List[Action] = []
    leaving = assessment.leaving
    if leaving is not None and notified.leaving != leaving.deadline:
        notified = notified._replace(leaving=leaving.deadline)
        actions += [Notify(LEAVING, same, leaving.deadline), RecordNotified(notified)]
    if assessment.is_completing and not memory.has_completed:
        if not notified.completing:
            notified = notified._replace(completing=True)
            actions += [Notify(COMPLETING, same), RecordNotified(notified)]
        actions.append(EndCommand())
        memory = memory._replace(has_completed=True)
    return Steps((*steps.actions, *actions), memory._replace(notified=notified))


def _leave(
    steps: Steps, selected: SelectedRoster, assessment: Assessment, options: Options
) -> Steps:
    """Acknowledge a generation without this Pod that is not shown, after it was notified.

    It is not complete, so the peers keep their generation, and acknowledge nothing. With
    FB_ON_LEAVING=wait, nothing is acknowledged: the process has time until its deadline.
    """
    roster, memory = selected.roster, steps.memory
    if assessment.leaving is not None and options.on_leaving == WAIT:
        kept = (action for action in steps.actions if not isinstance(action, Acknowledge))
        return Steps(tuple(kept), memory)
    is_known = roster.complete or roster.generation <= memory.left_generation
    if assessment.leaving is None or is_known or selected.source != SOURCE_CONFIGMAP:
        return steps
    memory = memory._replace(left_generation=roster.generation)
    return Steps((*steps.actions, Acknowledge(roster.generation)), memory)


def _notify_departures(roster: Roster, departures: Departures, memory: Memory) -> Steps:
    """Notify of members that leave, each once, if there is no generation without them."""
    if departures == memory.departures:
        return Steps((), memory)
    memory = memory._replace(departures=departures)
    actions: List[Action] = [RecordDepartures(roster.instance_uid, departures)]
    known, notified = memory.notified_roster, memory.notified
    new = tuple(peer for peer in departures.peers if peer.since > notified.peers_leaving)
    # A Pod that leaves itself is told that; the others are in the file.
    if known is not None and new and departures.own is None:
        notified = notified._replace(peers_leaving=max(peer.since for peer in new))
        same = Diff(known.generation, known.generation, (), (), ())
        deadline = min(peer.deadline for peer in new)
        named = ", ".join(f"{peer.role}/{peer.index}" for peer in new[:_NAMED_FAILURES])
        more = f" and {len(new) - _NAMED_FAILURES} more" if len(new) > _NAMED_FAILURES else ""
        actions += [
            Notify(PEER_LEAVING, same, deadline, leaving=new),
            RecordNotified(notified),
            Report(f"leaving until {deadline}: {named}{more}"),
        ]
    return Steps(tuple(actions), memory._replace(notified=notified))


def _notify_failures(roster: Roster, memory: Memory, context: Context) -> Steps:
    """Notify of members that failed, each once, before the generation without them is shown."""
    known, notified = memory.notified_roster, memory.notified
    failures = find_failures(roster, known, context.identity)
    new = tuple(failure for failure in failures if failure.since > notified.failed)
    if known is None or not new:
        return Steps((), memory)
    notified = notified._replace(failed=max(failure.since for failure in new))
    same = Diff(known.generation, known.generation, (), (), ())
    actions = (
        RecordFailures(roster.instance_uid, failures),
        Notify(FAILED, same, failed=new),
        RecordNotified(notified),
        Report(f"failed: {_name_failures(new)}"),
    )
    return Steps(actions, memory._replace(notified=notified))


def _name_failures(failures: Sequence[MemberFailure]) -> str:
    named = [
        f"{f.role}/{f.index}" + ("" if f.code is None else f" ({f.reason}, code {f.code})")
        for f in failures[:_NAMED_FAILURES]
    ]
    more = len(failures) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def _is_only_epoch_new(before: Optional[Generation], after: Roster) -> bool:
    """Return whether no drain waits for the acknowledgement of a generation: only recovery differs.

    Acknowledged by each member, a restart in place would take a write per member.
    """
    return before is not None and after._replace(recovery=before.roster.recovery).is_same_gang(
        before.roster
    )


def _acknowledge(generation: Generation) -> Tuple[Action, ...]:
    if generation.source != SOURCE_CONFIGMAP:
        return ()
    return (Acknowledge(generation.source_generation),)


def _wait(message: str, memory: Memory, now: float) -> Steps:
    """Report what is waited for: when it changes, and until a generation is shown now and then."""
    is_same = message == memory.last_wait
    if is_same and (memory.is_applied or now < memory.next_wait_line_at):
        return Steps((), memory)
    kept = "; the last complete list of members is kept" if memory.is_applied else ""
    memory = memory._replace(last_wait=message, next_wait_line_at=now + _WAIT_LINE_SECONDS)
    return Steps((Report(f"waiting: {message}{kept}"),), memory)


def _add(first: Steps, second: Steps) -> Steps:
    return Steps(first.actions + second.actions, second.memory)


def _plan(steps: Steps) -> Plan:
    return Plan(steps, steps)
