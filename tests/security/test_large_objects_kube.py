"""Objects with the longest names and the deepest fields that a real API server stores.

And lists of them: the server lets each page of a list have a limit of its own.
"""

import contextlib
import json
from typing import Any

import pytest

from controller.core.actions import ObjectKind
from controller.store.object_identity import owner_key
from framework.api import constants
from framework.api.pods import parse_configmap, parse_pod, trim_configmap, trim_pod
from framework.kube.client import PAGE_SIZE, KubeClient
from framework.kube.errors import NotFoundError
from framework.kube.pages import MAX_PAGE_BYTES
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS, Object, Resource
from framework.kube.transport import Request, Transport
from tests.support.builders import build_role_wire, build_submission
from tests.support.servers.jsonhttp import JsonHttp

pytestmark = pytest.mark.kube
LONG = "x" * 900_000
MAX_KEPT_CHARS = 4_000
DEEP = b'{"f:a":' * 5000 + b"{}" + b"}" * 5000


def own(**changed: str) -> Object:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a-attempt", "uid": "u"}
    return {"ownerReferences": [owner | {"controller": True} | changed]}


def build_pod(metadata: Object, **spec: Any) -> Object:
    container = {"name": "main", "image": "local/none:1"}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


MANY_FINALIZERS = {"finalizers": [f"a.b/{n:060}" for n in range(5000)]}
MANY_GATES = [{"name": f"gate/{n:060}"} for n in range(3000)]


@pytest.mark.parametrize(
    ("resource", "body"),
    [
        (PODS, build_pod({}, schedulerName=LONG)),
        (PODS, build_pod({}, schedulingGates=MANY_GATES)),
        (PODS, build_pod(own(name=LONG + "-attempt"))),
        (PODS, build_pod(own(kind=LONG))),
        (PODS, build_pod(own(uid=LONG))),
        (PODS, build_pod(MANY_FINALIZERS)),
        (CONFIGMAPS, {"metadata": MANY_FINALIZERS}),
        (CONFIGMAPS, {"metadata": own(uid=LONG)}),
        (CONFIGMAPS, {"metadata": own(name=LONG)}),
    ],
)
async def test_controller_keeps_little_of_a_long_object(
    kube: KubeClient, namespace: str, resource: Resource, body: Object
) -> None:
    identity = {"name": "a-attempt", "labels": {constants.FRAMEWORK_NAME: "a"}}
    stored = await kube.create(
        resource, namespace, {**body, "metadata": body["metadata"] | identity}
    )
    view: object
    if resource is PODS:
        kind, view, trimmed = ObjectKind.POD, parse_pod(stored), trim_pod(stored)
    else:
        kind, view, trimmed = ObjectKind.CONFIGMAP, parse_configmap(stored), trim_configmap(stored)
    for kept in (view, trimmed, owner_key(kind, stored)):
        assert len(repr(kept)) < MAX_KEPT_CHARS
    # The garbage collector may have deleted it, because its owner does not exist.
    with contextlib.suppress(NotFoundError):
        await kube.delete(resource, namespace, "a-attempt", grace_seconds=0)


def build_deep(resource: Resource) -> bytes:
    """Build an object with the deepest field that the server stores."""
    if resource is FRAMEWORKS:
        role = build_role_wire()
        role["task"]["pod"]["spec"]["deep"] = "@"
        body = build_submission("deep", role)
    else:
        entry = {"manager": "a", "operation": "Update", "apiVersion": "v1"}
        fields = {"fieldsType": "FieldsV1", "fieldsV1": "@"}
        body = build_pod({"name": "deep", "managedFields": [entry | fields]})
    return json.dumps(body).encode().replace(b'"@"', DEEP)


@pytest.mark.parametrize(
    ("resource", "other"),
    [(FRAMEWORKS, build_submission("other")), (PODS, build_pod({"name": "other"}))],
    ids=["frameworks", "pods"],
)
async def test_deep_object_is_listed_and_watched_beside_others(
    framework_crd: None,
    kube: KubeClient,
    http: JsonHttp,
    namespace: str,
    resource: Resource,
    other: Object,
) -> None:
    for body in (build_deep(resource), other):
        status, answer = http.request("POST", resource.path(namespace), body)
        assert status == 201, answer
    listed = await kube.list(resource, namespace)
    assert [item["metadata"]["name"] for item in listed["items"]] == ["deep", "other"]

    names: set[str] = set()
    async with contextlib.aclosing(kube.watch(resource, namespace)) as events:
        async for _, found in events:
            names.add(found["metadata"].get("name"))
            if len(names) == 2:
                break
    assert names == {"deep", "other"}


async def test_list_of_small_and_large_objects_is_whole_in_small_pages(
    kube: KubeClient, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = []
    for prefix, number, size in (("a", 160, 10), ("b", 30, 1_000_000), ("c", 20, 10)):
        for index in range(number):
            metadata = {"name": f"{prefix}-{index:03}", "labels": {"test": "pages"}}
            body = {"metadata": metadata, "data": {"a": "x" * size}}
            await kube.create(CONFIGMAPS, namespace, body)
            names.append(metadata["name"])
    sizes: list[int] = []
    send = Transport.send

    async def measure(self: Transport, request: Request) -> bytes:
        sizes.append(0)
        raw = await send(self, request)
        sizes[-1] = len(raw)
        return raw

    monkeypatch.setattr(Transport, "send", measure)
    whole = await kube.list(CONFIGMAPS, namespace, label_selector="test=pages", limit=PAGE_SIZE)
    assert [item["metadata"]["name"] for item in whole["items"]] == names
    assert max(sizes) <= MAX_PAGE_BYTES
    assert sum(sizes) > 30_000_000
    # Some requests failed because the answer was too large, and were repeated with a lower limit.
    assert 1 <= sizes.count(0) <= 4
