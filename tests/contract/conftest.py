"""The two servers of the contract suite.

Every test takes ``api`` and so runs against the local server and, marked ``kube``, against the real
API server that FRAMEWORKBARRIER_CONTRACT_SERVER names (a garbage collector must run beside it).
"""

import asyncio
import os
from collections.abc import AsyncIterator

import aiohttp
import pytest

from framework.clock import SystemClock, SystemUids
from localcluster.apiserver.server import ApiServer
from localcluster.apiserver.storage import Storage
from tests.contract.apiclient import GROUP, Api, Object
from tests.support.machine.prerequisites import skip_test

SERVER_ENV = "FRAMEWORKBARRIER_CONTRACT_SERVER"
TOKEN_ENV = "FRAMEWORKBARRIER_CONTRACT_TOKEN"
TOKEN = "contract"
# Small, so that a test can write past its end.
LOCAL_HISTORY = 100

WIDGET_CRD: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"widgets.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {
            "plural": "widgets",
            "singular": "widget",
            "kind": "Widget",
            "listKind": "WidgetList",
            "shortNames": ["wdg"],
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {"name": "State", "type": "string", "jsonPath": ".status.state"},
                    {
                        "name": "Ready",
                        "type": "string",
                        "jsonPath": '.status.conditions[?(@.type=="Ready")].status',
                    },
                    {"name": "Parts", "type": "string", "jsonPath": ".spec.parts", "priority": 1},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "description": "A thing of the contract suite.",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["size"],
                                "properties": {
                                    "size": {
                                        "type": "integer",
                                        "minimum": 0,
                                        "maximum": 10,
                                        "description": "How many.",
                                    },
                                    "mode": {
                                        "type": "string",
                                        "enum": ["Fast", "Slow"],
                                        "default": "Fast",
                                    },
                                    "code": {"type": "string", "pattern": "^[a-z]+$"},
                                    "maybe": {"type": "string", "nullable": True},
                                    "never": {"type": "string"},
                                    "withDefault": {"type": "integer", "default": 7},
                                    "nested": {
                                        "type": "object",
                                        "properties": {
                                            "flag": {"type": "boolean", "default": True}
                                        },
                                    },
                                    "free": {
                                        "type": "object",
                                        "x-kubernetes-preserve-unknown-fields": True,
                                    },
                                    "labels": {
                                        "type": "object",
                                        "additionalProperties": {"type": "string"},
                                    },
                                    "port": {"x-kubernetes-int-or-string": True},
                                    "parts": {
                                        "type": "array",
                                        "maxItems": 3,
                                        "items": {
                                            "type": "object",
                                            "required": ["name"],
                                            "properties": {
                                                "name": {"type": "string"},
                                                "weight": {"type": "integer", "default": 1},
                                            },
                                        },
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["name"],
                                    },
                                    "tags": {
                                        "type": "array",
                                        "items": {"type": "string"},
                                        "x-kubernetes-list-type": "set",
                                    },
                                },
                            },
                            "status": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                                "properties": {"state": {"type": "string"}},
                            },
                        },
                    }
                },
            }
        ],
    },
}


@pytest.fixture(params=["local", pytest.param("kube", marks=pytest.mark.kube)])
async def api(request: pytest.FixtureRequest) -> AsyncIterator[Api]:
    """An empty namespace of a server that knows the kind Widget."""
    if request.param == "kube":
        async for opened in _real():
            yield opened
    else:
        async for opened in _local():
            yield opened


async def _local() -> AsyncIterator[Api]:
    storage = Storage(SystemClock(), SystemUids(), history_limit=LOCAL_HISTORY)
    async with ApiServer(storage, clock=SystemClock(), tokens=[TOKEN]) as server:
        url = await server.start()
        async for opened in _open(url, TOKEN):
            yield opened


async def _real() -> AsyncIterator[Api]:
    url = os.environ.get(SERVER_ENV)
    if not url:
        skip_test(f"no real API server: run make test-kube, or set {SERVER_ENV} and {TOKEN_ENV}")
    async for opened in _open(url.rstrip("/"), os.environ.get(TOKEN_ENV, "")):
        yield opened


async def _open(url: str, token: str) -> AsyncIterator[Api]:
    namespace = f"contract-{SystemUids().new_uid()[:13]}"
    async with aiohttp.ClientSession(
        headers={"Authorization": f"Bearer {token}"},
        connector=aiohttp.TCPConnector(ssl=False, limit=0),
        timeout=aiohttp.ClientTimeout(total=60),
        trust_env=False,
    ) as session:
        api = Api(session, url, namespace)
        await _install_widgets(api)
        (await api.create("namespaces", {"metadata": {"name": namespace}})).ok()
        yield api
        await api.delete("namespaces", namespace)
    # Connections cut in the middle of a watch close their sockets a moment later; nothing tells
    # when the last one has.
    await asyncio.sleep(0.1 if url.startswith("https:") else 0)


async def _install_widgets(api: Api) -> None:
    answer = await api.create("customresourcedefinitions", WIDGET_CRD)
    assert answer.status in {201, 409}, answer.body
    await api.wait_until_served(api.path("widgets", everywhere=True))
