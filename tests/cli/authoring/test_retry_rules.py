"""`framework lint` on the annotation frameworkbarrier.io/retryable-exit-codes."""

from typing import Any

import pytest
import yaml

from cli.authoring.findings import Severity
from cli.authoring.rules import LintOptions, lint
from framework.api.constants import RETRYABLE_CODES_ANNOTATION

PATH = f"spec.taskRoles[0].task.pod.metadata.annotations[{RETRYABLE_CODES_ANNOTATION}]"


def build(text: object, **policy: Any) -> Any:
    return yaml.safe_load(f"""
    apiVersion: frameworkcontroller.microsoft.com/v1
    kind: Framework
    metadata: {{name: gang}}
    spec:
      executionType: Start
      retryPolicy: {{fancyRetryPolicy: true, maxRetryCount: 0}}
      taskRoles:
      - name: worker
        taskNumber: 1
        frameworkAttemptCompletionPolicy: {{minFailedTaskCount: 1, minSucceededTaskCount: 1}}
        task:
          retryPolicy: {policy or {"fancyRetryPolicy": True, "maxRetryCount": 0}}
          pod:
            metadata:
              annotations: {{{RETRYABLE_CODES_ANNOTATION}: {text!r}}}
            spec:
              restartPolicy: Never
              containers:
              - {{name: train, image: "app:1", command: [train]}}
    """)


def test_codes_of_a_container_lint_clean() -> None:
    assert lint(build("train=128-255"), LintOptions()) == []


@pytest.mark.parametrize(
    ("text", "policy", "severity", "message", "fix"),
    [
        (
            "128-255",
            {},
            Severity.ERROR,
            "'128-255' cannot be read, so the annotation has no effect",
            "write CONTAINER=LOW-HIGH with codes from 1 to 255, for example tensorflow=128-255",
        ),
        (
            "tensorflow=128-255",
            {},
            Severity.ERROR,
            "no container has the name tensorflow, so the annotation has no effect",
            "write the name of one: train",
        ),
        (
            "train=128-255",
            {"fancyRetryPolicy": False, "maxRetryCount": 3},
            Severity.WARNING,
            "has no effect without fancyRetryPolicy: maxRetryCount alone decides",
            "write `fancyRetryPolicy: true` in spec.taskRoles[0].task.retryPolicy",
        ),
    ],
)
def test_annotation_without_effect_is_named_with_a_remedy(
    text: str, policy: Any, severity: Severity, message: str, fix: str
) -> None:
    (found,) = lint(build(text, **policy), LintOptions())
    assert (found.rule, found.path) == ("retryable-exit-codes", PATH)
    assert (found.severity, found.message, found.fix) == (severity, message, fix)
