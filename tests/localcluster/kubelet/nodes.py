"""A kubelet on a local API server, for the tests beside it."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any, NamedTuple

from framework.clock import SystemClock, SystemUids
from framework.kube.client import KubeClient
from framework.kube.config import KubeConfig
from framework.kube.resources import EVENTS, PODS, Object
from localcluster.apiserver.model.options import ContainerLog, LogReadOptions
from localcluster.apiserver.server import ApiServer
from localcluster.apiserver.storage import Storage
from localcluster.kubelet.kubelet import Kubelet
from localcluster.network.choice import NetworkChoice

TOKEN = "local-token"


def build_pod(
    name: str, *containers: Object, inits: tuple[Object, ...] = (), **spec: Any
) -> Object:
    """Build a Pod that is not restarted."""
    parts = {"containers": list(containers), "initContainers": list(inits)}
    metadata = {"name": name, "namespace": "default"}
    body = {"restartPolicy": "Never", **parts, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def build_container(script: str, name: str = "main", **fields: Any) -> Object:
    """Build a container that runs a shell script."""
    return {"name": name, "image": "any", "command": ["sh", "-c", script], **fields}


def find_container(pod: Object, name: str = "main") -> Object:
    """Return a container's status, an empty one if there is none yet."""
    for field in ("initContainerStatuses", "containerStatuses"):
        for container in pod["status"].get(field) or ():
            if container["name"] == name:
                found: Object = container
                return found
    return {"state": {}, "lastState": {}, "restartCount": 0}


def find_condition(pod: Object, kind: str) -> Object:
    """Return a condition, an empty one if there is none."""
    conditions = pod.get("status", {}).get("conditions") or ()
    return next((c for c in conditions if c["type"] == kind), {})


def is_alive(marker: str) -> bool:
    """Return whether a process runs with this word in its command line."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if marker.encode() in path.read_bytes().split(b"\0"):
                return True
    return False


class Served(NamedTuple):
    server: ApiServer
    address: str
    client: KubeClient


class _ObservedKubelet(Kubelet):
    """A kubelet that reports each change of a Pod."""

    def __init__(
        self, on_event: Callable[[str, Object], None], client: KubeClient, **options: Any
    ) -> None:
        super().__init__(client, **options)
        self._on_event = on_event

    def apply(self, event_type: str, obj: Object) -> None:
        self._on_event(event_type, obj)
        super().apply(event_type, obj)


class Node:
    """A kubelet and its API server, and all that was seen of its Pods."""

    def __init__(self, served: Served, root: Path, **options: Any) -> None:
        self.client = served.client
        self.address = served.address
        self.history: list[tuple[str, Object]] = []
        self._changed = asyncio.Event()
        self.kubelet = _ObservedKubelet(
            self._see,
            self.client,
            clock=SystemClock(),
            root=root,
            api_address=self.address,
            service_account_token=TOKEN,
            serve_api=served.server.serve,
            **options,
        )

    def _see(self, event_type: str, pod: Object) -> None:
        self.history.append((event_type, pod))
        self._changed.set()

    async def create(self, pod: Object) -> Object:
        return await self.client.create(PODS, pod["metadata"]["namespace"], pod)

    async def delete(self, name: str, grace_seconds: int | None = None) -> None:
        await self.client.delete(PODS, "default", name, grace_seconds=grace_seconds)

    async def wait_for(
        self, name: str, predicate: Callable[[Object], object], *, is_deleted: bool = False
    ) -> Object:
        """Return the first object of the Pod, of all ever seen, for which the predicate holds."""
        seen = 0
        while True:
            for event_type, pod in self.history[seen:]:
                is_named = pod["metadata"]["name"] == name
                if is_named and (event_type == "DELETED") is is_deleted and predicate(pod):
                    return pod
            seen = len(self.history)
            while len(self.history) == seen:
                self._changed.clear()
                await self._changed.wait()

    async def wait_for_phase(self, name: str, *phases: str) -> Object:
        return await self.wait_for(name, lambda pod: pod.get("status", {}).get("phase") in phases)

    async def wait_until_deleted(self, name: str) -> Object:
        """Return the Pod's last object."""
        return await self.wait_for(name, lambda _: True, is_deleted=True)

    async def finish(self, pod: Object) -> Object:
        """Create a Pod and return it when it has ended."""
        await self.create(pod)
        return await self.wait_for_phase(pod["metadata"]["name"], "Succeeded", "Failed")

    async def wait_for_log(self, pod: str, text: str, container: str = "main") -> None:
        """Wait until a container that runs has printed a text."""
        stream = self.kubelet.logs.stream(
            ContainerLog("default", pod, container), LogReadOptions(follow=True)
        )
        output = b""
        async with contextlib.aclosing(stream):
            async for piece in stream:
                output += piece
                if text.encode() in output:
                    return
        raise AssertionError(f"{text!r} not in {output!r}")

    async def wait_for_events(self, reason: str) -> list[Object]:
        """Return the Events with this reason: they are written behind everything else."""
        while True:
            events = (await self.client.list(EVENTS, "default"))["items"]
            found = [event for event in events if event["reason"] == reason]
            if found:
                return found
            await asyncio.sleep(0.02)

    async def read_log(self, pod: str, container: str = "main", uid: str | None = None) -> str:
        stream = self.kubelet.logs.stream(ContainerLog("default", pod, container, uid))
        return b"".join([piece async for piece in stream]).decode()


@contextlib.asynccontextmanager
async def serve() -> AsyncGenerator[Served]:
    """Run an API server, with a client of it."""
    clock = SystemClock()
    async with ApiServer(Storage(clock, SystemUids()), clock=clock, tokens=[TOKEN]) as server:
        address = await server.start()
        config = KubeConfig(server=address, token=TOKEN)
        async with KubeClient(config, user_agent="kubelet-test", clock=clock) as client:
            yield Served(server, address, client)


@contextlib.asynccontextmanager
async def open_node(root: Path, **options: Any) -> AsyncGenerator[Node]:
    """Run a kubelet on an API server of its own."""
    async with serve() as served, run_node(served, root, **options) as node:
        yield node


@contextlib.asynccontextmanager
async def run_node(served: Served, root: Path, **options: Any) -> AsyncGenerator[Node]:
    """Run a kubelet, and stop it with all its Pods."""
    node = Node(served, root, **{"network": NetworkChoice.LOOPBACK, **options})
    running = asyncio.create_task(node.kubelet.run(), name="kubelet")
    ready = asyncio.create_task(node.kubelet.synced.wait(), name="kubelet ready")
    try:
        await asyncio.wait({running, ready}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            await running
        yield node
    finally:
        ready.cancel()
        if not running.done():
            await node.kubelet.stop()
        await running
