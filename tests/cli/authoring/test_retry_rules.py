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
        (
            "train=1-255",
            {},
            Severity.WARNING,
            (
                "retries a program that always ends with 1, as after an exception, without a "
                "limit: maxRetryCount does not count these retries"
            ),
            "begin with the first code that another start may mend, for example train=128-255",
        ),
    ],
)
def test_annotation_without_its_effect_is_named_with_a_remedy(
    text: str, policy: Any, severity: Severity, message: str, fix: str
) -> None:
    (found,) = lint(build(text, **policy), LintOptions())
    assert (found.rule, found.path) == ("retryable-exit-codes", PATH)
    assert (found.severity, found.message, found.fix) == (severity, message, fix)


def test_annotation_of_the_framework_is_named_once_with_its_place() -> None:
    framework = build("train=128-255")
    framework["spec"]["taskRoles"] *= 2
    framework["metadata"]["annotations"] = {RETRYABLE_CODES_ANNOTATION: "train=1-5"}
    (found,) = lint(framework, LintOptions())
    assert (found.rule, found.severity) == ("retryable-exit-codes", Severity.ERROR)
    assert found.path == f"metadata.annotations[{RETRYABLE_CODES_ANNOTATION}]"
    assert found.message == "has no effect here: only that of a Pod template counts"
    assert found.fix == "move it to spec.taskRoles[].task.pod.metadata.annotations"


@pytest.mark.parametrize("metadata", [None, 7, {"annotations": 7}, {"annotations": [1]}])
def test_metadata_of_another_type_is_not_looked_at(metadata: object) -> None:
    framework = build("train=128-255")
    framework["metadata"] = metadata
    assert lint(framework, LintOptions()) == []
