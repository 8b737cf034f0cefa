"""CustomResourceDefinitions made for one test, and changed under its objects."""

import asyncio
import copy
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from framework.clock import SystemUids
from tests.contract.apiclient import MERGE, Answer, Api, Object
from tests.support.waiting import HANG_SECONDS

PAUSE_SECONDS = 0.05
DEFINITIONS = "customresourcedefinitions"


class Kind:
    """A custom kind of a test's own."""

    def __init__(self, api: Api, definition: Object) -> None:
        spec = definition["spec"]
        self._api = api
        self._definition = definition
        self.name = definition["metadata"]["name"]
        self._head = {"apiVersion": f"{spec['group']}/v1", "kind": spec["names"]["kind"]}
        self._base = (
            f"/apis/{spec['group']}/v1/namespaces/{api.namespace}/{spec['names']['plural']}"
        )

    def build(self, name: str = "one", **content: Any) -> Object:
        return {**self._head, "metadata": {"name": name}, **content}

    async def create(self, body: Object, **params: str) -> Answer:
        return await self._api.send("POST", self._base, body, **params)

    async def get(self, name: str = "one") -> Object:
        return (await self._api.send("GET", f"{self._base}/{name}")).ok()

    async def list(self) -> list[Object]:
        items: list[Object] = (await self._api.send("GET", self._base)).ok()["items"]
        return items

    async def patch(
        self, patch: object, name: str = "one", *, content: str = MERGE, status: bool = False
    ) -> Answer:
        path = f"{self._base}/{name}" + ("/status" if status else "")
        return await self._api.send("PATCH", path, patch, content=content)

    async def replace_status(self, body: Object) -> Answer:
        path = f"{self._base}/{body['metadata']['name']}/status"
        return await self._api.send("PUT", path, body)

    async def redefine(self, definition: Object, *, refused: Object) -> None:
        """Change the definition; return when an object that it refuses is refused."""
        async with asyncio.timeout(HANG_SECONDS):
            while True:
                if await self._replace(definition):
                    break
                # A real server has written the definition's status in between.
                await asyncio.sleep(PAUSE_SECONDS)
            self._definition = definition
            while True:
                answer = await self.create({**refused, **self._head}, dryRun="All")
                if answer.status == 422:
                    return
                await asyncio.sleep(PAUSE_SECONDS)

    async def _replace(self, definition: Object) -> bool:
        """Replace the definition; return False if it has changed since it was read."""
        held = (await self._api.get(DEFINITIONS, self.name)).ok()
        body = {**copy.deepcopy(definition), "metadata": held["metadata"]}
        answer = await self._api.replace(DEFINITIONS, body)
        if answer.status == 409:
            return False
        answer.ok()
        return True

    async def tighten(self, schema: Object, *, refused: Object) -> None:
        """Give the definition another schema of the spec."""
        definition = copy.deepcopy(self._definition)
        version = definition["spec"]["versions"][0]
        version["schema"]["openAPIV3Schema"]["properties"]["spec"] = schema
        await self.redefine(definition, refused=self.build("refused", spec=refused))

    async def wait_served(self) -> None:
        await self._api.wait_until_served(self._base)


def rename(definition: Object) -> Object:
    """A definition in a group and under names that no other test has."""
    renamed = copy.deepcopy(definition)
    mark = "g" + re.sub("[^0-9a-f]", "", SystemUids().new_uid())[:12]
    spec = renamed["spec"]
    spec["group"] = f"{mark}.contract.example.com"
    renamed["metadata"] = {"name": f"{spec['names']['plural']}.{spec['group']}"}
    return renamed


def define(spec: Object, *, status: Object | None = None) -> Object:
    """A definition of gauges with a schema of the spec."""
    kept = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    root = {"type": "object", "properties": {"spec": spec, "status": status or kept}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gauges.contract.example.com"},
        "spec": {
            "group": "contract.example.com",
            "scope": "Namespaced",
            "names": {"plural": "gauges", "kind": "Gauge"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": root},
                }
            ],
        },
    }


@asynccontextmanager
async def defined(api: Api, definition: Object) -> AsyncIterator[Kind]:
    """The kind of a definition, under names of its own, while the block runs."""
    kind = Kind(api, rename(definition))
    (await api.create(DEFINITIONS, kind._definition)).ok()
    try:
        await kind.wait_served()
        yield kind
    finally:
        await api.delete(DEFINITIONS, kind.name)
