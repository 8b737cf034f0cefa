"""A kubelet on a local API server, for the tests beside it."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

from framework.clock import SystemClock, SystemUids
from framework.kube.client import KubeClient
from framework.kube.config import KubeConfig
from framework.kube.resources import EVENTS, PODS, Object
from localcluster.apiserver.server import ApiServer
from localcluster.apiserver.storage import Storage
from localcluster.kubelet.kubelet import Kubelet

TOKEN = "local-token"


def build_pod(
    name: str, *containers: Object, inits: tuple[Object, ...] = (), **spec: Any
) -> Object:
    """Build a Pod that is not restarted."""
    body: Object = {"restartPolicy": "Never", "containers": list(containers), **spec}
    if inits:
        body["initContainers"] = list(inits)
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def build_container(script: str, name: str = "main", **fields: Any) -> Object:
    """Build a container that runs a shell script."""
    return {"name": name, "image": "any", "command": ["sh", "-c", script], **fields}


def find_container(pod: Object, name: str = "main") -> Object:
    """Return a container's status, one that says nothing if there is none yet."""
    status = pod["status"]
    every = [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]
    none: Object = {"state": {}, "lastState": {}, "restartCount": 0}
    return next((container for container in every if container["name"] == name), none)


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


class Node:
    """A kubelet and its API server, and all that was seen of its Pods."""

    def __init__(self, client: KubeClient, address: str, root: Path, **options: Any) -> None:
        self.client = client
        self.address = address
        self.history: list[tuple[str, Object]] = []
        self._changed = asyncio.Event()
        self.kubelet = Kubelet(
            client,
            clock=SystemClock(),
            root=root,
            api_address=address,
            service_account_token=TOKEN,
            on_event=self._see,
            **options,
        )

    def _see(self, event_type: str, pod: Object) -> None:
        self.history.append((event_type, pod))
        self._changed.set()

    async def create(self, pod: Object) -> Object:
        return await self.client.create(PODS, pod["metadata"]["namespace"], pod)

    async def delete(self, name: str, grace_seconds: int | None = None) -> None:
        await self.client.delete(PODS, "default", name, grace_seconds=grace_seconds)

    async def wait_for(self, name: str, predicate: Callable[[Object], bool]) -> Object:
        """Return the first object of the Pod, of all ever seen, that is as wanted."""
        seen = 0
        while True:
            for event_type, pod in self.history[seen:]:
                if event_type != "DELETED" and pod["metadata"]["name"] == name and predicate(pod):
                    return pod
            seen = len(self.history)
            await self._wait_for_more(seen)

    async def wait_for_phase(self, name: str, *phases: str) -> Object:
        return await self.wait_for(name, lambda pod: pod.get("status", {}).get("phase") in phases)

    async def wait_until_deleted(self, name: str) -> Object:
        """Return the Pod's last object."""
        while True:
            for event_type, pod in self.history:
                if event_type == "DELETED" and pod["metadata"]["name"] == name:
                    return pod
            await self._wait_for_more(len(self.history))

    async def _wait_for_more(self, seen: int) -> None:
        while len(self.history) == seen:
            self._changed.clear()
            await self._changed.wait()

    async def finish(self, pod: Object) -> Object:
        """Create a Pod and return it when it has ended."""
        await self.create(pod)
        return await self.wait_for_phase(pod["metadata"]["name"], "Succeeded", "Failed")

    async def wait_for_log(self, pod: str, text: str, container: str = "main") -> None:
        """Wait until a container that runs has printed a text."""
        stream = self.kubelet.logs.stream("default", pod, container, follow=True)
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

    async def read_log(self, pod: str, container: str = "main", **options: Any) -> str:
        stream = self.kubelet.logs.stream("default", pod, container, **options)
        return b"".join([piece async for piece in stream]).decode()


@contextlib.asynccontextmanager
async def serve() -> AsyncGenerator[tuple[KubeClient, str]]:
    """Give a client of a fresh API server, and the server's address."""
    async with _open_server() as (client, address, _):
        yield client, address


@contextlib.asynccontextmanager
async def open_node(root: Path, **options: Any) -> AsyncGenerator[Node]:
    """Run a kubelet on an API server of its own."""
    async with serve() as (client, address), run_node(client, address, root, **options) as node:
        yield node


@contextlib.asynccontextmanager
async def run_networked_node(root: Path, **options: Any) -> AsyncGenerator[Node]:
    """Run a kubelet whose Pods have network namespaces, where the host allows it."""
    async with (
        _open_server() as (client, address, server),
        run_node(client, address, root, serve_api=server.serve, **options) as node,
    ):
        yield node


@contextlib.asynccontextmanager
async def _open_server() -> AsyncGenerator[tuple[KubeClient, str, ApiServer]]:
    clock = SystemClock()
    async with ApiServer(Storage(clock, SystemUids()), clock=clock, tokens=[TOKEN]) as server:
        address = await server.start()
        config = KubeConfig(server=address, token=TOKEN)
        async with KubeClient(config, user_agent="kubelet-test", clock=clock) as client:
            yield client, address, server


@contextlib.asynccontextmanager
async def run_node(
    client: KubeClient, address: str, root: Path, **options: Any
) -> AsyncGenerator[Node]:
    """Run a kubelet, and stop it with all its Pods."""
    node = Node(client, address, root, **options)
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
