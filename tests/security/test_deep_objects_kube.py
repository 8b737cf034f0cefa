"""Objects that are nested as deep as the API server takes them spoil no list and no watch."""

import contextlib
import json
from collections.abc import Callable

import pytest

from framework.kube.client import KubeClient
from framework.kube.resources import FRAMEWORKS, PODS, Object, Resource
from tests.support.builders import build_framework_wire, build_role_wire
from tests.support.servers.jsonhttp import JsonHttp

pytestmark = pytest.mark.kube
DEEP = b'{"f:a":' * 5000 + b"{}" + b"}" * 5000


def build_framework(*, is_deep: bool) -> Object:
    role = build_role_wire()
    if is_deep:
        role["task"]["pod"]["spec"]["deep"] = "@"
    body = build_framework_wire(role)
    body.pop("status", None)
    return {**body, "metadata": {}}


def build_pod(*, is_deep: bool) -> Object:
    managed = {
        "manager": "a",
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": "@",
    }
    metadata: Object = {"managedFields": [managed]} if is_deep else {}
    return {"metadata": metadata, "spec": {"containers": [{"name": "a", "image": "local/none:1"}]}}


@pytest.mark.parametrize(("resource", "build"), [(FRAMEWORKS, build_framework), (PODS, build_pod)])
async def test_deep_object_is_listed_and_watched_beside_others(
    framework_crd: None,
    kube: KubeClient,
    http: JsonHttp,
    namespace: str,
    resource: Resource,
    build: Callable[..., Object],
) -> None:
    for name, is_deep in (("deep", True), ("other", False)):
        body = build(is_deep=is_deep)
        body["metadata"]["name"] = name
        raw = json.dumps(body).encode().replace(b'"@"', DEEP)
        status, answer = http.request("POST", resource.path(namespace), raw)
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
