"""Frameworks, Tasks and Pods as `run` sees them, and their view."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from cli.running.viewbuilder import build_view
from cli.running.views import FrameworkObjects, GangView
from framework.kube.resources import Object

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TIME = "2026-01-02T03:04:05Z"


def completion(code: int, kind: str = "Failed") -> Object:
    kind_wire = {"name": kind, "attributes": []}
    return {"code": code, "phrase": "Phrase", "type": kind_wire, "diagnostics": f"diagnosed {code}"}


SUCCESS = completion(0, "Succeeded")


def retries(count: int, delay_seconds: int | None) -> Object:
    counts = dict.fromkeys(("totalRetriedCount", "accountableRetriedCount"), count)
    return {**counts, "retryDelaySec": delay_seconds}


def task(
    index: int,
    state: str,
    *,
    attempt: int = 0,
    ip: str | None = None,
    ended: Object | None = None,
    retry_delay: int | None = None,
    deletion_pending: bool = False,
) -> Object:
    status = {"id": attempt, "startTime": TIME, "podName": f"gang-worker-{index}"}
    return {
        "index": index,
        "instanceUID": f"t{index}",
        "state": state,
        **dict.fromkeys(("startTime", "transitionTime"), TIME),
        "deletionPending": deletion_pending,
        "retryPolicyStatus": retries(attempt, retry_delay),
        "attemptStatus": {**status, "podIP": ip, "completionStatus": ended},
    }


def framework(
    *tasks: Object,
    state: str = "AttemptPreparing",
    ended: Object | None = None,
    retry_delay: int | None = None,
    blocked: str | None = None,
    reason: str = "NameTaken",
    suspended: str | None = None,
) -> Object:
    conditions = [{"type": "GangReady", "status": "False", "reason": "NoGang"}]
    if suspended is not None:
        conditions.append({"type": "Suspended", "status": suspended, "reason": "Suspended"})
    if blocked is not None:
        answer = {"status": "True", "reason": reason, "message": blocked}
        conditions.append({"type": "Blocked", **answer})
    roles = [{"name": "worker", "instanceUID": "r", "taskStatuses": list(tasks)}]
    attempt = {"id": 0, "startTime": TIME, "completionStatus": ended, "taskRoleStatuses": roles}
    status = {"conditions": conditions, "state": state, "attemptStatus": attempt}
    status |= dict.fromkeys(("startTime", "transitionTime"), TIME)
    return {
        "metadata": {"name": "gang", "namespace": "default", "uid": "u"},
        "status": {**status, "retryPolicyStatus": retries(0, retry_delay)},
    }


def pod(index: int, *, phase: str = "Pending", **status: Any) -> dict[str, Object]:
    name = f"gang-worker-{index}"
    metadata = {"name": name, "uid": f"p{index}"}
    status = {"phase": phase, **status}
    return {name: {"metadata": metadata, "spec": {"nodeName": "local"}, "status": status}}


def view(
    obj: Object | None,
    pods: Mapping[str, Object] | None = None,
    *,
    configmap: Object | None = None,
    warnings: Mapping[str, str] | None = None,
    now: datetime | None = NOW,
) -> GangView:
    return build_view(FrameworkObjects("gang", "default", obj, configmap, pods, warnings), now)


def notes(shown: GangView) -> dict[str, str]:
    return {str(line.key): line.note for line in shown.tasks}
