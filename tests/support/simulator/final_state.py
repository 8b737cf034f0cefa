"""The state that a simulation must reach without faults: I8, and P8 for the spec.

It is computed from the stored objects and from the observations of the auditor. The codes are those
of docs/design/invariants.md.
"""

import base64
from collections.abc import Iterator
from datetime import timedelta

from framework.api import constants
from framework.api.roster import decode_roster, fingerprint_uid
from framework.api.states import FrameworkState, TaskState
from framework.api.types import ExecutionType, Framework, FrameworkStatus, TaskStatus
from framework.kube.resources import Object
from tests.support.simulator.auditfacts import is_stopped
from tests.support.simulator.auditor import Auditor
from tests.support.simulator.ledger import (
    Key,
    find_triggers,
    index_tasks,
    is_all_completed,
    is_suspended,
)

_SUSPENDED = (FrameworkState.ATTEMPT_COMPLETED, FrameworkState.ATTEMPT_CREATION_PENDING)


def list_unreached(
    framework: Framework | None, configmap: Object | None, auditor: Auditor
) -> Iterator[str]:
    """List the differences from the state of the spec.

    Args:
        framework: the stored Framework; None if it is deleted.
        configmap: the ConfigMap of its attempt; None without one.
        auditor: has the existing Pods and ConfigMaps.
    """
    if framework is None:
        yield from _list_leftovers(auditor, "without a Framework")
        return
    status = framework.status
    if status is None:
        yield "P8: no status"
        return
    yield from _check_lifetime(framework, status, auditor)
    is_held = framework.spec.execution_type is ExecutionType.CREATE or (
        framework.metadata.deletion_time is not None
    )
    if (
        status.state is FrameworkState.COMPLETED
        or (is_held and status.state is FrameworkState.ATTEMPT_CREATION_PENDING)
        or (is_suspended(framework.spec) and status.state in _SUSPENDED)
    ):
        kept = _find_kept(status, auditor)
        if status.attempt_status.configmap_uid not in auditor.kept:
            kept = frozenset()
        left = frozenset() if is_stopped(framework) else kept & auditor.left
        yield from _list_leftovers(auditor, "of a finished attempt", kept, left)
        return
    if is_stopped(framework):
        yield f"P8: stopped, but {status.state}"
    yield from _check_tasks(framework, status, auditor)
    yield from _check_roster(_find_alive(status), configmap)
    yield from auditor.epochs.list_unanswered(status.attempt_status, auditor.pods)


def _check_lifetime(
    framework: Framework, status: FrameworkStatus, auditor: Auditor
) -> Iterator[str]:
    """Check that a suspended Framework has no attempt, and that an active one ends in time."""
    conditions = {c.type: c.status for c in status.conditions or ()}
    is_wanted = is_suspended(framework.spec) and status.state is not FrameworkState.COMPLETED
    if is_wanted and status.state not in _SUSPENDED:
        yield f"P8: suspended, but {status.state}"
    if is_wanted is (conditions.get("Suspended", "False") == "False"):
        yield f"P8: suspended is {is_wanted}, but the conditions are {conditions}"
    start, seconds = status.active_start_time, framework.spec.active_deadline_seconds
    is_active = not is_wanted and framework.spec.execution_type is not ExecutionType.CREATE
    if status.state is FrameworkState.COMPLETED or seconds is None or not is_active:
        return
    if start is None or auditor.clock.now() >= start + timedelta(seconds=seconds):
        yield f"P8: the deadline has passed, but {status.state}"


def _list_leftovers(
    auditor: Auditor,
    whose: str,
    kept: frozenset[str] = frozenset(),
    left: frozenset[str] = frozenset(),
) -> Iterator[str]:
    """List objects of a finished attempt, except ``kept``; of these, only ``left`` may live."""
    pods = {pod.uid: pod for pod in auditor.walk_owned_pods()}
    if not kept.issuperset(pods):
        yield f"I8: Pods {whose}"
    if not all(pod.is_ended or pod.uid in left for pod in pods.values()):
        yield f"I8: live Pods {whose}"
    if not kept.issuperset(auditor.list_gang_keys()):
        yield f"I8: a gang key {whose}"
    if not kept.issuperset(auditor.configmaps):
        yield f"I8: a ConfigMap {whose}"


def _find_kept(status: FrameworkStatus, auditor: Auditor) -> frozenset[str]:
    """Find the UIDs of the retained Pods and ConfigMap of the attempt."""
    attempt = status.attempt_status
    recorded = {
        task.attempt_status.pod_uid
        for _, task in attempt.walk_tasks()
        if task.state is TaskState.COMPLETED
    }
    return frozenset(auditor.kept & {attempt.configmap_uid, *recorded})


def _find_tasks(status: FrameworkStatus) -> dict[Key, TaskStatus]:
    tasks = index_tasks(status.attempt_status)
    return {key: task for key, task in tasks.items() if not task.deletion_pending}


def _find_alive(status: FrameworkStatus) -> dict[Key, TaskStatus]:
    tasks = _find_tasks(status)
    return {key: task for key, task in tasks.items() if task.state is not TaskState.COMPLETED}


def _check_tasks(framework: Framework, status: FrameworkStatus, auditor: Auditor) -> Iterator[str]:
    """Check that the Tasks are those of the spec, and each is Completed or runs in its own Pod."""
    wanted = {
        (role.name, index)
        for role in framework.spec.task_roles
        for index in range(role.task_number)
        if index not in role.absent
    }
    tasks, alive = _find_tasks(status), _find_alive(status)
    if set(tasks) != wanted:
        yield f"P8: wanted {wanted}, but have {set(tasks)}"
    for key, task in sorted(alive.items(), key=lambda item: item[0]):
        if task.state is not TaskState.ATTEMPT_RUNNING:
            yield f"P8: {key} rests in {task.state}"
    recorded = {task.attempt_status.pod_uid for task in alive.values()}
    actual = {pod.uid for pod in auditor.walk_owned_pods()}
    kept = _find_kept(status, auditor)
    if not recorded <= actual <= recorded | kept:
        yield f"P8: Pods {actual}, but recorded {recorded} and kept {kept}"
    if any(find_triggers(framework.spec, status.attempt_status)) or is_all_completed(
        framework.spec, status.attempt_status
    ):
        yield f"I9: a completion policy is fulfilled, but the Framework rests in {status.state}"
    resting = {FrameworkState.ATTEMPT_RUNNING}
    if not alive:
        resting.add(FrameworkState.ATTEMPT_PREPARING)
    if status.state not in resting:
        yield f"P8: rests in {status.state}"


def _check_roster(members: dict[Key, TaskStatus], configmap: Object | None) -> Iterator[str]:
    """Check that the published roster is complete and has exactly the members."""
    if not members:
        return
    stored = ((configmap or {}).get("binaryData") or {}).get(constants.ROSTER_KEY)
    if not stored:
        yield "P8: no roster is published"
        return
    roster = decode_roster(base64.b64decode(stored))
    if not roster.complete:
        yield "P8: the roster is not complete"
    published = {
        (role.name, member.index): (member.addresses[0], member.fingerprint)
        for role in roster.roles
        for member in role.members
    }
    known = {
        key: (task.attempt_status.pod_ip, fingerprint_uid(task.attempt_status.pod_uid or ""))
        for key, task in members.items()
    }
    if published != known:
        yield f"P8: the roster has {published}, but the status has {known}"
