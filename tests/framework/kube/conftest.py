"""A scripted server and an open client for it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any

import pytest

from framework.clock import ManualClock
from framework.kube.client import KubeClient
from framework.kube.config import KubeConfig
from tests.framework.kube.scripted import Reply, ScriptedServer


class Bench:
    """Starts servers and opens clients; ends them with the test."""

    def __init__(self, stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
        self._stack = stack
        self._monkeypatch = monkeypatch
        self.clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))

    async def serve(self, *replies: Reply) -> ScriptedServer:
        return await self._stack.enter_async_context(ScriptedServer(*replies))

    async def connect(self, server: ScriptedServer | str, **config: Any) -> KubeClient:
        url = server if isinstance(server, str) else server.url
        return await self.open(KubeConfig(server=url, **config))

    async def open(self, config: KubeConfig, **options: Any) -> KubeClient:
        client = KubeClient(config, user_agent="test/1", clock=self.clock, **options)
        return await self._stack.enter_async_context(client)

    async def start(self, *replies: Reply) -> tuple[ScriptedServer, KubeClient]:
        server = await self.serve(*replies)
        return server, await self.connect(server)

    def let_pass(self, seconds: float) -> None:
        """Move the time of the event loop: timers of fewer seconds are due now."""
        loop = asyncio.get_running_loop()
        get_time = loop.time
        self._monkeypatch.setattr(loop, "time", lambda: get_time() + seconds)

    def stop_time(self) -> None:
        """Stop the time of the event loop: no timer is due from now on."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._monkeypatch.setattr(loop, "time", lambda: now)


@pytest.fixture
async def bench(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    async with AsyncExitStack() as stack:
        yield Bench(stack, monkeypatch)
