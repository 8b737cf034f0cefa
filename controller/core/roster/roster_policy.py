"""The roster policy: which generation of the gang the attempt ConfigMap carries.

Steps of ``decide_roster``, after the machines have moved:

1. Publish nothing unless the attempt is AttemptPreparing or AttemptRunning (or ends and keeps its
   Pods), and its recorded ConfigMap exists and is not terminating.
2. Build the roster from the drafted status and the Pods.
3. If none was published and the gang is incomplete, publish only the readiness.
4. If it differs from the published one, publish the next generation, at least 200 ms after the
   last. If no live Pod could read it, publish nothing.
5. If it is the same and the gang is incomplete, publish the readiness.

Invariants:

- The first generation is complete, and each later one has the next number.
- A Task is in at most one of members, completed and leaving.
- Equal gangs give equal rosters, so a restart of the controller publishes nothing.

Example: workers 0 and 1. When both have addresses, generation 1 has both. Worker 1 fails and is
retried: generation 2 has worker 0, lists worker 1 as failed and is not complete. The new Pod has an
address: generation 3 has both, with another fingerprint of worker 1, and lists no failure.

Rules: docs/design/roster.md, "Generations".
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from controller.core.actions import Urgency
from controller.core.decision import Publication
from controller.core.draft import Draft, RoleDraft
from controller.core.objects import ownership
from controller.core.policies import retention
from controller.core.policies.coalescing import may_coalesce_generation
from controller.core.recovery.roster_recovery import build_recovery
from controller.core.roster import drain
from controller.core.roster.failed_members import list_failed
from controller.core.roster.missing_tasks import find_check_times, list_missing
from controller.core.settings import READINESS_AGES_SECONDS, ROSTER_DEBOUNCE_SECONDS
from framework.api import roster
from framework.api.gangreadiness import GangReadiness, encode_readiness
from framework.api.pods import ConfigMapView, PodPhase, PodView
from framework.api.roster import CompletedTask, Member, RoleRoster, Roster
from framework.api.states import TASK_ALIVE, FrameworkState
from framework.api.types import TaskRoleSpec, TaskStatus

_PUBLISHING = (FrameworkState.ATTEMPT_PREPARING, FrameworkState.ATTEMPT_RUNNING)


@dataclass(frozen=True, slots=True)
class RosterOutcome:
    """The publication of this decision, and the state of the gang."""

    publication: Publication | None = None
    """None if the roster and the readiness stay as they are."""
    urgency: Urgency = Urgency.NOW
    """How soon the status that the publication relies on must be written."""
    readiness_checked_at: datetime | None = None
    """When the readiness was computed; None if it was not."""
    is_complete: bool | None = None
    """Whether the gang is complete; None if there is no gang."""
    readiness: GangReadiness | None = None
    """The readiness, if it was computed in this decision."""


def decide_roster(draft: Draft) -> RosterOutcome:
    """Decide the publication, and request a wake if one is due later."""
    if not _is_publishing(draft):
        return RosterOutcome()
    # The ConfigMap with the recorded UID, not any object of the name.
    configmap = ownership.find_configmap(draft)
    if configmap is None or configmap.is_terminating:
        return RosterOutcome()
    wanted = _build_roster(draft)
    return replace(_decide(draft, configmap, wanted), is_complete=wanted.complete)


def _decide(draft: Draft, configmap: ConfigMapView, wanted: Roster) -> RosterOutcome:
    published = draft.snapshot.published
    if published.roster is not None and not _has_reader(wanted):
        return RosterOutcome()
    if published.roster is None and not wanted.complete:
        return _decide_readiness(draft, configmap, None)
    if published.roster is None or not wanted.is_same_gang(published.roster):
        if _is_debounced(draft):
            return RosterOutcome()
        return _decide_generation(draft, configmap, wanted)
    if not wanted.complete:
        return _decide_readiness(draft, configmap, published.published_at)
    return RosterOutcome(
        None if published.has_version_annotation else _publish(configmap, None, "")
    )


def _decide_generation(draft: Draft, configmap: ConfigMapView, wanted: Roster) -> RosterOutcome:
    published = draft.snapshot.published
    last = published.roster
    urgency = Urgency.LATER if may_coalesce_generation(draft, wanted, last) else Urgency.NOW
    if urgency is Urgency.NOW and wanted.complete and wanted.recovery is not None:
        # The deadlines of a start barrier count from the first decision that sees its roster, and
        # the members may wait there without another event.
        draft.raise_urgency(Urgency.AGAIN)
    wanted = wanted._replace(generation=1 if last is None else last.generation + 1)
    readiness = "" if wanted.complete else published.readiness
    return RosterOutcome(_publish(configmap, wanted, readiness), urgency)


def _has_reader(wanted: Roster) -> bool:
    """Return whether a live Pod is left that can read a new generation."""
    return bool(wanted.leaving) or any(role.members for role in wanted.roles)


def _is_publishing(draft: Draft) -> bool:
    if draft.state in _PUBLISHING:
        return True
    # In this state, only the ConfigMap of a retained attempt stays.
    is_ending = draft.state is FrameworkState.ATTEMPT_DELETION_PENDING
    return is_ending and retention.is_attempt_retained(draft) and retention.has_live_wrapper(draft)


def _is_debounced(draft: Draft) -> bool:
    last = draft.snapshot.published.published_at
    if last is None:
        return False
    return not draft.is_wait_over(last, last + timedelta(seconds=ROSTER_DEBOUNCE_SECONDS))


def _decide_readiness(
    draft: Draft,
    configmap: ConfigMapView,
    incomplete_since: datetime | None,
) -> RosterOutcome:
    published = draft.snapshot.published
    base = incomplete_since or configmap.creation_time or draft.snapshot.now
    last_check, next_check = find_check_times(base, draft.snapshot.now)
    draft.request_wake(next_check)
    if last_check is None or not _is_due(
        published.readiness_checked_at, last_check, draft.snapshot.now
    ):
        publication = None if published.has_version_annotation else _publish(configmap, None, "")
        return RosterOutcome(publication)
    readiness = list_missing(draft)
    text = encode_readiness(readiness)
    is_known = text == published.readiness and published.has_version_annotation
    publication = None
    # At the first check, Pods may have no Node yet: then no barrier could read the readiness.
    is_first_check = last_check <= base + timedelta(seconds=READINESS_AGES_SECONDS[0])
    if not is_known and (_is_any_pod_started(draft) or not is_first_check):
        publication = _publish(configmap, None, text)
    return RosterOutcome(
        publication, Urgency.LATER, readiness_checked_at=draft.snapshot.now, readiness=readiness
    )


def _is_due(checked_at: datetime | None, due: datetime, now: datetime) -> bool:
    # A check in the future was made before the clock was set back: it does not count.
    return checked_at is None or not due <= checked_at <= now


def _is_any_pod_started(draft: Draft) -> bool:
    """Return whether a Pod has a Node or an address, so that its barrier may run."""
    return any(pod.node_name or pod.pod_ip for pod in draft.snapshot.pods.values())


def _publish(configmap: ConfigMapView, wanted: Roster | None, readiness: str) -> Publication:
    return Publication(
        configmap.name,
        configmap.uid,
        configmap.resource_version,
        wanted,
        readiness,
    )


def _build_roster(draft: Draft) -> Roster:
    meta = draft.snapshot.framework.metadata
    attempt = draft.status.attempt_status
    published = draft.snapshot.published.roster
    roles = tuple(
        _build_role(draft, role, role.spec) for role in draft.roles if role.spec is not None
    )
    recovery = build_recovery(draft, roles, published)
    return Roster(
        namespace=meta.namespace,
        framework=meta.name,
        framework_uid=meta.uid,
        attempt_id=attempt.id,
        instance_uid=attempt.instance_uid or "",
        generation=0,
        complete=all(_is_complete(role) for role in roles),
        phase=roster.PHASE_COMPLETING if draft.is_completing else roster.PHASE_ACTIVE,
        roles=roles,
        leaving=tuple(drain.list_leaving(draft, published)),
        failed=() if published is None else tuple(list_failed(draft, roles, published)),
        recovery=recovery,
    )


def _is_complete(role: RoleRoster) -> bool:
    return role.ready >= min(role.minimum, role.wanted)


def _build_role(draft: Draft, role: RoleDraft, spec: TaskRoleSpec) -> RoleRoster:
    members: list[Member] = []
    completed: list[CompletedTask] = []
    is_running = True
    for task in role.tasks:
        if task.deletion_pending:
            continue
        if task.is_completed:
            completed.append(_describe_completed(task))
            continue
        pod = draft.snapshot.pods.get(task.attempt_status.pod_name)
        is_running = is_running and pod is not None and pod.phase is PodPhase.RUNNING
        if pod is not None and is_member(task, pod):
            members.append(_describe_member(task, pod))
    is_full = len(members) + len(completed) >= spec.wanted_count
    return RoleRoster(
        name=role.name,
        wanted=spec.wanted_count,
        minimum=spec.quorum,
        running=is_running and is_full,
        members=tuple(members),
        completed=tuple(completed),
        absent=tuple(sorted(spec.absent)),
    )


def is_member(task: TaskStatus, pod: PodView) -> bool:
    """Return whether a Task is a member of the gang: its live Pod has an address.

    The Pod of a Task that a user retries lives until its deletion, but its attempt has ended.
    """
    attempt = task.attempt_status
    return bool(
        attempt.pod_ip
        and task.state in TASK_ALIVE
        and attempt.leaving is None
        and attempt.pod_uid == pod.uid
        and not pod.is_terminating
        and not pod.is_ended,
    )


def _describe_member(task: TaskStatus, pod: PodView) -> Member:
    attempt = task.attempt_status
    return Member(
        index=task.index,
        addresses=(attempt.pod_ip or "", *pod.more_ips),
        fingerprint=roster.fingerprint_uid(pod.uid),
        attempt_id=attempt.id,
    )


def _describe_completed(task: TaskStatus) -> CompletedTask:
    state = roster.STATE_SUCCEEDED if task.is_succeeded else roster.STATE_FAILED
    return CompletedTask(task.index, state, task.attempt_status.pod_ip or "")
