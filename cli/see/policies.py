"""The policies of a Framework and its roles in words. Pure."""

from datetime import datetime, timedelta

from framework.api.constants import (
    ACTIVE_DEADLINE_FIELD,
    COMPLETED_POD_POLICY_FIELD,
    EXTENDED_UNLIMITED,
    SUSPENDED_CONDITION,
    TTL_FIELD,
    UNLIMITED,
)
from framework.api.durations import format_age, format_seconds
from framework.api.inplace import find_in_place
from framework.api.retryable_codes import find_retryable_codes
from framework.api.states import FrameworkState
from framework.api.types import (
    CompletedPodPolicy,
    CompletionPolicySpec,
    ExecutionType,
    FrameworkSpec,
    FrameworkStatus,
    RetryPolicySpec,
    RetryPolicyStatus,
    TaskRoleSpec,
    TaskSpec,
)
from framework.api.wire import format_time

_EXECUTION = {
    ExecutionType.CREATE: "is not started yet (executionType Create)",
    ExecutionType.STOP: "is stopped by its user (executionType Stop)",
}
_PODS = {
    CompletedPodPolicy.DELETE: "are deleted",
    CompletedPodPolicy.RETAIN_UNTIL_END: "stay until the end of the attempt",
    CompletedPodPolicy.RETAIN: "stay after their end",
    CompletedPodPolicy.RETAIN_RUNNING: "stay, and those that run at the end are left running",
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
    if number == 0:
        return "Transient failures always, others never"
    return f"{text}; Transient failures always, Permanent ones never"


def describe_task_retries(task: TaskSpec) -> str:
    """Describe when attempts of a Task are retried, with its retryable exit codes."""
    codes = find_retryable_codes(task.pod)
    text = describe_retries(task.retry_policy)
    if codes is None or not task.retry_policy.fancy_retry_policy:
        return text
    shown = f"{codes.low}-{codes.high} of {codes.container}"
    return f"{text}; exit codes {shown} are Transient, its others Permanent"


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
    return "; ".join(texts) or "only the end of all Tasks of all roles ends it"


def _count_tasks(number: int, result: str) -> str:
    return f"1 {result} Task ends" if number == 1 else f"{number} {result} Tasks end"


def describe_role(role: TaskRoleSpec) -> str:
    """Describe the fields of a role about its quorum, its leaving Tasks and its ended Pods."""
    texts = []
    if role.min_member_count is not None:
        texts.append(f"complete with {role.quorum} of {role.wanted_count}")
    if role.absent:
        texts.append(f"{len(role.absent)} absent")
    if role.drain is not None:
        texts.append(f"drains for up to {format_seconds(role.drain.timeout_seconds)}")
    if (in_place := find_in_place(role)) is not None:
        window = format_seconds(in_place.within_seconds)
        plural = "s" * (in_place.max_restarts != 1)
        texts.append(f"up to {in_place.max_restarts} restart{plural} in place in {window}")
    if role.recovery is not None and (leave := role.recovery.leave_nodes) is not None:
        texts.append(f"leaves nodes within {format_seconds(leave.timeout_seconds)}")
    if role.recovery is not None and (avoid := role.recovery.avoid_nodes) is not None:
        window = format_seconds(avoid.within_seconds)
        times = "1 failure" if avoid.failures == 1 else f"{avoid.failures} failures"
        texts.append(f"avoids up to {avoid.max_nodes} nodes after {times} there in {window}")
    if role.completed_pod_policy is not None:
        texts.append(f"ended Pods {_PODS[role.completed_pod_policy]}")
    return ", ".join(texts)


def list_lifetime(
    spec: FrameworkSpec, status: FrameworkStatus | None, now: datetime
) -> list[tuple[str, str]]:
    """List the limits of the lifetime of the Framework and of its Pods, with their times.

    Args:
        spec: decoded.
        status: decoded; None if there is none, or it cannot be read.
        now: for ages and for the time that is left.
    """
    rows = []
    if spec.execution_type in _EXECUTION:
        rows.append(("Execution", f"it {_EXECUTION[spec.execution_type]}"))
    if spec.suspend:
        text = f"yes{_describe_suspension(status, now)}: it has no Pods until spec.suspend is false"
        rows.append(("Suspended", text))
    deadline, ttl = spec.active_deadline_seconds, spec.ttl_seconds_after_finished
    is_completed = status is not None and status.state is FrameworkState.COMPLETED
    if deadline is not None:
        start = None if status is None or is_completed else status.active_start_time
        text = f"fails after {format_seconds(deadline)} ({ACTIVE_DEADLINE_FIELD})"
        rows.append(("Deadline", text + _describe_moment(start, deadline, now)))
    if ttl is not None:
        end = status.transition_time if status is not None and is_completed else None
        text = f"{format_seconds(ttl)} after its end ({TTL_FIELD})"
        rows.append(("Removal", text + _describe_moment(end, ttl, now)))
    policy = spec.completed_pod_policy
    if policy is not CompletedPodPolicy.DELETE:
        text = f"{_PODS[policy]} ({COMPLETED_POD_POLICY_FIELD} {policy})"
        rows.append(("Pods", text))
    return rows


def _describe_suspension(status: FrameworkStatus | None, now: datetime) -> str:
    """Return since when the Framework is suspended; "" before its controller has reported it."""
    conditions = (status.conditions if status is not None else None) or ()
    found = next((c for c in conditions if c.type == SUSPENDED_CONDITION), None)
    if found is None or found.status != "True" or found.transition_time is None:
        return ""
    since = format_time(found.transition_time)
    return f", since {since} ({format_age(since, now)} ago)"


def _describe_moment(start: datetime | None, seconds: int, now: datetime) -> str:
    """Return when a time span ends; "" if it has not begun, or ends after the last year."""
    if start is None:
        return ""
    try:
        at = start + timedelta(seconds=seconds)
    except OverflowError:
        return ""
    left = (at - now).total_seconds()
    when = f"in {format_seconds(left)}" if left > 0 else "which has passed"
    return f", at {format_time(at)}, {when}"
