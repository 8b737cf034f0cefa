"""Late members: Pods that do not come to the start barrier of an epoch in time. Their Tasks end.

1. The gang waits at a start barrier as soon as a complete roster is published of which all members
   run. The status gets the time, for users (``follow_start``).
2. The agent of the lowest rank serves the start barrier. It reports when the start barrier has
   released its members, and the status records that: no member is late then.
3. Until then, late Pods are chosen after deadlines (``is_late``). The first choice counts:

       after  chosen by                               may choose             only if
       0 s    the first members of the roles          members                all wanted Pods run
       300 s  the first members of the roles          members
       600 s  other members, which wait for the agent the first members
              that serves
       900 s  the controller                          the first member of    agents report
                                                      the first role

   Only agents know which first member has rank 0 and serves. In a full gang, agents measure the
   deadline of their own first choice.
4. A Pod whose report is refused, and which does not end in 600 s, is late, too.

Invariants:

- Only a complete gang with the stored epoch in its roster has late members.
- Only reports about the newest ``since`` and the stored epoch count.
- No member is late for a start barrier that has released its members, also after the Pod that
  reported it has ended or is gone.
- Before a report of an agent of the attempt, the controller chooses no Pod: the containers may run
  no agent, or that of an older release, or the agents have no right to report.
- The success of a member postpones no deadline, also if it begins a new ``since``
  (``deadline_since``).
- A change of the wall clock makes no Pod late: this controller measures how long it has waited.
  After each publication with a start barrier, the roster policy requests the decision with which
  the wait begins.

Example: epoch 5 is published, and worker 2 hangs in the kernel. The agent of worker 0 reports
``7 5 89abcdef``. The Task of worker 2 ends with -270, and its retry policy decides.

Rules: docs/design/recovery.md, "Steps".
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from enum import Enum, auto
from typing import NamedTuple

from controller.core.draft import Draft
from controller.core.recovery.restartable_pods import find_live_pod, find_recorded_pod
from controller.core.waits import Wait, WaitSubject
from framework.api.constants import EPOCH_STARTED_ANNOTATION
from framework.api.epochreports import SERVER_SECONDS, START_SECONDS, EpochStart, parse_start
from framework.api.pods import PodPhase, PodView
from framework.api.recovery import RecoveryStatus, StartBarrierStatus
from framework.api.roster import RoleRoster, fingerprint_uid
from framework.api.types import TaskStatus

DIAGNOSTICS = "The Pod did not come to the start barrier of the epoch in time"
# Longer than the deadlines of the agents: it applies only if no agent reports anything.
CONTROLLER_SECONDS = 900.0
# Agents whose report is refused end at once.
REFUSED_SECONDS = 600.0


class _Chooser(Enum):
    """Who chooses late Pods. The table shows after which time and which Pods each may choose."""

    FIRST_MEMBERS = auto()
    OTHER_MEMBERS = auto()
    CONTROLLER = auto()


class _Deadline(NamedTuple):
    """A row of the table."""

    seconds: float
    chooser: _Chooser
    needs_full_gang: bool = False


_DEADLINES = (
    _Deadline(0.0, _Chooser.FIRST_MEMBERS, needs_full_gang=True),
    _Deadline(START_SECONDS, _Chooser.FIRST_MEMBERS),
    _Deadline(SERVER_SECONDS, _Chooser.OTHER_MEMBERS),
    _Deadline(CONTROLLER_SECONDS, _Chooser.CONTROLLER),
)


class _StartBarrier(NamedTuple):
    """The start barrier of the published roster; all members of this complete gang run."""

    since: int
    epoch: int
    roles: Sequence[RoleRoster]
    """The roles that take part."""
    deadline_since: int
    """The ``since`` from which the deadlines count. The only changes of the members after it are
    that some succeeded."""

    @property
    def firsts(self) -> list[str]:
        """The fingerprints of the first members of the roles."""
        return [member.fingerprint for role in self.roles for member in role.members[:1]]

    @property
    def is_full(self) -> bool:
        """Whether all wanted Pods run, so that agents know since when all members run."""
        return all(role.running for role in self.roles)


class _Reports(NamedTuple):
    """The reports of Pods about the start barrier."""

    has_released: bool
    choices: Mapping[_Chooser, Collection[str]]
    """By chooser, the fingerprints of the Pods that its agents chose and may choose."""


def follow_start(draft: Draft, recovery: RecoveryStatus) -> RecoveryStatus:
    """Record in the status at which start barrier the gang waits, and whether it has released."""
    barrier = _find_published(draft)
    if barrier is None:
        _keep_wait(draft)
        return recovery
    has_released = _read_reports(draft, barrier).has_released
    # A member that has succeeded runs no more, although the start barrier has released it.
    if not has_released and not _is_awaited(draft, barrier):
        return recovery
    known = recovery.start_barrier
    if known is None or known.since != barrier.since:
        known = _build_status(barrier, known, draft.now)
    if known.started_epoch != barrier.epoch:
        if has_released:
            known = replace(known, started_epoch=barrier.epoch, is_served=True)
        else:
            _list_passed_deadlines(draft, barrier)  # Requests the wake at the next deadline.
    return replace(recovery, start_barrier=known)


def _build_status(
    barrier: _StartBarrier, before: StartBarrierStatus | None, now: datetime
) -> StartBarrierStatus:
    """Build the status of a new start barrier.

    If members have only succeeded since the start barrier before, the time of that one stays.
    """
    if before is None:
        return StartBarrierStatus(barrier.since, now)
    begin = before.begin_time if before.since >= barrier.deadline_since else now
    return StartBarrierStatus(barrier.since, begin, is_served=before.is_served)


def is_late(draft: Draft, pod: PodView) -> bool:
    """Return whether a live Pod is late for the current epoch."""
    late = draft.compute_once(_find_late)
    # Usually no Pod is late. Then save the time for the fingerprint, which is a hash.
    return bool(late) and fingerprint_uid(pod.uid) in late


def _find_late(draft: Draft) -> frozenset[str]:
    recovery = draft.status.attempt_status.recovery
    if recovery is None or draft.is_completing:
        return frozenset()
    late = frozenset(_choose_late(draft, recovery))
    return late.union(recovery.refused) if _is_end_of_refused_due(draft, recovery) else late


def _is_end_of_refused_due(draft: Draft, recovery: RecoveryStatus) -> bool:
    if not recovery.refused:
        return False
    wait = _build_wait(draft, 0, recovery.epoch, WaitSubject.REFUSED_PODS)
    return draft.has_waited(wait, REFUSED_SECONDS)


def _choose_late(draft: Draft, recovery: RecoveryStatus) -> Collection[str]:
    """Choose the members that are late for the start barrier, by the table."""
    barrier, known = _find_published(draft), recovery.start_barrier
    if barrier is None or not _is_awaited(draft, barrier):
        return ()
    if known is None or known.started_epoch == recovery.epoch:
        return ()
    if (barrier.since, barrier.epoch) != (known.since, recovery.epoch):
        return ()
    reports = _read_reports(draft, barrier)
    if reports.has_released:
        return ()
    choices = dict(reports.choices)
    # An epoch after epoch 0 answers reports, so agents report.
    if known.is_served or barrier.epoch > 0:
        choices[_Chooser.CONTROLLER] = barrier.firsts[:1]
    for deadline in _list_passed_deadlines(draft, barrier):
        chosen = choices.get(deadline.chooser)
        if chosen and (barrier.is_full or not deadline.needs_full_gang):
            return chosen
    return ()


def _list_passed_deadlines(draft: Draft, barrier: _StartBarrier) -> list[_Deadline]:
    """List the deadlines that have passed, and request a wake at each of the others."""
    wait = _build_wait(draft, barrier.deadline_since, barrier.epoch, WaitSubject.START_BARRIER)
    return [each for each in _DEADLINES if draft.has_waited(wait, each.seconds)]


def _build_wait(draft: Draft, since: int, epoch: int, subject: WaitSubject) -> Wait:
    return Wait(draft.status.attempt_status.instance_uid or "", since, epoch, subject)


def _keep_wait(draft: Draft) -> None:
    """Continue the time at the start barrier while the gang lacks only Tasks that have succeeded.

    A Task that has succeeded counts for the gang when its Pod is gone.
    """
    published = draft.snapshot.published.roster
    if published is None or published.recovery is None:
        return
    known, tasks = published.recovery, {role.name: role.tasks for role in draft.roles}
    if all(_has_quorum(role, tasks.get(role.name, ())) for role in published.roles):
        wait = _build_wait(draft, known.deadline_since, known.epoch, WaitSubject.START_BARRIER)
        draft.waits.add(wait)


def _has_quorum(role: RoleRoster, tasks: Iterable[TaskStatus]) -> bool:
    """Return whether a role has its minimum if a Task counts as ready as soon as it succeeds."""
    ready = {member.index for member in role.members}
    ready.update(completed.index for completed in role.completed)
    ready.update(task.index for task in tasks if _has_succeeded(task))
    return len(ready) >= min(role.minimum, role.wanted)


def _find_published(draft: Draft) -> _StartBarrier | None:
    """Find the start barrier of the published roster; None if no gang comes to it."""
    published = draft.snapshot.published.roster
    if published is None or published.recovery is None or not published.complete:
        return None
    recovery = published.recovery
    roles = [role for role in published.roles if role.name in recovery.roles]
    return _StartBarrier(recovery.since, recovery.epoch, roles, recovery.deadline_since)


def _is_awaited(draft: Draft, barrier: _StartBarrier) -> bool:
    """Return whether all members can come to the start barrier, so that its deadlines count."""
    return barrier.is_full or _do_members_run(draft, barrier)


def _do_members_run(draft: Draft, barrier: _StartBarrier) -> bool:
    tasks = {role.name: {task.index: task for task in role.tasks} for role in draft.roles}
    members = (
        tasks.get(role.name, {}).get(member.index)
        for role in barrier.roles
        for member in role.members
    )
    # The next roster no longer lists a member that has succeeded. Until then, the wait continues.
    return all(
        task is not None and (_has_succeeded(task) or _runs(draft, task)) for task in members
    )


def _has_succeeded(task: TaskStatus) -> bool:
    completion = task.attempt_status.completion_status
    return completion is not None and completion.type.is_succeeded


def _runs(draft: Draft, task: TaskStatus) -> bool:
    pod = find_live_pod(draft, task)
    return pod is not None and pod.phase is PodPhase.RUNNING


def _read_reports(draft: Draft, barrier: _StartBarrier) -> _Reports:
    members = {member.fingerprint for role in barrier.roles for member in role.members}
    firsts = frozenset(barrier.firsts)
    has_released, by_firsts, by_others = False, set[str](), set[str]()
    for reporter, start, is_live in _walk_reports(draft):
        if (start.since, start.epoch) != (barrier.since, barrier.epoch) or reporter not in members:
            continue
        if reporter in firsts:
            has_released = has_released or not start.missing
        if is_live:
            (by_firsts if reporter in firsts else by_others).update(start.missing)
    choices = {
        _Chooser.FIRST_MEMBERS: members & by_firsts,
        _Chooser.OTHER_MEMBERS: firsts & by_others,
    }
    return _Reports(has_released, choices)


def _walk_reports(draft: Draft) -> Iterator[tuple[str, EpochStart, bool]]:
    """Walk the reports about start barriers.

    Each with the fingerprint of its Pod, and whether this Pod is live: one that has succeeded may
    have served the start barrier.
    """
    for _, task in draft.walk_tasks():
        pod = find_recorded_pod(draft, task)
        if pod is None or EPOCH_STARTED_ANNOTATION not in pod.annotations:
            continue
        start = parse_start(pod.annotations[EPOCH_STARTED_ANNOTATION])
        if start is not None:
            yield fingerprint_uid(pod.uid), start, find_live_pod(draft, task) is not None
