"""A controller and a served storage, with real sockets: what the server does to it."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

import pytest

from controller.config.config_file import ControllerConfig
from controller.controller import Controller, Options
from framework.api.constants import FRAMEWORK_CRD_NAME
from framework.clock import SystemClock, SystemRandom
from framework.kube.client import KubeClient
from framework.kube.config import KubeConfig
from framework.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    FRAMEWORKS,
    PODS,
    Object,
)
from localcluster.apiserver.server import ApiServer
from localcluster.apiserver.storage import Storage
from tests.support.builders import build_framework_wire, build_role_wire
from tests.support.fakes.storageclient import StorageClient, open_storage
from tests.support.measuring.pace import expect_within
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.local

NAMESPACE = "default"
TOKEN = "token"
CLOCK = SystemClock()


@dataclass
class Site:
    """A server that can go and come back at its address, and a controller that stays."""

    storage: Storage
    user: StorageClient
    controller: Controller
    task: asyncio.Task[None]
    port: int
    server: ApiServer = field(repr=False)

    async def stop_server(self) -> None:
        await self.server.stop()

    async def start_server(self) -> None:
        self.server = ApiServer(self.storage, clock=CLOCK, tokens=[TOKEN])
        await self.server.start(port=self.port)

    async def create(self, name: str) -> None:
        wire = build_framework_wire(build_role_wire(), name=name)
        for key in ("uid", "resourceVersion", "generation", "creationTimestamp"):
            del wire["metadata"][key]
        await self.user.create(FRAMEWORKS, NAMESPACE, wire)

    async def list_pods(self) -> list[Object]:
        pods: list[Object] = (await self.user.list(PODS))["items"]
        return pods

    def list_unready(self) -> list[str]:
        return self.controller._find_unready()

    async def change_crd(self, *, has_status: bool) -> None:
        crd = await self.user.get(CUSTOM_RESOURCE_DEFINITIONS, None, FRAMEWORK_CRD_NAME)
        for version in crd["spec"]["versions"]:
            version["subresources"] = {"status": {}} if has_status else {}
        await self.user.replace(CUSTOM_RESOURCE_DEFINITIONS, None, FRAMEWORK_CRD_NAME, crd)

    async def wait_for_pods(self, count: int) -> None:
        while len(await self.list_pods()) != count:  # noqa: ASYNC110 the server tells nobody
            await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def open_site() -> AsyncGenerator[Site]:
    storage = open_storage(CLOCK)
    server = ApiServer(storage, clock=CLOCK, tokens=[TOKEN])
    url = await server.start()
    config = KubeConfig(server=url, token=TOKEN)
    async with KubeClient(config, user_agent="test", clock=CLOCK) as client:
        options = Options(None, "127.0.0.1", 0)
        controller = Controller(
            client, ControllerConfig(), options, clock=CLOCK, random=SystemRandom()
        )
        task = asyncio.create_task(controller.run(asyncio.Event()), name="controller")
        port = int(url.rpartition(":")[2])
        site = Site(storage, StorageClient(storage), controller, task, port, server)
        try:
            yield site
        finally:
            task.cancel()
            await asyncio.wait([task])
            await site.server.stop()


async def test_server_that_comes_back_finds_all_frameworks_soon() -> None:
    async with open_site() as site:
        await site.create("before")
        await site.wait_for_pods(1)
        await site.stop_server()
        await wait_until_async(lambda: len(site.list_unready()) == 3)
        for number in range(50):
            await site.create(f"f{number}")
        await site.start_server()
        with expect_within(10.0):
            await site.wait_for_pods(51)
        assert site.list_unready() == []


async def test_crd_that_loses_its_status_stops_the_controller_until_it_is_right_again() -> None:
    async with open_site() as site:
        await site.create("before")
        await site.wait_for_pods(1)
        await site.change_crd(has_status=False)
        await site.create("after")
        with expect_within(5.0):
            await wait_until_async(site.list_unready)
        (problem,) = site.list_unready()
        assert "has no status subresource" in problem
        assert "kubectl apply --server-side" in problem
        assert len(await site.list_pods()) == 1
        await site.change_crd(has_status=True)
        with expect_within(5.0):
            await site.wait_for_pods(2)
        assert site.list_unready() == []
