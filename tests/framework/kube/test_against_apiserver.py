"""framework.kube against the local API server: the two halves of this project agree."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from framework.clock import SequentialUids, SystemClock, SystemRandom
from framework.kube import errors
from framework.kube.client import KubeClient, PatchContent
from framework.kube.config import KubeConfig
from framework.kube.listwatch import ListWatch
from framework.kube.resources import CONFIGMAPS, PODS, Object
from localcluster.apiserver.server import ApiServer
from localcluster.apiserver.storage import Storage
from tests.framework.kube.following import Mirror


def configmap(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}}


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


async def test_pages_join_to_the_whole_list(url: str) -> None:
    async with connect(url) as client:
        for index in range(7):
            await client.create(CONFIGMAPS, "default", configmap(f"c{index}"))
        whole = await client.list(CONFIGMAPS, "default", limit=3)
        names = [item["metadata"]["name"] for item in whole["items"]]
        assert [name for name in names if name.startswith("c")] == [f"c{i}" for i in range(7)]


async def test_listwatch_mirrors_the_server(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("framework.kube.listwatch.WATCH_TIMEOUT_SECONDS", 1)
    mirror = Mirror()
    async with connect(url) as client:
        listwatch = ListWatch(
            client,
            CONFIGMAPS,
            mirror,
            clock=SystemClock(),
            random=SystemRandom(),
            namespace="default",
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
