"""The next plan of the agent: a pure function of its observation and its memory.

``decide`` takes these steps:

1. Without a roster of this attempt: report the reason of the wait.
2. With a roster that may not be shown (incomplete, without this Pod, or without a number after a
   roster with a number): report the reason of the wait.
3. With the gang that is shown already: acknowledge it under its newest number.
4. Within the debounce time after a generation: nothing. The newest roster at its end is shown.
5. With new members that do not answer on their port yet (FB_REACH), or of a role whose Pods do
   not all run yet (FB_REACH_RUNNING): probe and report, for at most ``reach_seconds``. A generation
   that removes members is never held back.
6. Else show the roster as the next generation, notify processes of the difference, acknowledge.

In each of the steps 2 to 6, processes are notified at once that peers failed, that their Pod is to
leave, that members leave without which the gang is not complete, and that the attempt completes.

Invariants:

- Generations count up, and each is shown once; processes are notified of each difference once, also
  if agents take turns on a volume, because the volume has the last notifications.
- Nothing is acknowledged before it is shown, and nothing is notified before it can be read. The
  exception is a Pod that leaves a gang which is not complete without it: it acknowledges after its
  processes were notified.
- ``Plan.then`` assumes that showing has succeeded, ``Plan.otherwise`` that it has failed.

Example: generation 3 is current, and generation 4 removes worker/2. At 10.0 s the plan is to show
generation 4, ``then`` Notify(changed, 3 -> 4), RecordNotified(4), Acknowledge(4). At 10.5 s
generation 5 drains this Pod: before the debounce ends at 12.0 s the plan is Notify(leaving)
only; from then on it is to show generation 5, and Notify(changed, 4 -> 5), Acknowledge(5).

``generations`` has the steps 2 to 6, ``notifying`` the notifications, ``plan`` the types.

Rules: docs/design/agents.md, "Choice of a generation".
"""

from typing import Optional

from framework.agent.gang import SOURCE_CONFIGMAP, assess
from rendezvous.core.generations import Choice, choose_generation
from rendezvous.core.notifying.decide import (
    notify_departures,
    notify_end,
    notify_failures,
    notify_generation,
)
from rendezvous.core.plan import (
    Acknowledge,
    Context,
    Log,
    Memory,
    Observation,
    Plan,
    Situation,
    Steps,
    Warn,
)
from rendezvous.core.selection import Generation, NoRoster
from rendezvous.settings.options import WAIT
from rendezvous.settings.unused_settings import list_foreign_roles

_WAIT_LINE_SECONDS = 10.0


def decide(observation: Observation, memory: Memory, context: Context, now: float) -> Plan:
    """Decide what to do at ``now``."""
    memory = memory._replace(generations=memory.generations._replace(is_waiting=False))
    selected = observation.candidate
    if isinstance(selected, NoRoster):
        steps = _report_wait(selected.reason, memory, now)
        return Plan(steps, steps)
    assessment = assess(selected.roster, context.identity, selected.source)
    situation = Situation(selected, assessment, observation, context, now)
    foreign = list_foreign_roles(context.named_roles, selected.roster)
    steps = Steps(tuple(map(Warn, foreign)), memory)
    steps = steps.followed_by(notify_failures(situation, steps.memory))
    steps = steps.followed_by(notify_departures(situation, steps.memory))
    choice = choose_generation(situation, steps.memory.generations)
    steps = steps._replace(memory=steps.memory._replace(generations=choice.memory))
    if choice.wait:
        steps = steps.followed_by(_report_wait(choice.wait, steps.memory, now))
    then = _apply(choice, situation, steps)
    if choice.show is None:
        return Plan(then, then, probes=choice.probes)
    otherwise = steps.followed_by(notify_generation(situation, steps.memory, None))
    otherwise = otherwise.followed_by(notify_end(situation, otherwise.memory))
    return Plan(then, otherwise, choice.show)


def _apply(choice: Choice, situation: Situation, steps: Steps) -> Steps:
    """Continue after the generation is shown, or because none is shown."""
    shown = None
    if choice.show is not None:
        current = choice.show.generation
        shown = current.roster
        generations = choice.memory._replace(current=current, is_applied=True)
        steps = steps._replace(memory=steps.memory._replace(generations=generations))
    steps = steps.followed_by(notify_generation(situation, steps.memory, shown))
    steps = steps.followed_by(_acknowledge(choice.applied, situation, steps.memory))
    steps = steps.followed_by(notify_end(situation, steps.memory))
    return steps.followed_by(_acknowledge_departure(situation, steps.memory))


def _acknowledge(applied: Optional[Generation], situation: Situation, memory: Memory) -> Steps:
    if applied is None or applied.source != SOURCE_CONFIGMAP or _keeps_process(situation):
        return Steps((), memory)
    return Steps((Acknowledge(applied.source_generation),), memory)


def _acknowledge_departure(situation: Situation, memory: Memory) -> Steps:
    """Acknowledge a generation without this Pod that is not shown, after it was notified.

    It is not complete, so the peers keep their generation, and acknowledge nothing.
    """
    roster, generations = situation.roster, memory.generations
    is_leaving = situation.assessment.leaving is not None and not _keeps_process(situation)
    is_known = roster.complete or roster.generation <= generations.left_generation
    if not is_leaving or is_known or situation.selected.source != SOURCE_CONFIGMAP:
        return Steps((), memory)
    generations = generations._replace(left_generation=roster.generation)
    memory = memory._replace(generations=generations)
    return Steps((Acknowledge(roster.generation),), memory)


def _keeps_process(situation: Situation) -> bool:
    """Return whether the process of this Pod, which leaves, has time until its deadline.

    Then nothing is acknowledged (FB_ON_LEAVING=wait).
    """
    is_leaving = situation.assessment.leaving is not None
    return is_leaving and situation.context.options.on_leaving == WAIT


def _report_wait(reason: str, memory: Memory, now: float) -> Steps:
    """Report a wait if its reason is new; before the first generation, also now and then."""
    is_applied = memory.generations.is_applied
    if reason == memory.last_wait and (is_applied or now < memory.next_wait_line_at):
        return Steps((), memory)
    kept = "; the last complete list of members is kept" if is_applied else ""
    memory = memory._replace(last_wait=reason, next_wait_line_at=now + _WAIT_LINE_SECONDS)
    return Steps((Log(f"waiting: {reason}{kept}"),), memory)
