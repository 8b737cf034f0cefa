"""Pods and ConfigMaps with the longest names that the API server stores: little is kept."""

from collections.abc import Callable
from typing import Any

import pytest

from controller.core.actions import ObjectKind
from controller.store.object_identity import owner_key
from framework.api import constants
from framework.api.pods import parse_configmap, parse_pod, trim_configmap, trim_pod
from framework.kube.client import KubeClient
from framework.kube.resources import CONFIGMAPS, PODS, Object, Resource

pytestmark = pytest.mark.kube
LONG = "x" * 900_000
MAX_KEPT_CHARS = 4_000


def build_owner(**changed: str) -> Object:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a-attempt", "uid": "u"}
    return {"ownerReferences": [owner | {"controller": True} | changed]}


def build_pod(metadata: Object, **spec: Any) -> tuple[Resource, Object]:
    container = {"name": "main", "image": "local/none:1"}
    return PODS, {"metadata": metadata, "spec": {"containers": [container], **spec}}


@pytest.mark.parametrize(
    ("resource", "body"),
    [
        build_pod({}, schedulerName=LONG),
        build_pod({}, schedulingGates=[{"name": f"gate/{n:060}"} for n in range(3000)]),
        build_pod(build_owner(name=LONG + "-attempt")),
        build_pod(build_owner(kind=LONG)),
        build_pod(build_owner(uid=LONG)),
        build_pod({"finalizers": [f"a.b/{n:060}" for n in range(5000)]}),
        (CONFIGMAPS, {"metadata": {"finalizers": [f"a.b/{n:060}" for n in range(5000)]}}),
        (CONFIGMAPS, {"metadata": build_owner(uid=LONG)}),
        (CONFIGMAPS, {"metadata": build_owner(name=LONG)}),
    ],
)
async def test_little_is_kept_of_a_long_object(
    kube: KubeClient, namespace: str, resource: Resource, body: Object
) -> None:
    body["metadata"] |= {"name": "a-attempt", "labels": {constants.FRAMEWORK_NAME: "a"}}
    stored = await kube.create(resource, namespace, body)
    is_pod = resource is PODS
    trim: Callable[[Object], Object] = trim_pod if is_pod else trim_configmap
    kind = ObjectKind.POD if is_pod else ObjectKind.CONFIGMAP
    view = (parse_pod if is_pod else parse_configmap)(stored)
    assert len(repr(view)) < MAX_KEPT_CHARS
    assert len(repr(trim(stored))) < MAX_KEPT_CHARS
    assert len(owner_key(kind, stored)) < MAX_KEPT_CHARS
    await kube.delete(resource, namespace, "a-attempt", grace_seconds=0)
