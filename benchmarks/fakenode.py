"""A node and its kubelet for thousands of Pods: no processes, two status patches a Pod.

Unlike ``tests.support.fakes.kubelet``, it decodes only the fields that it needs, so that it uses
little of the CPU time that is measured.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any, Self, TypeVar

import msgspec

from framework.clock import Clock
from framework.kube.client import KubeClient
from framework.kube.errors import GoneError, KubeError, NotFoundError
from framework.kube.resources import PODS, Object, Resource
from framework.kube.stream import LineSplitter

_BINDINGS = Resource("", "v1", "bindings", "Binding", namespaced=True)
_RETRY_SECONDS = 0.2
_TRIES = 10
# Few connections, because each costs the server a TLS handshake.
_CONCURRENCY = 48


class Meta(msgspec.Struct):
    """The metadata that a benchmark needs."""

    name: str
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815 the wire's name
    deletionTimestamp: str | None = None  # noqa: N815 the wire's name
    deletionGracePeriodSeconds: int = 0  # noqa: N815 the wire's name
    annotations: dict[str, str] = {}


class Container(msgspec.Struct):
    """A container of a Pod's spec."""

    name: str
    image: str = ""
    env: list[dict[str, Any]] = []


class PodSpec(msgspec.Struct):
    """A Pod's spec."""

    containers: list[Container] = []
    nodeName: str = ""  # noqa: N815 the wire's name


class Pod(msgspec.Struct):
    """A Pod."""

    metadata: Meta
    spec: PodSpec


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Versioned(msgspec.Struct):
    metadata: Meta


_VERSION_DECODER = msgspec.json.Decoder(_Versioned)
_EVENT_DECODER = msgspec.json.Decoder(_Event)
_POD_DECODER = msgspec.json.Decoder(Pod)
_Decoded = TypeVar("_Decoded")


async def watch(
    client: KubeClient, path: str, decode: Callable[[bytes], _Decoded]
) -> AsyncGenerator[tuple[str, _Decoded]]:
    """Yield (type, object) for ever, beginning with the existing objects.

    After its end, a watch continues at its last version, or begins again if the server forgot it.
    """
    version = ""
    while True:
        query = f"watch=true&timeoutSeconds=3600&resourceVersion={version}"
        chunks = client.stream_raw(f"{path}?{query}")
        splitter = LineSplitter()
        try:
            async with aclosing(chunks):
                async for chunk in chunks:
                    for line in splitter.feed(chunk):
                        event = _EVENT_DECODER.decode(line)
                        raw = bytes(event.object)
                        if event.type == "ERROR":
                            version = ""
                            continue
                        version = _VERSION_DECODER.decode(raw).metadata.resourceVersion
                        yield event.type, decode(raw)
        except GoneError:
            version = ""
        except KubeError as e:
            print(f"watch of {path}: {e}", file=sys.stderr)
            await asyncio.sleep(_RETRY_SECONDS)


class FakeNode:
    """Runs every Pod of the cluster for a while. Use it in ``async with``."""

    def __init__(
        self,
        client: KubeClient,
        clock: Clock,
        *,
        run_seconds: float | None,
        is_binding: bool = False,
    ) -> None:
        """Prepare.

        Args:
            client: the server, as its administrator.
            clock: for the times in status.
            run_seconds: from Running to Succeeded; None: a Pod stays as it was created, until
                ``start`` is called.
            is_binding: whether each Pod is bound to the node first, one more request.
        """
        self._client = client
        self._clock = clock
        self._run_seconds = run_seconds
        self._is_binding = is_binding
        self._limit = asyncio.Semaphore(_CONCURRENCY)
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: set[str] = set()
        self._removed: set[str] = set()
        self._addresses = 0
        self._watcher: asyncio.Task[None] | None = None
        self.pods: dict[str, Pod] = {}
        """The Pods that are not deleted, by name."""
        self.changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        """Watch all Pods."""
        self._watcher = asyncio.create_task(self._follow(), name="fakenode-watch")
        return self

    async def __aexit__(self, *_exc: object) -> None:
        """Stop at once."""
        tasks = [*self._tasks, *([self._watcher] if self._watcher else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def start(self, pod: Pod) -> None:
        """Let a Pod run, with an address of its own."""
        self._addresses += 1
        high, low = divmod(self._addresses, 250)
        address = f"10.{1 + high // 256}.{high % 256}.{low + 1}"
        now = self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        state = {"running": {"startedAt": now}}
        await self._patch(
            pod,
            {
                "phase": "Running",
                "hostIP": "10.0.0.1",
                "podIP": address,
                "podIPs": [{"ip": address}],
                "startTime": now,
                "containerStatuses": _build_statuses(pod, state, is_running=True),
            },
        )

    async def finish(self, pod: Pod) -> None:
        """Let a Pod succeed."""
        now = self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        state = {
            "terminated": {
                "exitCode": 0,
                "reason": "Completed",
                "startedAt": now,
                "finishedAt": now,
            }
        }
        statuses = _build_statuses(pod, state, is_running=False)
        await self._patch(pod, {"phase": "Succeeded", "containerStatuses": statuses})

    async def _follow(self) -> None:
        events = watch(self._client, PODS.path(), _POD_DECODER.decode)
        async with aclosing(events):
            async for event, pod in events:
                self._observe(event, pod)

    def _observe(self, event: str, pod: Pod) -> None:
        uid = pod.metadata.uid
        if event == "DELETED":
            self.pods.pop(pod.metadata.name, None)
        elif pod.metadata.deletionTimestamp is not None:
            # Without a grace period, the server removes the Pod.
            if pod.metadata.deletionGracePeriodSeconds and uid not in self._removed:
                self._removed.add(uid)
                self._spawn(self._remove(pod), f"remove-{uid}")
        else:
            self.pods[pod.metadata.name] = pod
            if uid not in self._running:
                self._running.add(uid)
                self._spawn(self._run(pod), f"run-{uid}")
        self.changed.set()

    def _spawn(self, job: Any, name: str) -> None:
        task: asyncio.Task[None] = asyncio.create_task(job, name=f"fakenode-{name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, pod: Pod) -> None:
        # The Pod may be gone at any time.
        with suppress(NotFoundError):
            if self._is_binding and not pod.spec.nodeName:
                await self._bind(pod)
            if self._run_seconds is None:
                return
            await self.start(pod)
            await asyncio.sleep(self._run_seconds)
            await self.finish(pod)

    async def _bind(self, pod: Pod) -> None:
        meta = {"name": pod.metadata.name, "uid": pod.metadata.uid}
        body: Object = {"metadata": meta, "target": {"kind": "Node", "name": "fake-node"}}
        namespace = pod.metadata.namespace
        await self._insist(lambda: self._client.create(_BINDINGS, namespace, body))

    async def _remove(self, pod: Pod) -> None:
        meta = pod.metadata
        with suppress(NotFoundError):
            await self._insist(
                lambda: self._client.delete(
                    PODS, meta.namespace, meta.name, uid=meta.uid, grace_seconds=0
                )
            )

    async def _patch(self, pod: Pod, status: Object) -> None:
        body: Object = {"metadata": {"uid": pod.metadata.uid}, "status": status}
        meta = pod.metadata
        await self._insist(
            lambda: self._client.patch(PODS, meta.namespace, meta.name, body, subresource="status")
        )

    async def _insist(self, send: Callable[[], Awaitable[object]]) -> None:
        """Send again after an error, at most ten times: without the request, the run would hang.

        Raises:
            NotFoundError: the Pod is gone.
        """
        for _ in range(_TRIES):
            try:
                async with self._limit:
                    await send()
                return
            except NotFoundError:
                raise
            except KubeError as e:
                print(f"fake node: {e}", file=sys.stderr)
            await asyncio.sleep(_RETRY_SECONDS)


def _build_statuses(pod: Pod, state: Object, *, is_running: bool) -> list[Object]:
    return [
        {
            "name": container.name,
            "image": container.image,
            "imageID": "",
            "ready": is_running,
            "restartCount": 0,
            "state": state,
        }
        for container in pod.spec.containers
    ]
