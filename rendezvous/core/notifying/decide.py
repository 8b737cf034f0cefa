"""The notifications of processes: failures, departures, generations, the drain, the end. Pure.

Each function decides with the memory of the functions before it. Processes are notified of each
event once; ``Notified`` has the events so far.

Rules: docs/design/agents.md, "Notifications".
"""

from typing import List, Optional, Sequence, Tuple

from framework.agent.report import join_names
from framework.api.roster import Roster
from rendezvous.core.notifying.departures import Departure, find_departures
from rendezvous.core.notifying.diff import Diff, compute_diff
from rendezvous.core.notifying.failures import MemberFailure, find_failures
from rendezvous.core.notifying.notification import (
    CHANGED,
    COMPLETING,
    FAILED,
    LEAVING,
    PEER_LEAVING,
    Notified,
    Notify,
)
from rendezvous.core.plan import (
    Action,
    EndCommand,
    Log,
    Memory,
    RecordDepartures,
    RecordFailures,
    RecordNotified,
    Situation,
    Steps,
)

_NAMED_MEMBERS = 3


def notify_failures(situation: Situation, memory: Memory) -> Steps:
    """Notify of members that failed, before the generation without them is shown."""
    roster, last = situation.roster, memory.notifications.last
    failures = find_failures(roster, memory.notifications.roster, situation.context.identity)
    new = tuple(failure for failure in failures if failure.since > last.failed)
    if not new:
        return Steps((), memory)
    last = last._replace(failed=max(failure.since for failure in new))
    actions = (
        RecordFailures(roster.instance_uid, failures),
        Notify(FAILED, _build_empty_diff(memory), failed=new),
        RecordNotified(last),
        Log(f"failed: {_name_failures(new)}"),
    )
    return Steps(actions, _remember(memory, last))


def notify_departures(situation: Situation, memory: Memory) -> Steps:
    """Record the Pods that leave; notify of peers, if there is no generation without them."""
    roster, notifications = situation.roster, memory.notifications
    departures = find_departures(
        roster, situation.assessment.leaving, notifications.roster, situation.context.identity
    )
    if departures == notifications.departures:
        return Steps((), memory)
    record = RecordDepartures(roster.instance_uid, departures)
    memory = memory._replace(notifications=notifications._replace(departures=departures))
    new = tuple(peer for peer in departures.peers if peer.since > notifications.last.peers_leaving)
    if not new or departures.own is not None:
        # The event ``leaving`` notifies a Pod that leaves itself. The file has its peers.
        return Steps((record,), memory)
    return Steps((record,), memory).followed_by(_notify_peers(new, memory))


def notify_generation(situation: Situation, memory: Memory, shown: Optional[Roster]) -> Steps:
    """Notify of the generation that is shown, and of the drain of this Pod.

    If ``shown`` is None, notify only of the drain. If both are due, the event of the drain has the
    difference, and there is no event for the generation.
    """
    before, leaving = memory.notifications.last, situation.assessment.leaving
    last, diff = before, _build_empty_diff(memory)
    if shown is not None:
        last = last._replace(generation=shown.generation)
        diff = compute_diff(memory.notifications.roster, shown)
        memory = memory._replace(notifications=memory.notifications._replace(roster=shown))
    actions: List[Action] = []
    if leaving is not None and before.leaving != leaving.deadline:
        last = last._replace(leaving=leaving.deadline)
        actions.append(Notify(LEAVING, diff, leaving.deadline))
    elif not diff.is_empty:
        actions.append(Notify(CHANGED, diff))
    if last != before:
        actions.append(RecordNotified(last))
    return Steps(tuple(actions), _remember(memory, last))


def notify_end(situation: Situation, memory: Memory) -> Steps:
    """Notify of the end of the attempt, and end the command."""
    notifications = memory.notifications
    if not situation.assessment.is_completing or notifications.has_completed:
        return Steps((), memory)
    memory = memory._replace(notifications=notifications._replace(has_completed=True))
    last = notifications.last
    if last.completing:
        return Steps((EndCommand(),), memory)
    last = last._replace(completing=True)
    notify = Notify(COMPLETING, _build_empty_diff(memory))
    return Steps((notify, RecordNotified(last), EndCommand()), _remember(memory, last))


def _notify_peers(peers: Tuple[Departure, ...], memory: Memory) -> Steps:
    last = memory.notifications.last._replace(peers_leaving=max(peer.since for peer in peers))
    deadline = min(peer.deadline for peer in peers)
    names = [f"{peer.role}/{peer.index}" for peer in peers[:_NAMED_MEMBERS]]
    actions = (
        Notify(PEER_LEAVING, _build_empty_diff(memory), deadline, leaving=peers),
        RecordNotified(last),
        Log(f"leaving until {deadline}: {join_names(names, len(peers))}"),
    )
    return Steps(actions, _remember(memory, last))


def _remember(memory: Memory, last: Notified) -> Memory:
    return memory._replace(notifications=memory.notifications._replace(last=last))


def _build_empty_diff(memory: Memory) -> Diff:
    """Build the difference of an event that is not about a new generation."""
    known = memory.notifications.roster
    generation = known.generation if known is not None else 0
    return Diff(generation, generation, (), (), ())


def _name_failures(failures: Sequence[MemberFailure]) -> str:
    names = [
        f"{f.role}/{f.index}" + ("" if f.code is None else f" ({f.reason}, code {f.code})")
        for f in failures[:_NAMED_MEMBERS]
    ]
    return join_names(names, len(failures))
