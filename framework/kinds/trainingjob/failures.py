"""What has failed in the current attempt of a TrainingJob. Pure.

The decision about a job lists the failures once. They become conditions of its status, and an Event
when they are new.
"""

from collections.abc import Iterator

from framework.api.endings import INHERITED_CODES
from framework.api.naming import build_pod_name
from framework.api.types import Framework, TaskStatus
from framework.kinds.ends import describe_failure, describe_task_failure
from framework.kinds.observing import (
    ATTEMPT_FAILED,
    WORKERS_FAILED,
    AddedCondition,
    is_completed,
    list_tasks,
)
from framework.kinds.trainingjob.types import LAUNCHER, WORKER

_WORKER_FAILED = "TrainingJobWorkerFailed"
"""Reason of an Event of the original."""


def list_failures(name: str, framework: Framework | None) -> Iterator[AddedCondition]:
    """List what has failed in an attempt: workers that are not replaced, or the attempt itself."""
    if framework is None or framework.status is None:
        return
    failed = [
        (task.index, end)
        for task in list_tasks(framework, WORKER)
        if (end := task.attempt_status.completion_status) is not None
        if has_failed(task)
    ]
    if failed:
        index, end = failed[0]
        text = describe_task_failure(build_pod_name(name, WORKER, index), end)
        yield AddedCondition(
            WORKERS_FAILED,
            _WORKER_FAILED,
            f"{len(failed)} failed, and the restartPolicy of worker does not replace them; {text}",
        )
    attempt = framework.status.attempt_status
    completion = attempt.completion_status
    is_over = completion is not None and completion.code not in INHERITED_CODES
    text = describe_failure(framework.status, LAUNCHER) if is_over else ""
    if text and not is_completed(framework):
        yield AddedCondition(ATTEMPT_FAILED, "TrainingJobFailed", f"attempt {attempt.id}: {text}")


def has_failed(task: TaskStatus) -> bool:
    """Return whether a Task has failed by itself, not only ended with the job."""
    end = task.attempt_status.completion_status
    return task.is_failed and end is not None and end.code not in INHERITED_CODES
