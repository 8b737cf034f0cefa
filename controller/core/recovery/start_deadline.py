"""Pods that do not come to the start barrier of an epoch in time: their Tasks end.

1. The start barrier is waited for as soon as a complete roster is published of which all Pods run.
   The time is stored (``follow_start``).
2. The agent of the first member serves it. It reports that the start barrier has released its
   members, which is stored; or, after its own deadline, which Pods have not come: these are late.
3. If nothing is reported about a start barrier, the first member is late.
4. A Pod that is refused, and does not end, is late, too.

Invariants:

- Only a complete gang with the stored epoch in its roster has late members.
- Only reports of the first member of a role, about the newest since and the stored epoch, are read.
- Nobody is late for a start barrier that has released its members, also after the Pod that reported
  it is gone.
- Before a report of an agent of the attempt, the first member is not late: its containers may be
  started without an agent, or by one of an older release, or the agents have no right to report.

Example: epoch 5 is published, and worker 2 hangs in the kernel. The agent of worker 0 reports
``7 5 89abcdef``. The Task of worker 2 ends with -270, and its retry policy decides.

Rules: docs/design/recovery.md, "Steps".
"""

from collections.abc import Iterator
from dataclasses import replace

from controller.core.draft import Draft
from controller.core.recovery.restartable_pods import find_live_pod
from framework.api.constants import EPOCH_STARTED_ANNOTATION
from framework.api.epochreports import EpochStart, parse_start
from framework.api.pods import PodView
from framework.api.recovery import RecoveryStatus, StartBarrierStatus
from framework.api.roster import RoleRoster, Roster, fingerprint_uid

DIAGNOSTICS = "The Pod did not come to the start barrier of the epoch in time"
# Longer than the deadline of the agents: it applies only if the serving agent reports nothing.
DEADLINE_SECONDS = 600


def follow_start(draft: Draft, recovery: RecoveryStatus) -> RecoveryStatus:
    """Put into the status which start barrier is waited for, and what started."""
    published = draft.snapshot.published.roster
    if published is None or published.recovery is None or not _is_running(published):
        return recovery
    known, since = recovery.start_barrier, published.recovery.since
    if known is None or known.since != since:
        known = StartBarrierStatus(
            since, draft.now, is_served=known is not None and known.is_served
        )
    epoch = published.recovery.epoch
    if known.started_epoch != epoch and _has_started(_list_starts(draft, published)):
        known = replace(known, started_epoch=epoch, is_served=True)
    return replace(recovery, start_barrier=known)


def is_late(draft: Draft, pod: PodView) -> bool:
    """Return whether a live Pod is late for the current epoch."""
    if draft.late is None:
        draft.late = frozenset(_find_late(draft))
    return bool(draft.late) and fingerprint_uid(pod.uid) in draft.late


def _find_late(draft: Draft) -> Iterator[str]:
    recovery = draft.status.attempt_status.recovery
    if recovery is None or draft.is_completing:
        return
    decided, barrier = recovery.decided_time, recovery.start_barrier
    if recovery.refused and decided and draft.has_elapsed(decided, DEADLINE_SECONDS):
        yield from recovery.refused
    published = draft.snapshot.published.roster
    if published is None or published.recovery is None or not _is_running(published):
        return
    target = published.recovery.since, published.recovery.epoch
    if barrier is None or barrier.begin_time is None or target != (barrier.since, recovery.epoch):
        return
    if barrier.started_epoch == recovery.epoch:
        return
    starts = _list_starts(draft, published)
    if _has_started(starts):
        return
    members = [m.fingerprint for role in _list_roles(published) for m in role.members]
    missing = {fingerprint for start in starts for fingerprint in start.missing}
    begin = max(barrier.begin_time, decided or barrier.begin_time)
    if missing:
        yield from missing.intersection(members)
    elif (barrier.is_served or recovery.epoch) and draft.has_elapsed(begin, DEADLINE_SECONDS):
        yield from members[:1]


def _is_running(published: Roster) -> bool:
    """Return whether all Pods of the roles that take part are members and run."""
    return published.complete and all(role.running for role in _list_roles(published))


def _list_roles(published: Roster) -> list[RoleRoster]:
    names = published.recovery.roles if published.recovery is not None else ()
    return [role for role in published.roles if role.name in names]


def _has_started(starts: list[EpochStart]) -> bool:
    return any(not start.missing for start in starts)


def _list_starts(draft: Draft, published: Roster) -> list[EpochStart]:
    """List what the first members report about the published start barrier.

    Only the agents know which role has rank 0.
    """
    known = published.recovery
    firsts = {m.fingerprint for role in _list_roles(published) for m in role.members[:1]}
    starts = [
        parse_start(pod.annotations.get(EPOCH_STARTED_ANNOTATION, ""))
        for pod in _walk_pods(draft)
        if EPOCH_STARTED_ANNOTATION in pod.annotations and fingerprint_uid(pod.uid) in firsts
    ]
    return [
        start
        for start in starts
        if start is not None and known and start[:2] == (known.since, known.epoch)
    ]


def _walk_pods(draft: Draft) -> Iterator[PodView]:
    for _, task in draft.walk_tasks():
        pod = find_live_pod(draft, task)
        if pod is not None:
            yield pod
