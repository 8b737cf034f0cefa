"""Pods that do not come to the start barrier of an epoch in time: their Tasks end.

1. The start barrier is waited for as soon as a complete roster is published of which all members
   run. The time is stored (``follow_start``), for users.
2. The agent of the lowest rank serves it. It reports that the start barrier has released its
   members, which is stored; or, after its own deadline, which Pods have not come: these are late.
3. If it reports nothing, an agent that waits names the serving Pod: this one is late.
4. If no agent reports anything about the start barrier, the first member of the first role is late.
5. A Pod that is refused, and does not end, is late, too.

Invariants:

- Only a complete gang with the stored epoch in its roster has late members.
- Only reports about the newest since and the stored epoch are read. The first member of a role may
  name any members. Another member may name the first member of a role only.
- Nobody is late for a start barrier that has released its members, also after the Pod that reported
  it is gone.
- Before a report of an agent of the attempt, nobody is late: its containers may be started without
  an agent, or by one of an older release, or the agents have no right to report.
- A change of the wall clock makes nobody late: this controller measures how long it has waited.

Example: epoch 5 is published, and worker 2 hangs in the kernel. The agent of worker 0 reports
``7 5 89abcdef``. The Task of worker 2 ends with -270, and its retry policy decides.

Rules: docs/design/recovery.md, "Steps".
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from controller.core.draft import Draft
from controller.core.recovery.restartable_pods import find_live_pod
from controller.core.waits import Wait
from framework.api.constants import EPOCH_STARTED_ANNOTATION
from framework.api.epochreports import (
    SERVER_SECONDS,
    START_SECONDS,
    parse_start,
)
from framework.api.pods import PodPhase, PodView
from framework.api.recovery import RecoveryStatus, StartBarrierStatus
from framework.api.roster import RoleRoster, RosterRecovery, fingerprint_uid

DIAGNOSTICS = "The Pod did not come to the start barrier of the epoch in time"
# Longer than the deadlines of the agents: it applies only if no agent reports anything.
DEADLINE_SECONDS = 900
# Agents whose report is refused end at once.
REFUSED_SECONDS = 600
_START, _REFUSED = "start", "refused"


class _Awaited(NamedTuple):
    """The published start barrier, of a complete gang of which all members run."""

    recovery: RosterRecovery
    roles: Sequence[RoleRoster]
    """The roles that take part."""

    @property
    def firsts(self) -> list[str]:
        """The fingerprints of the first members of the roles. Only agents know which has rank 0."""
        return [member.fingerprint for role in self.roles for member in role.members[:1]]

    @property
    def is_full(self) -> bool:
        """Whether all wanted Pods run, so that the agents measure their deadline since then."""
        return all(role.running for role in self.roles)


class _Reports(NamedTuple):
    """What Pods report about the published start barrier."""

    has_started: bool
    by_firsts: frozenset[str]
    """Pods that the first members of roles name."""
    by_others: frozenset[str]
    """First members of roles that other members name."""


def follow_start(draft: Draft, recovery: RecoveryStatus) -> RecoveryStatus:
    """Put into the status which start barrier is waited for, and what started."""
    awaited = _find_awaited(draft)
    if awaited is None:
        return recovery
    known, since, epoch = recovery.start_barrier, awaited.recovery.since, awaited.recovery.epoch
    if known is None or known.since != since:
        is_served = known is not None and known.is_served
        known = StartBarrierStatus(since, draft.now, is_served=is_served)
    if known.started_epoch != epoch:
        if _read_reports(draft, awaited).has_started:
            known = replace(known, started_epoch=epoch, is_served=True)
        else:
            _measure(draft, awaited)
    return replace(recovery, start_barrier=known)


def is_late(draft: Draft, pod: PodView) -> bool:
    """Return whether a live Pod is late for the current epoch."""
    if draft.late is None:
        draft.late = frozenset(_find_late(draft))
    return bool(draft.late) and fingerprint_uid(pod.uid) in draft.late


def _find_late(draft: Draft) -> Iterable[str]:
    recovery = draft.status.attempt_status.recovery
    if recovery is None or draft.is_completing:
        return ()
    refused = recovery.refused if _have_refused_stayed(draft, recovery) else ()
    awaited, barrier = _find_awaited(draft), recovery.start_barrier
    if awaited is None or barrier is None or barrier.started_epoch == recovery.epoch:
        return refused
    if awaited.recovery[:2] != (recovery.epoch, barrier.since):
        return refused
    return {*refused, *_find_missing(draft, awaited, is_served=barrier.is_served)}


def _have_refused_stayed(draft: Draft, recovery: RecoveryStatus) -> bool:
    if not recovery.refused:
        return False
    wait = _build_wait(draft, 0, recovery.epoch, _REFUSED)
    return draft.has_waited(wait, REFUSED_SECONDS)


def _find_missing(draft: Draft, awaited: _Awaited, *, is_served: bool) -> Iterable[str]:
    """Find the Pods that have not come to the start barrier in time."""
    reports = _read_reports(draft, awaited)
    if reports.has_started:
        return ()
    waited = _measure(draft, awaited)
    if reports.by_firsts and (awaited.is_full or START_SECONDS in waited):
        return reports.by_firsts
    if reports.by_others and SERVER_SECONDS in waited:
        return reports.by_others
    # An epoch after the first one answers reports, so there are agents.
    is_served = is_served or awaited.recovery.epoch > 0
    return awaited.firsts[:1] if is_served and DEADLINE_SECONDS in waited else ()


def _measure(draft: Draft, awaited: _Awaited) -> list[float]:
    """List the deadlines that are over."""
    wait = _build_wait(draft, awaited.recovery.since, awaited.recovery.epoch, _START)
    deadlines = START_SECONDS, SERVER_SECONDS, DEADLINE_SECONDS
    return [seconds for seconds in deadlines if draft.has_waited(wait, seconds)]


def _build_wait(draft: Draft, since: int, epoch: int, subject: str) -> Wait:
    return Wait(draft.status.attempt_status.instance_uid or "", since, epoch, subject)


def _find_awaited(draft: Draft) -> _Awaited | None:
    published = draft.snapshot.published.roster
    if published is None or published.recovery is None or not published.complete:
        return None
    names = published.recovery.roles
    awaited = _Awaited(published.recovery, [r for r in published.roles if r.name in names])
    return awaited if awaited.is_full or _do_members_run(draft, awaited) else None


def _do_members_run(draft: Draft, awaited: _Awaited) -> bool:
    tasks = {role.name: {task.index: task for task in role.tasks} for role in draft.roles}
    pods = (
        find_live_pod(draft, task) if task else None
        for role in awaited.roles
        for task in (tasks.get(role.name, {}).get(member.index) for member in role.members)
    )
    return all(pod is not None and pod.phase is PodPhase.RUNNING for pod in pods)


def _read_reports(draft: Draft, awaited: _Awaited) -> _Reports:
    members = {member.fingerprint for role in awaited.roles for member in role.members}
    firsts = frozenset(awaited.firsts)
    target = awaited.recovery.since, awaited.recovery.epoch
    has_started, by_firsts, by_others = False, set[str](), set[str]()
    for pod in _walk_reporting_pods(draft):
        start = parse_start(pod.annotations[EPOCH_STARTED_ANNOTATION])
        reporter = fingerprint_uid(pod.uid)
        if start is None or start[:2] != target or reporter not in members:
            continue
        if reporter in firsts:
            has_started = has_started or not start.missing
            by_firsts.update(start.missing)
        else:
            by_others.update(start.missing)
    return _Reports(has_started, frozenset(members & by_firsts), firsts & by_others)


def _walk_reporting_pods(draft: Draft) -> Iterator[PodView]:
    for _, task in draft.walk_tasks():
        pod = find_live_pod(draft, task)
        if pod is not None and EPOCH_STARTED_ANNOTATION in pod.annotations:
            yield pod
