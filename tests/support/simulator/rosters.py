"""Checks of the rosters (I4) and drains (I17) of a simulation.

The auditor passes each roster when it is sent, when it must agree with the stored status, and when
it is stored, when it must be a valid successor of the last one. It also passes each status that
ends a drain.
"""

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from framework.api import constants
from framework.api.pods import ConfigMapView, PodPhase, PodView
from framework.api.roster import Leaving, Roster, decode_roster, fingerprint_uid
from framework.api.rostervalues import RosterError
from framework.api.states import TASK_ALIVE, FrameworkState, TaskState
from framework.api.types import ExecutionType, Framework, FrameworkAttemptStatus, TaskStatus
from framework.kube.resources import Object
from tests.support.simulator.epochs import compare_recovery
from tests.support.simulator.ledger import index_tasks


@dataclass(slots=True)
class Rosters:
    """The rosters and Pods so far; calls ``fail`` for violations."""

    fail: Callable[[str], None]
    """Records a violation."""
    now: Callable[[], datetime]
    """Returns the time of the server."""
    news_seconds: Callable[[], float] = lambda: 0.0
    """Maximum age in seconds of the Pods in a decision of a controller."""
    stored: dict[str, Roster] = field(default_factory=dict)
    """By UID of the ConfigMap: its stored roster."""
    known: dict[str, PodView] = field(default_factory=dict)
    """By fingerprint: all Pods, including deleted ones."""
    answering_since: dict[str, datetime] = field(default_factory=dict)
    """By UID: time of the first acknowledgement of a Pod's agent."""

    def note_pod(self, pod: PodView) -> None:
        self.known[fingerprint_uid(pod.uid)] = pod
        if constants.ACKNOWLEDGED_GENERATION_ANNOTATION in pod.annotations:
            self.answering_since.setdefault(pod.uid, self.now())

    # --- when it is sent

    def check_patch(self, body: Object, framework: Framework | None) -> None:
        """Check a publication against the status that is stored when it is sent."""
        stored = (body.get("binaryData") or {}).get(constants.ROSTER_KEY)
        if not stored:
            return
        roster = decode_roster(base64.b64decode(stored))
        if framework is None or framework.status is None:
            self.fail("I4: a roster of no Framework is sent")
            return
        attempt = framework.status.attempt_status
        if roster.instance_uid != attempt.instance_uid:
            self.fail(f"I4: a roster of {roster.instance_uid} in {attempt.instance_uid}")
        if roster.complete and not all(r.ready >= min(r.minimum, r.wanted) for r in roster.roles):
            self.fail("I4: the roster is not complete, but says so")
        for fault in _compare(roster, attempt):
            self.fail(f"I4: generation {roster.generation}: {fault}")

    # --- when it is stored

    def take_configmap(self, configmap: ConfigMapView) -> None:
        """Check the roster of a ConfigMap against the one before."""
        last = self.stored.get(configmap.uid)
        if not configmap.roster:
            if last is not None:
                self.fail(f"I4: generation {last.generation} is taken back")
            return
        try:
            roster = decode_roster(base64.b64decode(configmap.roster))
        except RosterError as e:
            self.fail(f"I4: {e}")
            return
        if roster == last:
            return
        self.stored[configmap.uid] = roster
        if roster.generation != (last.generation if last else 0) + 1:
            self.fail(f"I4: generation {roster.generation} after {last and last.generation}")
        if roster.instance_uid != f"{configmap.attempt_id}_{configmap.uid}":
            self.fail(f"I4: a roster of {roster.instance_uid} in ConfigMap {configmap.uid}")
        self._check_members(roster, configmap.uid)
        self._check_failed(roster, last, configmap.uid)
        since = {entry.fingerprint: entry.since for entry in last.leaving} if last else {}
        for entry in roster.leaving:
            if entry.since != since.get(entry.fingerprint, roster.generation):
                self.fail(f"I17: {entry} was leaving since {since.get(entry.fingerprint)}")

    def _check_members(self, roster: Roster, configmap_uid: str) -> None:
        leaving = {entry.fingerprint for entry in roster.leaving}
        for role in roster.roles:
            for member in role.members:
                name = f"{role.name}/{member.index}"
                pod = self.known.get(member.fingerprint)
                if pod is None or (pod.owner and pod.owner.uid != configmap_uid):
                    self.fail(f"I4: member {name} is no Pod of this attempt")
                    continue
                said = (
                    pod.annotations.get(constants.TASKROLE_NAME),
                    pod.annotations.get(constants.TASK_INDEX),
                    pod.task_attempt_id,
                )
                if said != (role.name, str(member.index), str(member.attempt_id)):
                    self.fail(f"I4: member {name} is the Pod of {said}")
                if pod.pod_ip not in member.addresses:
                    self.fail(f"I4: member {name} has {member.addresses}, its Pod {pod.pod_ip}")
                if member.fingerprint in leaving:
                    self.fail(f"I17: {name} is a member and leaves")

    def _check_failed(self, roster: Roster, last: Roster | None, configmap_uid: str) -> None:
        """Check that failed members are Pods of this attempt, with the same first generation."""
        since = {entry.fingerprint: entry.since for entry in last.failed} if last else {}
        members = {(role.name, m.index) for role in roster.roles for m in role.members}
        for entry in roster.failed:
            pod = self.known.get(entry.fingerprint)
            if pod is None or (pod.owner and pod.owner.uid != configmap_uid):
                self.fail(f"I4: {entry} is no Pod of this attempt")
            if entry.since != since.get(entry.fingerprint, roster.generation):
                self.fail(f"I4: {entry} had failed since {since.get(entry.fingerprint)}")
            if (entry.role, entry.index) in members:
                self.fail(f"I4: {entry} has failed and is a member")

    # --- when a drain ends

    def check_drains(
        self, framework: Framework, before: FrameworkAttemptStatus | None, pods: dict[str, PodView]
    ) -> None:
        """Check that a drain ends when all agents have acknowledged, or at its deadline."""
        status = framework.status
        if before is None or status is None or _is_drain_skipped(framework):
            return
        roster = self.stored.get(status.attempt_status.configmap_uid or "")
        known = index_tasks(before)
        for key, task in index_tasks(status.attempt_status).items():
            old = known.get(key)
            if (
                old is None
                or old.instance_uid != task.instance_uid
                or not _is_drain_over(old, task)
            ):
                continue
            deadline = _find_deadline(task)
            assert deadline is not None
            pod = pods.get(task.attempt_status.pod_uid or "")
            if pod is None or pod.is_ended or pod.is_terminating or roster is None:
                continue
            if task.transition_time >= deadline:
                continue
            entry = next(
                (e for e in roster.leaving if e.fingerprint == fingerprint_uid(pod.uid)), None
            )
            is_alone = not (task.deletion_pending or roster.complete)
            late = self._list_late(entry, pod, None if is_alone else status.attempt_status, pods)
            if late:
                self.fail(f"I17: {key} is deleted before {deadline} without {late}")

    def _list_late(
        self,
        entry: Leaving | None,
        leaving_pod: PodView,
        attempt: FrameworkAttemptStatus | None,
        pods: dict[str, PodView],
    ) -> list[str]:
        """List the agents that are late; without an ``attempt``, only that of the Pod itself."""
        if entry is None:
            return ["the roster"]
        expected = {leaving_pod.uid}
        expected |= {
            task.attempt_status.pod_uid or ""
            for task in (index_tasks(attempt).values() if attempt is not None else ())
            if not task.deletion_pending and task.attempt_status.leaving is None
        }
        news = self.now() - timedelta(seconds=self.news_seconds())
        return [
            pods[uid].name
            for uid in sorted(expected & set(pods))
            if pods[uid].phase is PodPhase.RUNNING
            and not pods[uid].is_terminating
            and self.answering_since.get(uid, news) < news
            and int(pods[uid].annotations[constants.ACKNOWLEDGED_GENERATION_ANNOTATION])
            < entry.since
        ]


def _compare(roster: Roster, attempt: FrameworkAttemptStatus) -> Iterator[str]:
    """Compare a roster with the stored status."""
    tasks = index_tasks(attempt)
    for role in roster.roles:
        for member in role.members:
            task = tasks.get((role.name, member.index))
            uid = task.attempt_status.pod_uid if task else None
            if task is None or uid is None or fingerprint_uid(uid) != member.fingerprint:
                yield f"member {role.name}/{member.index} is another Pod than {uid}"
            elif task.deletion_pending or task.state not in TASK_ALIVE:
                yield f"member {role.name}/{member.index} is {task.state}"
            elif task.attempt_status.pod_ip not in member.addresses:
                yield f"member {role.name}/{member.index} has another address"
        for completed in role.completed:
            task = tasks.get((role.name, completed.index))
            if task is None or not task.is_completed:
                yield f"{role.name}/{completed.index} is not completed"
    yield from compare_recovery(roster, attempt)
    for entry in roster.leaving:
        task = tasks.get((entry.role, entry.index))
        if task is None or _find_deadline(task) is None:
            yield f"{entry.role}/{entry.index} does not drain"


def _is_drain_skipped(framework: Framework) -> bool:
    """Return whether the whole gang ends, so that no acknowledgement is needed."""
    status = framework.status
    return (
        status is None
        or status.state not in (FrameworkState.ATTEMPT_PREPARING, FrameworkState.ATTEMPT_RUNNING)
        or framework.spec.execution_type is ExecutionType.STOP
        or framework.metadata.deletion_time is not None
    )


def _is_drain_over(before: TaskStatus, after: TaskStatus) -> bool:
    completion = after.attempt_status.completion_status
    is_ready_to_go = after.deletion_pending or (completion is not None and completion.code == -280)
    return (
        before.state in TASK_ALIVE
        and after.state is TaskState.ATTEMPT_DELETION_PENDING
        and is_ready_to_go
        and _find_deadline(after) is not None
    )


def _find_deadline(task: TaskStatus) -> datetime | None:
    """Find the deadline of a drain or of leaving; None if a Task does neither."""
    if task.deletion_pending:
        return task.drain_deadline_time
    leaving = task.attempt_status.leaving
    return leaving.deadline_time if leaving is not None else None
