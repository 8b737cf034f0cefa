"""The rule of `lint` about the exit codes that are retried. Pure.

Rules: docs/design/failure-handling.md, "Retryable exit codes".
"""

from collections.abc import Iterator, Mapping

from cli.authoring.findings import Finding, error, warning
from cli.templates import RoleTemplate
from framework.api import constants
from framework.api.retryable_codes import find_fault, find_text
from framework.kube.resources import Object

_RULE = "retryable-exit-codes"


def retryable_exit_codes(_: Object, role: RoleTemplate, __: object) -> Iterator[Finding]:
    """Find an annotation of retryable exit codes that has no effect."""
    template = role.body["task"]["pod"]
    if find_text(template) is None:
        return
    path = f"{role.path}.task.pod.metadata.annotations[{constants.RETRYABLE_CODES_ANNOTATION}]"
    fault, remedy = find_fault(template, {str(c.body.get("name")) for c in role.list_containers()})
    if fault:
        yield error(_RULE, path, f"{fault}, so the annotation has no effect", remedy)
    elif not _is_fancy(role.body["task"]):
        yield warning(
            _RULE,
            path,
            "has no effect without fancyRetryPolicy: maxRetryCount alone decides",
            f"write `fancyRetryPolicy: true` in {role.path}.task.retryPolicy",
        )


def _is_fancy(task: Object) -> bool:
    policy = task.get("retryPolicy")
    return isinstance(policy, Mapping) and policy.get("fancyRetryPolicy") is True
