"""Selects the roster that is a candidate for the next generation, and numbers it. Pure.

Only complete generations of this Pod's own attempt are shown, each once, never an older one after a
newer one. The published roster has numbers of its own; a roster that is read from the Framework has
none and is numbered here, so a change of source counts up, too.

Rules: docs/design/agents.md, "Choice of a generation".
"""

from itertools import islice
from typing import NamedTuple, Optional, Union

from framework.agent.gang import (
    SOURCE_CONFIGMAP,
    SOURCE_DNS,
    Assessment,
    Gang,
    Identity,
    Knowledge,
    SelectedRoster,
    explain_other_attempt,
    get_own_configmap,
    is_framework_trusted,
    select_roster,
    walk_missing,
)
from framework.agent.health import Health
from framework.agent.report import join_names, render_missing
from framework.api.constants import READINESS_MAX_MISSING
from framework.api.gangreadiness import GangReadiness
from framework.api.roster import Roster


class NoRoster(NamedTuple):
    """No roster of this attempt was read, for this reason."""

    reason: str


class Generation(NamedTuple):
    """A generation in the volume. Its roster has the number under which it is shown."""

    roster: Roster
    source: str
    source_generation: int

    @property
    def number(self) -> int:
        """The number of the generation."""
        return self.roster.generation


def select_candidate(
    knowledge: Knowledge, gang: Gang, identity: Identity, now: float, *, has_published: bool
) -> Union[SelectedRoster, NoRoster]:
    """Select the roster that the most trusted source gives, complete or not.

    ``has_published`` says whether a published roster of this attempt was read before. Then no other
    source is read, and the last generation stays while the API server is unavailable.
    """
    selected = None
    if not has_published:
        selected = select_roster(knowledge, gang, now)
    else:
        configmap = get_own_configmap(knowledge, gang)
        if configmap is not None and configmap.roster is not None:
            selected = SelectedRoster(configmap.roster, SOURCE_CONFIGMAP)
    if selected is None:
        reason = _explain_configmap(knowledge, gang)
    else:
        reason = explain_other_attempt(selected.roster, identity, selected.source)
        if not reason:
            return selected
    is_framework_read = not has_published and is_framework_trusted(knowledge, gang, now)
    state = knowledge.framework_state if is_framework_read else knowledge.configmap_state
    if state.health in {Health.HEALTHY, Health.STARTING}:
        return NoRoster(reason)
    return NoRoster(f"{state.health.value}: {state.message}")


def find_obstacle(
    roster: Roster, assessment: Assessment, identity: Identity, *, was_member: bool
) -> str:
    """Find the reason for which a roster is not shown; "" if there is none.

    A Pod waits for the first generation with itself in it; once a member, it also shows those that
    go on without it.
    """
    if not assessment.is_complete:
        return _describe_incomplete(roster, was_member=was_member)
    if was_member or assessment.own is not None or assessment.leaving is not None:
        return ""
    return f"{identity.role}/{identity.index} is not in it with this Pod yet"


def is_of_attempt(generation: Generation, identity: Identity) -> bool:
    """Return whether a generation is of this Pod's attempt, as far as that is known."""
    uid = identity.instance_uid
    is_unknown = not uid or generation.source == SOURCE_DNS  # DNS knows no attempts
    return is_unknown or generation.roster.instance_uid == uid


def is_newer(selected: SelectedRoster, current: Optional[Generation]) -> bool:
    """Return whether a roster is newer than the current generation."""
    if current is None:
        return True
    if selected.roster.is_same_gang(current.roster):
        # From another source, or published again: nothing to show, though the number may differ.
        return False
    if selected.source == current.source == SOURCE_CONFIGMAP:
        return selected.roster.generation > current.source_generation
    return True


def is_unordered(selected: SelectedRoster, current: Generation) -> bool:
    """Return whether a roster without a number comes after a published one.

    It may be older: an agent that restarts while the ConfigMap is unavailable would go back to an
    older gang.
    """
    return selected.source != SOURCE_CONFIGMAP and current.source == SOURCE_CONFIGMAP


def follow_source(selected: SelectedRoster, current: Generation) -> Generation:
    """Take over the newest number of the source, if it has the gang that is already shown."""
    if selected.source != SOURCE_CONFIGMAP or not selected.roster.is_same_gang(current.roster):
        return current
    seen = current.source_generation if current.source == SOURCE_CONFIGMAP else 0
    if selected.roster.generation <= seen:
        return current
    return current._replace(source=SOURCE_CONFIGMAP, source_generation=selected.roster.generation)


def number_roster(
    selected: SelectedRoster, current: Optional[Generation], last_number: int
) -> Generation:
    """Give a roster its number: the published number, if that counts up.

    ``last_number`` is that of the current generation, also if another program wrote it.
    """
    floor = max(last_number, current.number if current else 0) + 1
    number = max(selected.roster.generation, floor)
    roster = selected.roster._replace(generation=number)
    return Generation(roster, selected.source, selected.roster.generation)


def _describe_incomplete(roster: Roster, *, was_member: bool) -> str:
    """Describe the Tasks that are missing.

    Of a gang that was complete before, a Task may have succeeded and not be concluded yet: the
    roster does not distinguish it from a Task whose next Pod is starting.
    """
    text = f"{roster.ready}/{roster.wanted} Tasks are there"
    listed = tuple(islice(walk_missing(roster), READINESS_MAX_MISSING))
    if not listed:
        return f"{text}, and the controller does not call the gang complete yet"
    names = join_names([str(task) for task in listed], roster.wanted - roster.ready)
    return f"{text} ({'ended or starting' if was_member else 'missing'}: {names})"


def _explain_configmap(knowledge: Knowledge, gang: Gang) -> str:
    configmap = get_own_configmap(knowledge, gang)
    if knowledge.configmap is None:
        return "nothing is known of this attempt yet"
    if configmap is None:
        return "the ConfigMap seen is of another attempt"
    if configmap.problem:
        return f"the published roster is unreadable: {configmap.problem}"
    return _describe_readiness(configmap.readiness)


def _describe_readiness(readiness: Optional[GangReadiness]) -> str:
    if readiness is None:
        return "the gang is not complete"
    text = f"{readiness.ready}/{readiness.total} Tasks are there"
    return f"{text}; missing: {render_missing(readiness)}" if readiness.missing else text
