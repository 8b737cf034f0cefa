"""Eight situations in which a Framework may be found, written as the original writes its objects.

Called by the tests of taking over. Each is a list: the Framework, its attempt's ConfigMap if any,
its Pods.
"""

import base64
import gzip
import json
from collections.abc import Callable
from typing import Any

from framework.kube.resources import Object
from tests.upgrade.originals import (
    build_configmap,
    build_framework,
    build_pod,
    build_role,
    build_role_status,
    build_status,
    build_task,
)

STOPPED = {
    "code": -210,
    "phrase": "StopFrameworkRequested",
    "type": {"name": "Failed", "attributes": ["Permanent"]},
    "diagnostics": "User has requested to stop the Framework",
}
ATTEMPT_ENDED = {
    "code": -220,
    "phrase": "FrameworkAttemptCompletion",
    "type": {"name": "Failed", "attributes": ["Permanent"]},
    "diagnostics": "Stop to complete current FrameworkAttempt",
}
SCALED_DOWN = {
    "code": -230,
    "phrase": "DeleteTaskRequested",
    "type": {"name": "Failed", "attributes": ["Permanent"]},
    "diagnostics": "User has requested to delete the Task by Framework ScaleDown",
}
SUCCEEDED = {
    "code": 0,
    "phrase": "Succeeded",
    "type": {"name": "Succeeded", "attributes": []},
    "diagnostics": "Pod succeeded",
    "pod": {"containers": [{"name": "main", "reason": "Completed", "code": 0}]},
}
CONFLICTED = {
    "code": 201,
    "phrase": "ContainerTransientConflictFailed",
    "type": {"name": "Failed", "attributes": ["Transient", "Conflict"]},
    "diagnostics": 'Pod failed: PodPattern matched: {"containers":[{"name":"main","code":201}]}',
}


def created() -> list[Object]:
    """The user has not started it yet."""
    tasks = [build_task("created", "a", index, "AttemptCreationPending") for index in (0, 1)]
    roles = [build_role_status("created", "a", tasks)]
    status = build_status("created", "AttemptCreationPending", roles, has_configmap=False)
    return [build_framework("created", [build_role("a", 2)], status, execution="Create")]


def preparing() -> list[Object]:
    """The original was stopped while it created Pods.

    The Pod of Task 2 is there and its UID was not recorded yet; that of Task 3 is not there.
    """
    states = ["AttemptPreparing"] * 2 + ["AttemptCreationPending"] * 2
    tasks = [build_task("preparing", "a", index, state) for index, state in enumerate(states)]
    roles = [build_role_status("preparing", "a", tasks)]
    return [
        build_framework(
            "preparing",
            [build_role("a", 4)],
            build_status("preparing", "AttemptPreparing", roles),
        ),
        build_configmap("preparing"),
        *(build_pod("preparing", "a", index, "Pending") for index in range(3)),
    ]


def running() -> list[Object]:
    """Worker 1 is in its second attempt."""
    workers = [
        build_task("running", "worker", 0, "AttemptRunning"),
        build_task("running", "worker", 1, "AttemptPreparing", attempt=1),
        build_task("running", "worker", 2, "AttemptRunning"),
    ]
    roles = [
        build_role_status("running", "ps", [build_task("running", "ps", 0, "AttemptRunning")]),
        build_role_status("running", "worker", workers),
    ]
    return [
        build_framework(
            "running",
            [build_role("ps", 1), build_role("worker", 3, retries=2)],
            build_status("running", "AttemptRunning", roles, ran=True),
        ),
        build_configmap("running"),
        build_pod("running", "ps", 0, "Running"),
        build_pod("running", "worker", 0, "Running"),
        build_pod("running", "worker", 1, "Pending", attempt=1),
        build_pod("running", "worker", 2, "Running"),
    ]


def retrydelay() -> list[Object]:
    """The next attempt is to begin in a few seconds."""
    policy = "FailedTaskCount 1 has reached MinFailedTaskCount 1 in the TaskRole"
    trigger = {"message": policy, "taskRoleName": "a", "taskIndex": 0}
    pod = {"containers": [{"name": "main", "reason": "Error", "code": 201}]}
    task = build_task("retrydelay", "a", 0, "Completed", completion={**CONFLICTED, "pod": pod})
    status = build_status(
        "retrydelay",
        "AttemptCompleted",
        [build_role_status("retrydelay", "a", [task])],
        ran=True,
        ended_ago=60,
        since=60,
        completion={**CONFLICTED, "trigger": trigger},
        retry_delay=63,
    )
    return [build_framework("retrydelay", [build_role("a", 1)], status, fancy=True)]


def completed() -> list[Object]:
    """It has succeeded, and is kept."""
    message = (
        "CompletedTaskCount 2 has reached TotalTaskCount 2 and no user specified conditions in "
        "FrameworkAttemptCompletionPolicy have ever been triggered"
    )
    tasks = [build_task("completed", "a", i, "Completed", completion=SUCCEEDED) for i in (0, 1)]
    completion = {key: SUCCEEDED[key] for key in ("code", "phrase", "type")} | {
        "diagnostics": message,
        "trigger": {"message": message, "taskRoleName": "a", "taskIndex": 1},
    }
    status = build_status(
        "completed",
        "Completed",
        [build_role_status("completed", "a", tasks)],
        ran=True,
        ended_ago=299,
        since=299,
        completion=completion,
    )
    return [build_framework("completed", [build_role("a", 2)], status)]


def completing() -> list[Object]:
    """It was stopped after a Task had failed; a finalizer holds both Pods."""
    failed = {
        "code": 7,
        "phrase": "ContainerUnrecognizedFailed",
        "type": {"name": "Failed", "attributes": []},
        "diagnostics": 'Pod failed: PodPattern unmatched: {"containers":[{"name":"main",'
        '"reason":"Error","code":7}]}',
        "pod": {"containers": [{"name": "main", "reason": "Error", "code": 7}]},
    }
    tasks = [
        build_task("completing", "a", 0, "AttemptDeleting", completion=failed),
        build_task("completing", "a", 1, "AttemptDeleting", completion=ATTEMPT_ENDED),
    ]
    roles = [build_role_status("completing", "a", tasks)]
    status = build_status("completing", "AttemptDeleting", roles, ran=True, completion=STOPPED)
    spec = [build_role("a", 2, hold=True)]
    held: dict[str, Any] = {"hold": True, "is_deleted": True}
    return [
        build_framework("completing", spec, status, execution="Stop"),
        build_configmap("completing", is_deleted=True),
        build_pod("completing", "a", 0, "Failed", exit_code=7, **held),
        build_pod("completing", "a", 1, "Running", **held),
    ]


def scalingdown() -> list[Object]:
    """Two of three Tasks are going; a finalizer holds their Pods."""
    going: dict[str, Any] = {"deletion_pending": True, "completion": SCALED_DOWN}
    tasks = [
        build_task("scalingdown", "a", 0, "AttemptRunning"),
        build_task("scalingdown", "a", 1, "AttemptDeleting", **going),
        build_task("scalingdown", "a", 2, "AttemptDeleting", **going),
    ]
    roles = [build_role_status("scalingdown", "a", tasks)]
    status = build_status("scalingdown", "AttemptRunning", roles, ran=True)
    return [
        build_framework("scalingdown", [build_role("a", 1, hold=True)], status),
        build_configmap("scalingdown"),
        build_pod("scalingdown", "a", 0, "Running", hold=True),
        build_pod("scalingdown", "a", 1, "Running", hold=True, is_deleted=True),
        build_pod("scalingdown", "a", 2, "Running", hold=True, is_deleted=True),
    ]


def compressed() -> list[Object]:
    """Its Tasks' statuses are too long to be stored as they are: the ended ones say a lot."""
    said = {**SUCCEEDED, "diagnostics": "Pod succeeded" + 60_000 * "."}
    ended = [build_task("compressed", "a", i, "Completed", completion=said) for i in range(12)]
    running = [build_task("compressed", "a", index, "AttemptRunning") for index in (12, 13)]
    roles = [build_role_status("compressed", "a", [*ended, *running])]
    status = build_status("compressed", "AttemptRunning", [], ran=True)
    packed = gzip.compress(json.dumps(roles, separators=(",", ":")).encode())
    status["attemptStatus"] |= {
        "taskRoleStatuses": None,
        "taskRoleStatusesCompressed": base64.b64encode(packed).decode(),
    }
    return [
        build_framework("compressed", [build_role("a", 14)], status),
        build_configmap("compressed"),
        *(build_pod("compressed", "a", index, "Running") for index in (12, 13)),
    ]


SITUATIONS: dict[str, Callable[[], list[Object]]] = {
    build.__name__: build
    for build in (
        created,
        preparing,
        running,
        retrydelay,
        completed,
        completing,
        scalingdown,
        compressed,
    )
}
