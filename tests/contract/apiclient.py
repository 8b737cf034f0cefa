"""A bare client of an API server for the contract suite: it changes no request and no answer."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from tests.support.waiting import HANG_SECONDS

Object = dict[str, Any]

GROUP = "contract.example.com"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

_PAUSE_SECONDS = 0.05

_BASES = {
    "deployments": "/apis/apps/v1",
    "leases": "/apis/coordination.k8s.io/v1",
    "widgets": f"/apis/{GROUP}/v1",
    "customresourcedefinitions": "/apis/apiextensions.k8s.io/v1",
    "selfsubjectaccessreviews": "/apis/authorization.k8s.io/v1",
}
_CLUSTER_SCOPED = {
    "customresourcedefinitions",
    "namespaces",
    "nodes",
    "selfsubjectaccessreviews",
}


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any
    headers: Any

    @property
    def reason(self) -> str:
        return str(self.body.get("reason", ""))

    @property
    def fields(self) -> list[str]:
        """The paths of the fields a 422 complains about."""
        causes = (self.body.get("details") or {}).get("causes") or []
        return sorted({cause.get("field", "") for cause in causes})

    @property
    def causes(self) -> set[tuple[str, str]]:
        causes = (self.body.get("details") or {}).get("causes") or []
        return {(cause.get("reason", ""), cause.get("field", "")) for cause in causes}

    def ok(self) -> Object:
        assert self.status < 300, self.body
        assert isinstance(self.body, dict)
        return self.body

    def refused(self, status: int, reason: str) -> "Answer":
        assert (self.status, self.reason) == (status, reason), self.body
        assert self.body["kind"] == "Status"
        assert self.body["code"] == status
        return self


class WatchReader:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.status = response.status
        self._content = response.content

    async def next(self) -> tuple[str, Object]:
        async with asyncio.timeout(HANG_SECONDS):
            line = await self._content.readline()
        assert line, "the watch has ended"
        event = json.loads(line)
        return event["type"], event["object"]

    async def next_change(self) -> tuple[str, Object]:
        """The next event that is no bookmark."""
        while True:
            kind, item = await self.next()
            if kind != "BOOKMARK":
                return kind, item

    async def rest(self) -> list[tuple[str, Object]]:
        """All events until the server ends the watch."""
        async with asyncio.timeout(HANG_SECONDS):
            lines = (await self._content.read()).splitlines()
        events = [json.loads(line) for line in lines]
        return [(event["type"], event["object"]) for event in events]


class Api:
    """One namespace of an API server."""

    def __init__(self, session: aiohttp.ClientSession, url: str, namespace: str) -> None:
        self.session = session
        self.url = url
        self.namespace = namespace

    def path(
        self,
        plural: str,
        name: str | None = None,
        subresource: str | None = None,
        *,
        everywhere: bool = False,
    ) -> str:
        parts = [_BASES.get(plural, "/api/v1")]
        if plural not in _CLUSTER_SCOPED and not everywhere:
            parts.append(f"namespaces/{self.namespace}")
        return "/".join([*parts, *(part for part in (plural, name, subresource) if part)])

    async def send(
        self,
        method: str,
        path: str,
        body: object = None,
        **params: str | int,
    ) -> Answer:
        """Send a request; ``accept`` and ``content`` name media types, the rest is the query.

        It is sent again while a real server prepares the storage of a definition that has changed.
        """
        content = str(params.pop("content", "application/json"))
        async with asyncio.timeout(HANG_SECONDS):
            while True:
                answer = await self._send(method, path, body, content, dict(params))
                if answer.status != 429 or "initializing" not in answer.body["message"]:
                    return answer
                await asyncio.sleep(_PAUSE_SECONDS)

    async def wait_until_served(self, path: str) -> None:
        """Wait for a new kind: a real server serves it a moment after it took its definition."""
        async with asyncio.timeout(HANG_SECONDS):
            while True:
                answer = await self.send("GET", path)
                if answer.status == 200:
                    return
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _send(
        self, method: str, path: str, body: object, content: str, params: dict[str, str | int]
    ) -> Answer:
        headers = {"Accept": str(params.pop("accept", "application/json"))}
        sent = None
        if body is not None:
            headers["Content-Type"] = content
            raw_body = body if isinstance(body, bytes) else json.dumps(body).encode()
            sent = io.BytesIO(raw_body)
        async with self.session.request(
            method, self.url + path, data=sent, headers=headers, params=params
        ) as response:
            raw = await response.read()
            # Some documents of the real server are JSON with another content type.
            decoded = json.loads(raw) if raw.startswith(b"{") else raw.decode(errors="replace")
            return Answer(response.status, decoded, response.headers)

    async def create(self, plural: str, body: Object, **params: str | int) -> Answer:
        return await self.send("POST", self.path(plural), body, **params)

    async def get(self, plural: str, name: str, **params: str | int) -> Answer:
        return await self.send("GET", self.path(plural, name), **params)

    async def list(self, plural: str, **params: str | int) -> Answer:
        return await self.send("GET", self.path(plural), **params)

    async def replace(
        self,
        plural: str,
        body: Object,
        *,
        subresource: str | None = None,
        **params: str | int,
    ) -> Answer:
        path = self.path(plural, body["metadata"]["name"], subresource)
        return await self.send("PUT", path, body, **params)

    async def patch(
        self,
        plural: str,
        name: str,
        body: object,
        content: str = MERGE,
        *,
        subresource: str | None = None,
        **params: str | int,
    ) -> Answer:
        path = self.path(plural, name, subresource)
        return await self.send("PATCH", path, body, content=content, **params)

    async def delete(
        self, plural: str, name: str, options: Object | None = None, **params: str | int
    ) -> Answer:
        return await self.send("DELETE", self.path(plural, name), options, **params)

    @asynccontextmanager
    async def watch(
        self, plural: str, *, accept: str = "application/json", **params: str | int
    ) -> AsyncIterator[WatchReader]:
        asked = {"watch": "true", "timeoutSeconds": HANG_SECONDS, **params}
        async with self.session.get(
            self.url + self.path(plural), params=asked, headers={"Accept": accept}
        ) as response:
            yield WatchReader(response)

    async def version(self, plural: str) -> str:
        """The resourceVersion of the collection now."""
        return str((await self.list(plural, limit=1)).ok()["metadata"]["resourceVersion"])

    async def wait_gone(self, plural: str, name: str) -> None:
        """Wait for the DELETED event of an object, or return at once if it is not there."""
        selector = f"metadata.name={name}"
        listed = (await self.list(plural, fieldSelector=selector)).ok()
        if not listed["items"]:
            return
        version = listed["metadata"]["resourceVersion"]
        async with self.watch(plural, fieldSelector=selector, resourceVersion=version) as watch:
            while (await watch.next_change())[0] != "DELETED":
                pass

    async def wait_for(self, plural: str, name: str, *path: str) -> Object:
        """Wait until an object has a value below ``path``; return the object."""
        async with self.watch(plural, fieldSelector=f"metadata.name={name}") as watch:
            while True:
                kind, item = await watch.next_change()
                assert kind != "DELETED", f"{plural} {name} is gone"
                value: Any = item
                for key in path:
                    value = (value or {}).get(key)
                if value:
                    return item


def config_map(name: str, data: dict[str, str] | None = None, **metadata: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": data or {},
    }


def pod(
    name: str,
    *,
    node: str | None = None,
    container: Object | None = None,
    spec: Object | None = None,
    **metadata: Any,
) -> Object:
    """A Pod of one container; ``container`` and ``spec`` are more of their fields."""
    main = {"name": "main", "image": "example.com/main:1", **(container or {})}
    placed = {} if node is None else {"nodeName": node}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {"containers": [main], **placed, **(spec or {})},
    }


def owned_by(owner: Object, *, blocks: bool = True) -> list[Object]:
    metadata = owner["metadata"]
    return [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
            "blockOwnerDeletion": blocks,
        }
    ]


def widget(name: str = "one", *, size: Any = 1, **spec: Any) -> Object:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": size, **spec},
    }
