"""The recovery policy: the epochs of an attempt, from the reports of its agents.

Steps of ``decide_recovery``, after the machines have moved:

1. Do nothing unless a published roster has restart in place, and Tasks may run.
2. Read the report of each live Pod of the roles in the roster (``framework.api.epochreports``).
3. Decide the epoch (``epochs.decide_epoch``), and put it into the status.
4. Record in the status at which start barrier the gang waits, and whether it has released its
   members (``late_members``).

Invariants:

- The roster has the epoch of the drafted status. It is published after the status is stored.
- Only the recorded Pods of Tasks that neither leave nor terminate nor are finished are read.

Example: the Pod of worker 1 has the report ``4 137``, and epoch 4 is stored: epoch 5 is stored with
this decision, and then published.

Rules: docs/design/recovery.md, "Steps".
"""

from collections.abc import Iterator
from dataclasses import replace

from controller.core.actions import Urgency
from controller.core.draft import Draft
from controller.core.policies.exit_code_policy import complete_failed
from controller.core.recovery.epochs import EpochState, ProcessReport, decide_epoch
from controller.core.recovery.late_members import follow_start
from controller.core.recovery.missing_peers import is_waiting_for_left
from controller.core.recovery.restartable_pods import find_live_pod, find_roles, list_policies
from framework.api.completion import PERMANENT
from framework.api.constants import PROCESS_ENDED_ANNOTATION
from framework.api.epochreports import parse_end
from framework.api.naming import TaskKey
from framework.api.pods import ContainerView, PodView, Terminated
from framework.api.recovery import FailedProcess, RecoveryStatus, RoleRestarts
from framework.api.roster import fingerprint_uid
from framework.api.states import FrameworkState
from framework.api.templatefacts import find_facts

_RUNNING = (FrameworkState.ATTEMPT_PREPARING, FrameworkState.ATTEMPT_RUNNING)


def decide_recovery(draft: Draft) -> None:
    """Decide the epoch, and put it into the drafted status."""
    roles = find_roles(draft)
    if draft.state not in _RUNNING or not roles:
        return
    stored = draft.status.attempt_status.recovery or RecoveryStatus()
    pods = [
        (TaskKey(role.name, task.index), pod)
        for role, task in draft.walk_tasks()
        if role.name in roles and (pod := find_live_pod(draft, task)) is not None
    ]
    live = {fingerprint_uid(pod.uid) for _, pod in pods}
    state = _load(stored)
    reports = _list_reports(draft, pods, state)
    is_counted = not (reports and is_waiting_for_left(draft))
    policies = list_policies(draft)
    decided = decide_epoch(state, reports, policies, live, draft.now, is_counted=is_counted)
    recovery = follow_start(draft, _store(decided, stored))
    if recovery != stored:
        draft.update_attempt(recovery=recovery)
    if decided != state:
        draft.raise_urgency(Urgency.NOW)


def _list_reports(
    draft: Draft, pods: list[tuple[TaskKey, PodView]], state: EpochState
) -> list[ProcessReport]:
    """List the reports that may count, in the order of the versions of their Pods."""
    reporting = [pod for pod in pods if PROCESS_ENDED_ANNOTATION in pod[1].annotations]
    reporting.sort(key=lambda pod: _read_version(pod[1]))
    return [report for key, pod in reporting for report in _read_report(draft, key, pod, state)]


def _read_version(pod: PodView) -> tuple[int, str]:
    """Order versions, which are numbers."""
    return len(pod.resource_version), pod.resource_version


def _read_report(
    draft: Draft, key: TaskKey, pod: PodView, state: EpochState
) -> Iterator[ProcessReport]:
    end = parse_end(pod.annotations[PROCESS_ENDED_ANNOTATION])
    # Reports of earlier epochs stay at their Pods. Skip them: _is_permanent is slow.
    if end is not None and end.epoch == state.epoch:
        is_permanent = _is_permanent(draft, key.role, pod, end.code)
        yield ProcessReport(key, fingerprint_uid(pod.uid), end.epoch, end.code, is_permanent)


def _is_permanent(draft: Draft, role: str, pod: PodView, code: int) -> bool:
    """Return whether the Pod would fail permanently if its running containers ended with the code.

    Retryable exit codes judge the reported process only if their container runs it.
    """
    ended = Terminated(code=code)
    containers = tuple(
        container if container.terminated else replace(container, terminated=ended)
        for container in pod.containers or (ContainerView(""),)
    )
    spec = draft.spec.find_role(role)
    facts = find_facts(spec.task.pod if spec is not None else None)
    codes = facts.retryable_codes
    if codes is not None and codes.container != facts.runner:
        codes = None
    ended_pod = replace(pod, containers=containers)
    completion = complete_failed(codes, ended_pod, draft.settings.code_rules)
    return PERMANENT in (completion.type.attributes or ())


def _load(status: RecoveryStatus) -> EpochState:
    failed = status.first_failed
    first = None
    if failed is not None:
        key = TaskKey(failed.role, failed.index)
        first = ProcessReport(key, failed.fingerprint, failed.epoch, failed.code)
    return EpochState(
        epoch=status.epoch,
        decided_at=status.decided_time,
        restarts={entry.role: entry.times for entry in status.restarts},
        refused=frozenset(status.refused),
        first_failed=first,
        reason=status.reason,
    )


def _store(state: EpochState, before: RecoveryStatus) -> RecoveryStatus:
    first = state.first_failed
    failed = None
    if first is not None:
        failed = FailedProcess(
            first.key.role, first.key.index, first.fingerprint, first.epoch, first.code
        )
    return replace(
        before,
        epoch=state.epoch,
        decided_time=state.decided_at,
        reason=state.reason,
        first_failed=failed,
        restarts=tuple(RoleRestarts(role, times) for role, times in state.restarts.items()),
        refused=tuple(sorted(state.refused)),
    )
