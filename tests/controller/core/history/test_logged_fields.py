"""The history log shows listed fields only, and no more than there is room for."""

from collections.abc import Iterator
from typing import Any

import pytest

from controller.core.history.logged_fields import select_logged_fields
from framework.api import gojson

SECRET = "s3cret"
STATUS = {
    "phase": "Failed",
    "message": SECRET,
    "conditions": [{"type": "Ready", "status": "False", "reason": "PodFailed", "message": SECRET}],
    "containerStatuses": [
        {
            "name": "main",
            "restartCount": 2,
            "state": {"terminated": {"exitCode": 3, "reason": "Error", "message": SECRET}},
            "lastState": {"waiting": {"reason": "CrashLoopBackOff", "message": SECRET}},
        }
    ],
}
CONTAINER = {
    "name": "main",
    "image": "python:3.12",
    "command": [SECRET],
    "args": [SECRET],
    "env": [{"name": "A", "value": SECRET}],
    "livenessProbe": {"httpGet": {"httpHeaders": [{"name": "Authorization", "value": SECRET}]}},
    "lifecycle": {"preStop": {"exec": {"command": [SECRET]}}},
    "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": 8}, "claims": [{"name": SECRET}]},
}
POD = {
    "metadata": {
        "name": "gang-worker-0",
        "namespace": "default",
        "uid": "u-1",
        "labels": {"FC_FRAMEWORK_NAME": "gang", "team": SECRET},
        "annotations": {
            "FC_TASK_UID": "t-1",
            "kubectl.kubernetes.io/last-applied-configuration": SECRET,
            "FC_OTHER": SECRET,
        },
        "managedFields": [{"manager": SECRET}],
        "ownerReferences": [{"kind": "ConfigMap", "name": "gang-attempt", "uid": "u-2"}],
    },
    "spec": {"containers": [CONTAINER], "nodeName": "node-1", "volumes": [{"name": SECRET}]},
    "status": STATUS,
}


def test_pod_is_logged_without_what_may_hold_secrets() -> None:
    body = select_logged_fields("Pod", "v1", POD)
    assert SECRET not in gojson.dumps(body)
    assert body == {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": "gang-worker-0",
            "namespace": "default",
            "uid": "u-1",
            "labels": {"FC_FRAMEWORK_NAME": "gang"},
            "annotations": {"FC_TASK_UID": "t-1"},
            "ownerReferences": [{"kind": "ConfigMap", "name": "gang-attempt", "uid": "u-2"}],
        },
        "spec": {
            "nodeName": "node-1",
            "containers": [
                {
                    "name": "main",
                    "image": "python:3.12",
                    "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": 8}},
                }
            ],
        },
        "status": {
            "phase": "Failed",
            "conditions": [{"type": "Ready", "status": "False", "reason": "PodFailed"}],
            "containerStatuses": [
                {
                    "name": "main",
                    "state": {"terminated": {"exitCode": 3, "reason": "Error"}},
                    "lastState": {"waiting": {"reason": "CrashLoopBackOff"}},
                    "restartCount": 2,
                }
            ],
        },
    }


@pytest.mark.parametrize("odd", [None, "text", 5, [], ["x"], {"x": 1}, [{"name": {"a": SECRET}}]])
def test_object_of_another_form_is_logged_as_far_as_it_is_known(odd: Any) -> None:
    for part in ("metadata", "spec", "status"):
        body = select_logged_fields("Pod", "v1", {**POD, part: odd})
        assert SECRET not in gojson.dumps(body)
    body = select_logged_fields("Pod", "v1", {**POD, "spec": {"containers": odd}})
    assert SECRET not in gojson.dumps(body)


@pytest.mark.parametrize("name", ["a" * 10**6, "\x00" * 10**6, "<" * 10**6, "ü" * 10**6])
def test_object_of_any_size_is_logged_within_the_limit(name: str) -> None:
    read = 0

    def repeat() -> Iterator[dict[str, Any]]:
        nonlocal read
        while True:
            read += 1
            yield {"name": name, "state": {"terminated": {"reason": name}}}

    spec = {"containers": repeat(), "nodeName": name}
    status = {"containerStatuses": repeat(), "phase": name}
    body = select_logged_fields("Pod", "v1", {"metadata": {}, "spec": spec, "status": status})
    assert body["cut"] is True
    assert len(gojson.dumps(body).encode()) < 256 * 1024
    assert read < 10_000
