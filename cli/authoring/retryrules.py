"""The rules of `lint` about the exit codes that are retried. Pure.

Rules: docs/design/failure-handling.md, "Retryable exit codes".
"""

from collections.abc import Iterator, Mapping

from cli.authoring.findings import Finding, error, warning
from cli.files.templates import RoleTemplate
from framework.api import constants
from framework.api.retryable_codes import (
    ANNOTATION_FORM,
    find_fault,
    find_retryable_codes,
    find_text,
)
from framework.kube.resources import Object

_RULE = "retryable-exit-codes"
_KEY = f"annotations[{constants.RETRYABLE_CODES_ANNOTATION}]"
_UNCAUGHT_EXCEPTION = 1


def find_misplaced_codes(framework: Object) -> Iterator[Finding]:
    """Find an annotation of retryable exit codes of the Framework, in place of a Pod template."""
    if find_text(framework) is not None:
        yield error(
            _RULE,
            f"metadata.{_KEY}",
            "has no effect here: only that of a Pod template counts",
            "move it to spec.taskRoles[].task.pod.metadata.annotations",
        )


def retryable_exit_codes(_: Object, role: RoleTemplate, __: object) -> Iterator[Finding]:
    """Find an annotation of retryable exit codes that has no effect, or retries all failures."""
    template = role.body["task"]["pod"]
    if find_text(template) is None:
        return
    path = f"{role.path}.task.pod.metadata.{_KEY}"
    codes = find_retryable_codes(template)
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
    elif codes is not None and codes.contains(_UNCAUGHT_EXCEPTION):
        yield warning(
            _RULE,
            path,
            "retries a program that always ends with 1, as after an exception, without a limit: "
            "maxRetryCount does not count these retries",
            "begin with the first code that another start may mend, for example "
            + ANNOTATION_FORM.replace("tensorflow", codes.container),
        )


def _is_fancy(task: Object) -> bool:
    policy = task.get("retryPolicy")
    return isinstance(policy, Mapping) and policy.get("fancyRetryPolicy") is True
