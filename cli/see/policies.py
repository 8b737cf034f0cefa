"""The policies of a Framework and its roles in words. Pure."""

from typing import Any

from framework.api.constants import EXTENDED_UNLIMITED, UNLIMITED
from framework.api.durations import format_seconds
from framework.api.types import (
    CompletedPodPolicy,
    CompletionPolicySpec,
    ExecutionType,
    FrameworkSpec,
    RetryPolicySpec,
    RetryPolicyStatus,
    TaskRoleSpec,
)

_EXECUTION = {
    ExecutionType.CREATE: "is not started yet (executionType Create)",
    ExecutionType.STOP: "is stopped by its user (executionType Stop)",
}


def describe_retries(policy: RetryPolicySpec) -> str:
    """Describe when attempts are retried."""
    number = policy.max_retry_count
    if number == EXTENDED_UNLIMITED:
        text = "after every end"
    elif number == UNLIMITED:
        text = "after every failure"
    else:
        text = f"up to {number}" if number > 0 else "none"
    if not policy.fancy_retry_policy:
        return text
    return f"{text}; Transient failures always, Permanent ones never"


def describe_retried(status: RetryPolicyStatus) -> str:
    """Describe the retries so far."""
    total = status.total_retried_count
    uncounted = total - status.accountable_retried_count
    return f"{total} so far" + (f", {uncounted} of them not counted" if uncounted > 0 else "")


def describe_completion(policy: CompletionPolicySpec) -> str:
    """Describe what ends the attempt."""
    failed, succeeded = policy.min_failed_task_count, policy.min_succeeded_task_count
    texts = []
    if failed > 0:
        texts.append(f"{_count_tasks(failed, 'failed')} it as failed")
    if succeeded > 0:
        texts.append(f"{_count_tasks(succeeded, 'succeeded')} it as succeeded")
    return "; ".join(texts) or "the end of all Tasks ends it"


def _count_tasks(number: int, result: str) -> str:
    return f"1 {result} Task ends" if number == 1 else f"{number} {result} Tasks end"


def describe_role(role: TaskRoleSpec) -> str:
    """Describe the fields of a role that change what its gang waits for."""
    texts = []
    if role.min_member_count is not None:
        texts.append(f"complete with {role.quorum} of {role.wanted_count}")
    if role.absent:
        texts.append(f"{len(role.absent)} absent")
    if role.drain is not None:
        texts.append(f"drains for up to {format_seconds(role.drain.timeout_seconds)}")
    return ", ".join(texts)


def list_lifetime(spec: FrameworkSpec, wire: Any) -> list[tuple[str, str]]:
    """List the fields of the spec that limit the life of the Framework or of its Pods.

    Args:
        spec: decoded.
        wire: the spec as stored, for fields of a newer CRD.
    """
    fields = wire if isinstance(wire, dict) else {}
    rows = []
    if spec.execution_type in _EXECUTION:
        rows.append(("Execution", f"it {_EXECUTION[spec.execution_type]}"))
    if fields.get("suspend") is True:
        rows.append(("Suspended", "yes: it has no Pods until spec.suspend is false"))
    deadline, ttl = fields.get("activeDeadlineSeconds"), fields.get("ttlSecondsAfterFinished")
    if isinstance(deadline, int):
        rows.append(("Deadline", f"fails after {_format(deadline)} (activeDeadlineSeconds)"))
    if isinstance(ttl, int):
        rows.append(("Removal", f"{_format(ttl)} after its end (ttlSecondsAfterFinished)"))
    if spec.completed_pod_policy is CompletedPodPolicy.RETAIN:
        rows.append(("Pods", "stay after their end (completedPodPolicy Retain)"))
    return rows


def _format(seconds: int) -> str:
    return format_seconds(seconds)
