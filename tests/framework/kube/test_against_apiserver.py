"""framework.kube against the local API server."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from framework.clock import SequentialUids, SystemClock, SystemRandom
from framework.kube import errors
from framework.kube.client import PAGE_SIZE, KubeClient, PatchContent
from framework.kube.config import KubeConfig
from framework.kube.listwatch import ListWatch
from framework.kube.pages import MAX_PAGE_BYTES
from framework.kube.resources import CONFIGMAPS, PODS, Object
from framework.kube.transport import Request, Transport
from localcluster.apiserver.server import ApiServer
from localcluster.apiserver.storage import Storage
from tests.framework.kube.following import Mirror


def configmap(name: str, text: str = "1") -> Object:
    metadata = {"name": name}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": text}}


@pytest.fixture
async def url(seed: int) -> AsyncIterator[str]:
    clock = SystemClock()
    storage = Storage(clock=clock, uids=SequentialUids(seed))
    async with ApiServer(storage, clock=clock, tokens=["t"]) as server:
        yield await server.start()


def connect(url: str, token: str = "t") -> KubeClient:
    return KubeClient(KubeConfig(server=url, token=token), user_agent="test", clock=SystemClock())


async def test_every_verb_is_understood(url: str) -> None:
    async with connect(url) as client:
        created = await client.create(CONFIGMAPS, "default", configmap("a"))
        with pytest.raises(errors.AlreadyExistsError):
            await client.create(CONFIGMAPS, "default", configmap("a"))
        await client.patch(CONFIGMAPS, "default", "a", {"data": {"b": "2"}})
        operation = {"op": "add", "path": "/data/c", "value": "3"}
        patched = await client.patch(
            CONFIGMAPS, "default", "a", [operation], content=PatchContent.JSON
        )
        assert patched["data"] == {"a": "1", "b": "2", "c": "3"}
        with pytest.raises(errors.ConflictError):
            await client.replace(CONFIGMAPS, "default", "a", created)
        await client.replace(CONFIGMAPS, "default", "a", patched | {"data": {}})
        with pytest.raises(errors.ConflictError):
            await client.delete(CONFIGMAPS, "default", "a", uid="another")
        await client.delete(CONFIGMAPS, "default", "a", uid=created["metadata"]["uid"])
        with pytest.raises(errors.NotFoundError):
            await client.get(CONFIGMAPS, "default", "a")
        assert await client.get_raw("/readyz") == b"ok"


async def test_large_objects_of_the_local_server_are_all_listed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    send = Transport.send

    async def measure(self: Transport, request: Request) -> bytes:
        raw = await send(self, request)
        if "limit" in request.path:
            sizes.append(len(raw))
        return raw

    monkeypatch.setattr(Transport, "send", measure)
    async with connect(url) as client:
        for number in range(40):
            large = configmap(f"c{number:02}", "x" * 1_000_000)
            await client.create(CONFIGMAPS, "default", large)
        whole = await client.list(CONFIGMAPS, "default", limit=PAGE_SIZE)
    names = [item["metadata"]["name"] for item in whole["items"]]
    assert [name for name in names if name.startswith("c")] == [f"c{n:02}" for n in range(40)]
    assert sum(sizes) > 40_000_000
    assert max(sizes) <= MAX_PAGE_BYTES


async def test_listwatch_mirrors_the_server(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("framework.kube.listwatch.WATCH_TIMEOUT_SECONDS", 1)
    mirror = Mirror()
    async with connect(url) as client:
        clock, random = SystemClock(), SystemRandom()
        listwatch = ListWatch(
            client, CONFIGMAPS, mirror, clock=clock, random=random, namespace="default"
        )
        task = asyncio.create_task(listwatch.run(), name="listwatch")
        await listwatch.synced.wait()
        for name in ("x", "y"):
            await client.create(CONFIGMAPS, "default", configmap(name))
        await mirror.wait_until(lambda: {"x", "y"} <= mirror.objects.keys())
        await client.delete(CONFIGMAPS, "default", "x")
        await mirror.wait_until(lambda: "x" not in mirror.objects)
        # The server ends the watch after a second; the next one begins where it ended.
        await mirror.wait_until(lambda: any(c.startswith("bookmark") for c in mirror.calls))
        await client.create(CONFIGMAPS, "default", configmap("z"))
        await mirror.wait_until(lambda: "z" in mirror.objects)
        task.cancel()
    assert sum(call.startswith("replace") for call in mirror.calls) == 1


async def test_wrong_token_is_unauthorized(url: str) -> None:
    async with connect(url, "wrong") as client:
        with pytest.raises(errors.UnauthorizedError):
            await client.list(PODS)
