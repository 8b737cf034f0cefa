"""Eight situations in which a Framework may be found, written as the original writes its objects.

Each is a list: the Framework, its attempt's ConfigMap if any, its Pods.
"""

import base64
import gzip
import json
from collections.abc import Callable
from functools import partial
from typing import Any

from framework.kube.resources import Object
from tests.upgrade.originals import Original


def build_completion(
    code: int, phrase: str, diagnostics: str, kind: str = "Failed", *attributes: str, **more: Object
) -> Object:
    ending = {"name": kind, "attributes": list(attributes)}
    return {"code": code, "phrase": phrase, "type": ending, "diagnostics": diagnostics, **more}


def build_ended(code: int, reason: str) -> Object:
    return {"containers": [{"name": "main", "reason": reason, "code": code}]}


PERMANENT = ("Failed", "Permanent")
STOPPED = build_completion(
    -210, "StopFrameworkRequested", "User has requested to stop the Framework", *PERMANENT
)
ATTEMPT_ENDED = build_completion(
    -220, "FrameworkAttemptCompletion", "Stop to complete current FrameworkAttempt", *PERMANENT
)
SCALED_DOWN = build_completion(
    -230,
    "DeleteTaskRequested",
    "User has requested to delete the Task by Framework ScaleDown",
    *PERMANENT,
)
SUCCEEDED = build_completion(
    0, "Succeeded", "Pod succeeded", "Succeeded", pod=build_ended(0, "Completed")
)
CONFLICTED = build_completion(
    201,
    "ContainerTransientConflictFailed",
    'Pod failed: PodPattern matched: {"containers":[{"name":"main","code":201}]}',
    *("Failed", "Transient", "Conflict"),
)
FAILED = build_completion(
    7,
    "ContainerUnrecognizedFailed",
    'Pod failed: PodPattern unmatched: {"containers":[{"name":"main","reason":"Error","code":7}]}',
    pod=build_ended(7, "Error"),
)


def created(original: Original) -> list[Object]:
    """The user has not started it yet."""
    state = "AttemptCreationPending"
    tasks = {"a": [original.build_task("a", index, state) for index in (0, 1)]}
    unstarted: dict[str, Any] = {"execution": "Create", "has_configmap": False}
    return [original.build_framework(state, tasks, **unstarted)]


def preparing(original: Original) -> list[Object]:
    """The original was stopped while it created Pods.

    The Pod of Task 2 exists and its UID was not recorded yet; that of Task 3 does not exist.
    """
    states = ["AttemptPreparing"] * 2 + ["AttemptCreationPending"] * 2
    tasks = [original.build_task("a", index, state) for index, state in enumerate(states)]
    return [
        original.build_framework("AttemptPreparing", {"a": tasks}),
        original.build_configmap(),
        *(original.build_pod("a", index, "Pending") for index in range(3)),
    ]


def running(original: Original) -> list[Object]:
    """Worker 1 is in its second attempt."""
    state = "AttemptRunning"
    workers = [
        original.build_task("worker", 0, state),
        original.build_task("worker", 1, "AttemptPreparing", attempt=1),
        original.build_task("worker", 2, state),
    ]
    tasks = {"ps": [original.build_task("ps", 0, state)], "worker": workers}
    return [
        original.build_framework(state, tasks, retries={"worker": 2}, ran=True),
        original.build_configmap(),
        original.build_pod("ps", 0, "Running"),
        original.build_pod("worker", 0, "Running"),
        original.build_pod("worker", 1, "Pending", attempt=1),
        original.build_pod("worker", 2, "Running"),
    ]


def retrydelay(original: Original) -> list[Object]:
    """The next attempt is to begin in a few seconds."""
    policy = "FailedTaskCount 1 has reached MinFailedTaskCount 1 in the TaskRole"
    trigger = {"message": policy, "taskRoleName": "a", "taskIndex": 0}
    completion = {**CONFLICTED, "pod": build_ended(201, "Error")}
    framework = original.build_framework(
        "AttemptCompleted",
        {"a": [original.build_task("a", 0, "Completed", completion=completion)]},
        fancy=True,
        ran=True,
        ended_ago=60,
        since=60,
        completion={**CONFLICTED, "trigger": trigger},
        retry_delay=603,
    )
    return [framework]


def completed(original: Original) -> list[Object]:
    """It has succeeded, and is kept."""
    message = (
        "CompletedTaskCount 2 has reached TotalTaskCount 2 and no user specified conditions in "
        "FrameworkAttemptCompletionPolicy have ever been triggered"
    )
    tasks = [original.build_task("a", i, "Completed", completion=SUCCEEDED) for i in (0, 1)]
    trigger = {"message": message, "taskRoleName": "a", "taskIndex": 1}
    completion = build_completion(0, "Succeeded", message, "Succeeded", trigger=trigger)
    ended: dict[str, Any] = {"ran": True, "ended_ago": 299, "since": 299, "completion": completion}
    return [original.build_framework("Completed", {"a": tasks}, **ended)]


def completing(original: Original) -> list[Object]:
    """It was stopped after a Task had failed; a finalizer holds both Pods."""
    tasks = [
        original.build_task("a", index, "AttemptDeleting", completion=completion)
        for index, completion in enumerate((FAILED, ATTEMPT_ENDED))
    ]
    stopped: dict[str, Any] = {"execution": "Stop", "completion": STOPPED, "ran": True}
    held: dict[str, Any] = {"hold": True, "is_deleted": True}
    return [
        original.build_framework("AttemptDeleting", {"a": tasks}, hold=True, **stopped),
        original.build_configmap(is_deleted=True),
        original.build_pod("a", 0, "Failed", exit_code=7, **held),
        original.build_pod("a", 1, "Running", **held),
    ]


def scalingdown(original: Original) -> list[Object]:
    """Two of three Tasks are to be deleted; a finalizer holds their Pods."""
    leaving: dict[str, Any] = {"deletion_pending": True, "completion": SCALED_DOWN}
    tasks = [
        original.build_task("a", 0, "AttemptRunning"),
        original.build_task("a", 1, "AttemptDeleting", **leaving),
        original.build_task("a", 2, "AttemptDeleting", **leaving),
    ]
    state = "AttemptRunning"
    return [
        original.build_framework(state, {"a": tasks}, numbers={"a": 1}, hold=True, ran=True),
        original.build_configmap(),
        *(
            original.build_pod("a", index, "Running", hold=True, is_deleted=index > 0)
            for index in range(3)
        ),
    ]


def compressed(original: Original) -> list[Object]:
    """Its Tasks' statuses are too long to be stored as they are: those of ended Tasks are long."""
    long = {**SUCCEEDED, "diagnostics": "Pod succeeded" + 60_000 * "."}
    tasks = [original.build_task("a", i, "Completed", completion=long) for i in range(12)]
    tasks += [original.build_task("a", index, "AttemptRunning") for index in (12, 13)]
    framework = original.build_framework("AttemptRunning", {"a": tasks}, ran=True)
    attempt = framework["status"]["attemptStatus"]
    plain = json.dumps(attempt["taskRoleStatuses"], separators=(",", ":")).encode()
    attempt["taskRoleStatuses"] = None
    attempt["taskRoleStatusesCompressed"] = base64.b64encode(gzip.compress(plain)).decode()
    return [
        framework,
        original.build_configmap(),
        *(original.build_pod("a", index, "Running") for index in (12, 13)),
    ]


_BUILDERS: tuple[Callable[[Original], list[Object]], ...] = (
    created, preparing, running, retrydelay, completed, completing, scalingdown, compressed,
)  # fmt: skip
SITUATIONS: dict[str, Callable[[], list[Object]]] = {
    build.__name__: partial(build, Original(build.__name__)) for build in _BUILDERS
}
