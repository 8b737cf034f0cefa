"""The rule of `lint` about avoided nodes. Pure.

Rules: docs/design/avoiding.md.
"""

from collections.abc import Iterator

from cli.authoring.findings import Finding, warning
from cli.files.templates import RoleTemplate, list_task_numbers
from framework.api import constants
from framework.api.codec import TASK_ROLE_SPEC
from framework.api.fielderrors import FieldErrors
from framework.api.types import RetryPolicySpec
from framework.kube.resources import Object


def unused_avoidance(framework: Object, role: RoleTemplate, _: object) -> Iterator[Finding]:
    """Find `avoidNodes` that never takes effect."""
    try:
        spec = TASK_ROLE_SPEC.decode_or_raise(role.body)
    except FieldErrors:
        return
    avoid = spec.recovery.avoid_nodes if spec.recovery is not None else None
    if avoid is None:
        return
    fault = (
        _check_retries(spec.task.retry_policy, avoid.failures)
        or _check_node(role)
        or _check_size(framework, avoid.failures)
    )
    if fault is not None:
        path = f"{role.path}.{constants.RECOVERY_FIELD}.{constants.AVOID_NODES_FIELD}"
        yield warning("unused-avoidance", path, *fault)


_Fault = tuple[str, str]
"""What happens, and what to write instead."""


def _check_retries(policy: RetryPolicySpec, failures: int) -> _Fault | None:
    if policy.fancy_retry_policy or not 0 <= policy.max_retry_count < failures:
        return None
    count = policy.max_retry_count
    return (
        f"a Task is retried {count} times, and avoids a node after {failures} failures",
        f"set task.retryPolicy.maxRetryCount to {failures} or more",
    )


def _check_node(role: RoleTemplate) -> _Fault | None:
    name = role.pod_spec.get("nodeName")
    if not name:
        return None
    return f"nodeName of the template is {name}: the Pods have no other node", "remove nodeName"


def _check_size(framework: Object, failures: int) -> _Fault | None:
    tasks = sum(number for number in list_task_numbers(framework) if isinstance(number, int))
    most = constants.MAX_NODE_FAILURES
    if tasks * failures <= most:
        return None
    return (
        f"the status stores {most} failures at most, too few for {failures} of {tasks} Tasks",
        f"set failures to {max(1, most // tasks)}, or lower taskNumber",
    )
