"""A ListWatch of a scripted server, and a sink that records its calls."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from framework.kube.client import KubeClient
from framework.kube.listwatch import ListWatch
from framework.kube.resources import PODS, Object
from tests.framework.kube.conftest import Bench
from tests.framework.kube.scripted import Reply, ScriptedServer, Seen, event_line, pod


class ShortestWait:
    """Jitter that always draws the shortest wait, for tests on real sockets."""

    def uniform(self, low: float, high: float) -> float:
        return min(low, high)


class LongestWait:
    """Jitter that always draws the longest wait."""

    def uniform(self, low: float, high: float) -> float:
        return max(low, high)


class Mirror:
    """A sink that keeps name -> version, all objects, and its calls in short."""

    def __init__(self) -> None:
        self.objects: dict[str, str] = {}
        self.whole: list[Object] = []
        self.calls: list[str] = []
        self._changed = asyncio.Event()

    def replace(self, items: list[Object], resource_version: str) -> None:
        self.objects = {o["metadata"]["name"]: o["metadata"]["resourceVersion"] for o in items}
        self.whole += items
        self._note(f"replace@{resource_version}")

    def apply(self, event_type: str, obj: Object) -> None:
        name, version = obj["metadata"]["name"], obj["metadata"]["resourceVersion"]
        if event_type == "DELETED":
            self.objects.pop(name, None)
        else:
            self.objects[name] = version
        self.whole.append(obj)
        self._note(f"{event_type} {name}@{version}")

    def bookmark(self, resource_version: str) -> None:
        self._note(f"bookmark@{resource_version}")

    def _note(self, call: str) -> None:
        self.calls.append(call)
        self._changed.set()

    async def wait_for(self, *calls: str) -> None:
        await self.wait_until(lambda: self.calls == list(calls))

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self._changed.clear()
            await self._changed.wait()


class Run:
    """A ListWatch of a scripted server."""

    def __init__(self, server: ScriptedServer, client: KubeClient, bench: Bench, **kw: Any) -> None:
        self.server = server
        self.mirror = Mirror()
        self.states: list[bool] = []
        self.listwatch = ListWatch(
            client,
            PODS,
            self.mirror,
            clock=bench.clock,
            random=ShortestWait(),
            on_connection=self.states.append,
            **kw,
        )

    def requests(self) -> list[str]:
        """Return the requests in short: list, probe (one object) or watch@version."""
        return [_name(seen) for seen in self.server.seen]


def _name(seen: Seen) -> str:
    if "watch" in seen.query:
        return f"watch@{seen.query['resourceVersion']}"
    return "probe" if seen.query.get("limit") == "1" else "list"


@asynccontextmanager
async def running(bench: Bench, *replies: Reply, **options: Any) -> AsyncIterator[Run]:
    server, client = await bench.start(*replies)
    run = Run(server, client, bench, **options)
    task = asyncio.create_task(run.listwatch.run(), name="listwatch")
    try:
        yield run
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def change(name: str, version: int, event_type: str = "MODIFIED") -> bytes:
    return event_line(event_type, pod(name, version))


def bookmark(version: int) -> bytes:
    return event_line("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version)}})
