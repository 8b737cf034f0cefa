from dataclasses import replace
from typing import Any

import pytest

from framework.api.completion import complete_task
from framework.api.endings import (
    describe_container_end,
    describe_framework_end,
    describe_task_end,
)
from framework.api.types import (
    CompletionPolicyTriggerStatus,
    CompletionType,
    ContainerCompletionStatus,
    FrameworkAttemptCompletionStatus,
    PodCompletionStatus,
    TaskAttemptCompletionStatus,
)
from tests.support.builders import build_role_status, build_status, build_task, end_task

FAILED = CompletionType("Failed", ())
MAIN = ContainerCompletionStatus("main", code=7, message="a secret")
WELL = ContainerCompletionStatus("sidecar")


def end(
    code: int = 7, *containers: ContainerCompletionStatus, **pod: Any
) -> TaskAttemptCompletionStatus:
    status = PodCompletionStatus(containers=containers, **pod)
    return TaskAttemptCompletionStatus(code, "Phrase", FAILED, "diagnostics", status)


@pytest.mark.parametrize(
    ("code", "signal", "reason", "words"),
    [
        (7, 0, "Error", "exited with 7"),
        (7, 0, "StartError", "exited with 7 (StartError)"),
        (137, 0, "", "was killed by SIGKILL (exit code 137)"),
        (137, 0, "OOMKilled", "was killed by SIGKILL (exit code 137, OOMKilled)"),
        (0, 15, "", "was killed by SIGTERM"),
        (0, 35, "", "was killed by signal 35"),
        (201, 0, "", "exited with 201"),
        (128, 0, "", "exited with 128"),
    ],
)
def test_words_for_the_end_of_a_container(code: int, signal: int, reason: str, words: str) -> None:
    assert describe_container_end(code, signal, reason) == words


@pytest.mark.parametrize(
    ("completion", "words"),
    [
        (end(7, MAIN), "exited with 7"),
        (end(7, WELL, MAIN), "failed: its container main exited with 7"),
        (end(-1400, MAIN), "exited with 7: code -1400 (Phrase)"),
        (
            end(3, MAIN, ContainerCompletionStatus("init", code=3)),
            "failed: its container init exited with 3",
        ),
        (end(-300, reason="Evicted"), "failed: Evicted"),
        (end(-300), "failed with code -300 (Phrase)"),
        (complete_task(-220, "x"), "was ended with its Framework"),
        (complete_task(-221, "x"), "was left running at the end of its Framework"),
        (complete_task(-310, "x"), "has no Pod: the API server refused it"),
        (complete_task(0, "x"), "succeeded"),
    ],
    ids=[
        "alone",
        "of two",
        "rule",
        "its code",
        "evicted",
        "unknown",
        "gang",
        "left running",
        "refused",
        "succeeded",
    ],
)
def test_words_for_the_end_of_a_task(completion: TaskAttemptCompletionStatus, words: str) -> None:
    assert describe_task_end(completion) == words


@pytest.mark.parametrize(
    ("trigger", "code", "words"),
    [
        (CompletionPolicyTriggerStatus("", "worker", 0), 7, "worker/0 exited with 7"),
        (CompletionPolicyTriggerStatus("", "worker", 9), 7, "it failed with code 7 (Phrase)"),
        (None, -210, "it was stopped by a user"),
        (None, -100, "it lost its ConfigMap: another client deleted it"),
    ],
)
def test_words_for_the_end_of_a_framework(
    trigger: CompletionPolicyTriggerStatus | None, code: int, words: str
) -> None:
    task = end_task(build_task(), end(7, MAIN))
    status = build_status(build_role_status(tasks=(task,)))
    completion = FrameworkAttemptCompletionStatus(code, "Phrase", FAILED, "", trigger)
    attempt = replace(status.attempt_status, completion_status=completion)
    assert describe_framework_end(replace(status, attempt_status=attempt)) == words


def test_attempt_that_goes_on_has_no_words() -> None:
    assert describe_framework_end(build_status()) == ""
