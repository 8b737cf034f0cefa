"""The choice of the generation that an agent shows next. Pure.

``decision`` has the steps, the invariants and an example.

Rules: docs/design/agents.md, "Choice of a generation".
"""

from typing import List, NamedTuple, Optional, Sequence, Tuple

from framework.agent.gang import index_members
from framework.agent.probes import Probe
from framework.api.roster import Roster
from rendezvous.core.newcomers import list_probes, list_starting
from rendezvous.core.plan import Context, GenerationMemory, Memory, ShowGeneration, Situation
from rendezvous.core.selection import (
    Generation,
    find_obstacle,
    follow_source,
    is_newer,
    is_unordered,
    number_roster,
)

_WAITING_POLL_SECONDS = 0.2
_NAMED_PROBES = 3


class Choice(NamedTuple):
    """The generation to show, or the reason for which none is shown."""

    memory: GenerationMemory
    """The memory if nothing is shown, or showing fails."""
    wait: str = ""
    """The reason of the wait; "" if there is nothing to report."""
    probes: Tuple[Probe, ...] = ()
    """The connections to try before the next decision."""
    show: Optional[ShowGeneration] = None
    """The generation to show; None to keep the current one."""
    applied: Optional[Generation] = None
    """The generation to acknowledge, once it is shown; None if no drain can wait for it."""


def choose_generation(situation: Situation, memory: GenerationMemory) -> Choice:
    """Choose the generation to show."""
    current, selected = memory.current, situation.selected
    obstacle = _find_obstacle(situation, current)
    if obstacle:
        return Choice(memory, wait=obstacle)
    if current is not None and _is_settled(situation, memory, current):
        followed = follow_source(selected, current)
        settled = memory._replace(current=followed, waiting_since=None)
        return Choice(settled, applied=None if followed == current else followed)
    if situation.now < memory.next_show_at:
        return Choice(memory)
    if memory.is_applied and current is not None:
        waiting = _await_members(situation, memory, current.roster)
        if waiting is not None:
            return waiting
        # The wait is over, also if showing fails: the next generation has a wait of its own.
        memory = memory._replace(waiting_since=None)
    return _show(situation, memory)


def start_debounce(memory: Memory, context: Context, now: float) -> Memory:
    """Remember that a generation became current at ``now``: writing it may take seconds."""
    next_show_at = now + context.options.debounce_seconds
    return memory._replace(generations=memory.generations._replace(next_show_at=next_show_at))


def compute_poll_seconds(memory: Memory, longest_seconds: float, now: float) -> float:
    """Compute how long to wait for news before time alone may change the decision."""
    generations = memory.generations
    if generations.is_waiting:
        longest_seconds = min(longest_seconds, _WAITING_POLL_SECONDS)
    left = generations.next_show_at - now
    return min(longest_seconds, left) if left > 0 else longest_seconds


def _find_obstacle(situation: Situation, current: Optional[Generation]) -> str:
    obstacle = find_obstacle(
        situation.roster,
        situation.assessment,
        situation.context.identity,
        was_member=current is not None,
    )
    if not obstacle and current is not None and is_unordered(situation.selected, current):
        return "the API server does not show the ConfigMap any more"
    return obstacle


def _is_settled(situation: Situation, memory: GenerationMemory, current: Generation) -> bool:
    """Return whether there is nothing to show: no news, and no newer generation in the volume."""
    if not memory.is_applied or is_newer(situation.selected, current):
        return False
    observation = situation.observation
    return observation.last_number <= current.number or observation.in_volume is None


def _await_members(
    situation: Situation, memory: GenerationMemory, before: Roster
) -> Optional[Choice]:
    """Hold a generation back until its new members answer, for ``reach_seconds`` at most."""
    after, context, now = situation.roster, situation.context, situation.now
    probes = list_probes(before, after, context.identity, context.options)
    missing = [probe for probe in probes if probe not in situation.observation.reached]
    waits = _list_waits(missing, list_starting(before, after, context.options))
    is_shrinking = bool(index_members(before).keys() - index_members(after).keys())
    since = now if memory.waiting_since is None else memory.waiting_since
    if not waits or is_shrinking or now - since >= context.options.reach_seconds:
        return None
    waiting = memory._replace(waiting_since=since, is_waiting=True)
    return Choice(waiting, wait="; ".join(waits), probes=probes)


def _list_waits(missing: Sequence[Probe], starting: Sequence[str]) -> List[str]:
    waits = []
    if missing:
        named = ", ".join(probe.describe() for probe in missing[:_NAMED_PROBES])
        waits.append(f"{len(missing)} new members do not answer yet: {named}")
    if starting:
        waits.append(f"not all Pods of these roles with new members run yet: {', '.join(starting)}")
    return waits


def _show(situation: Situation, memory: GenerationMemory) -> Choice:
    """Show the roster; or nothing, while this agent's API server lags behind another agent's."""
    selected, observation, current = situation.selected, situation.observation, memory.current
    if current is None or observation.last_number != current.number:
        current = observation.in_volume or current
    if current is None or is_newer(selected, current):
        generation = number_roster(selected, current, observation.last_number)
        show = ShowGeneration(generation, is_new=True)
    elif selected.roster.is_same_gang(current.roster):
        show = ShowGeneration(follow_source(selected, current), is_new=False)
    else:
        return Choice(memory)
    is_silent = _is_only_epoch_new(memory, show.generation.roster)
    return Choice(memory, show=show, applied=None if is_silent else show.generation)


def _is_only_epoch_new(memory: GenerationMemory, after: Roster) -> bool:
    """Return whether only ``recovery`` differs, so that no drain waits for an acknowledgement.

    If each member acknowledged it, a restart in place would take a write for each member.
    """
    if memory.current is None or not memory.is_applied:
        return False
    before = memory.current.roster
    return after._replace(recovery=before.recovery).is_same_gang(before)
