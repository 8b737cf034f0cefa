"""Which generation is shown next, and under which number. Pure.

Called by ``following`` and ``agent`` after everything that was read. Only complete generations of
this Pod's own attempt are shown, each once, never an older one after a newer one. The published
roster has numbers of its own; what is read from the Framework has none and is numbered here, so
that also a change of source only ever counts up. Rules:
docs/design/agents.md, "Choice of a generation".
"""

from itertools import islice
from typing import Iterator, NamedTuple, Optional, Union

from framework.agent import gang
from framework.agent.framework_roster import FrameworkView
from framework.agent.report import render_missing
from framework.agent.sources import AttemptConfigMap
from framework.api.constants import PROGRESS_MAX_MISSING
from framework.api.roster import PHASE_COMPLETING, Leaving, Progress, Roster, fingerprint_uid
from rendezvous.core.target import Identity

PUBLISHED = gang.SOURCE_CONFIGMAP
READ = gang.SOURCE_FRAMEWORK


class Sight(NamedTuple):
    """A roster of this attempt as a source tells it now, complete or not."""

    roster: Roster
    source: str


class Wait(NamedTuple):
    """There is no roster of this attempt: why."""

    message: str


class Shown(NamedTuple):
    """What is in the volume. ``roster`` bears the number under which it is shown."""

    roster: Roster
    source: str
    source_generation: int

    @property
    def number(self) -> int:
        """The number of the generation."""
        return self.roster.generation


def select_sight(
    configmap: Optional[AttemptConfigMap],
    view: Optional[FrameworkView],
    identity: Identity,
    configmap_uid: str,
) -> Union[Sight, Wait]:
    """Take the published roster, else (given only where there can be none) the Framework's."""
    if view is not None:
        return _check_attempt(Sight(view.roster, READ), identity)
    if configmap is None:
        return Wait("nothing is known of this attempt yet")
    if configmap_uid and configmap.uid != configmap_uid:
        return Wait("the ConfigMap seen is of another attempt")
    if configmap.problem:
        return Wait(f"the published roster is unreadable: {configmap.problem}")
    if configmap.roster is None:
        return Wait(_describe_progress(configmap.progress))
    return _check_attempt(Sight(configmap.roster, PUBLISHED), identity)


def find_obstacle(roster: Roster, identity: Identity, *, was_member: bool) -> str:
    """Say why a roster is not shown; "" if it is.

    A Pod waits for the first generation with itself in it; once a member, it also shows those that
    go on without it.
    """
    if not gang.is_complete(roster):
        return _describe_incomplete(roster, was_member=was_member)
    if was_member or is_member(roster, identity) or find_leaving(roster, identity) is not None:
        return ""
    return f"{identity.role}/{identity.index} is not in it with this Pod yet"


def is_member(roster: Roster, identity: Identity) -> bool:
    """Return whether this very Pod is a member."""
    member = gang.find_own_member(roster, identity.role, identity.index, identity.pod_uid)
    return member is not None


def find_leaving(roster: Roster, identity: Identity) -> Optional[Leaving]:
    """Find this Pod's own entry among those that leave."""
    fingerprint = fingerprint_uid(identity.pod_uid) if identity.pod_uid else ""
    for leaving in roster.leaving:
        is_own = (leaving.role, leaving.index) == (identity.role, identity.index)
        if is_own and fingerprint in {"", leaving.fingerprint}:
            return leaving
    return None


def is_completing(roster: Roster) -> bool:
    """Return whether the attempt comes to its end."""
    return roster.phase == PHASE_COMPLETING


def is_news(sight: Sight, shown: Optional[Shown]) -> bool:
    """Return whether a roster is newer than what is shown."""
    if shown is None:
        return True
    if sight.roster.is_same_gang(shown.roster):
        # Of another source, or told again: nothing to show, whatever its number.
        return False
    if sight.source == PUBLISHED and shown.source == PUBLISHED:
        return sight.roster.generation > shown.source_generation
    return True


def adopt_source(sight: Sight, shown: Shown) -> Shown:
    """Note how far the source has come where it tells the gang that is shown already."""
    if sight.source != PUBLISHED or not sight.roster.is_same_gang(shown.roster):
        return shown
    seen = shown.source_generation if shown.source == PUBLISHED else 0
    if sight.roster.generation <= seen:
        return shown
    return shown._replace(source=PUBLISHED, source_generation=sight.roster.generation)


def number_sight(sight: Sight, shown: Optional[Shown], last_number: int) -> Shown:
    """Give a roster its number: the published one where that counts up.

    ``last_number`` is the highest there ever was in the volume, whoever wrote it.
    """
    floor = max(last_number, shown.number if shown else 0) + 1
    number = max(sight.roster.generation, floor)
    roster = sight.roster._replace(generation=number)
    return Shown(roster, sight.source, sight.roster.generation)


def _describe_incomplete(roster: Roster, *, was_member: bool) -> str:
    """Say who is not there.

    Of a gang that was complete before, a Task may have succeeded and not be concluded yet: the
    roster cannot tell it from one whose next Pod is on its way.
    """
    text = f"{roster.ready}/{roster.wanted} Tasks are there"
    listed = list(islice(_walk_missing(roster), PROGRESS_MAX_MISSING))
    if not listed:
        return f"{text}, and the controller does not call the gang complete yet"
    names = ", ".join(listed)
    more = roster.wanted - roster.ready - len(listed)
    if more > 0:
        names = f"{names} and {more} more"
    return f"{text} ({'ended or starting' if was_member else 'missing'}: {names})"


def _walk_missing(roster: Roster) -> Iterator[str]:
    """Walk the wanted Tasks that are neither members nor completed."""
    for role in roster.roles:
        known = {member.index for member in role.members} | set(role.absent)
        known.update(completed.index for completed in role.completed)
        for index in range(role.wanted + len(role.absent)):
            if index not in known:
                yield f"{role.name}/{index}"


def _describe_progress(progress: Optional[Progress]) -> str:
    """Say how far the gang is, and who holds it up."""
    if progress is None:
        return "the gang is not complete"
    text = f"{progress.ready}/{progress.total} Tasks are there"
    return f"{text}; missing: {render_missing(progress)}" if progress.missing else text


def _check_attempt(sight: Sight, identity: Identity) -> Union[Sight, Wait]:
    other = gang.explain_other_attempt(sight.roster, identity.instance_uid)
    return Wait(other) if other else sight
