"""Scheduler and kubelet for a server that has neither: a script decides the life of each Pod.

Like the real ones, it is a client of the API server: it binds Pods, gives them an address, writes
their status and removes deleted Pods. It runs no process, but a script may.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing, suppress
from datetime import datetime
from typing import Any, Self, TypeAlias

from framework.clock import Clock
from framework.kube.client import KubeClient
from framework.kube.errors import ConflictError, GoneError, KubeError, NotFoundError
from framework.kube.resources import PODS, Object, Resource

NODE_NAME = "fake-node"
NODE_ADDRESS = "10.0.0.1"
DEFAULT_SCHEDULER = "default-scheduler"
ENDED_PHASES = ("Succeeded", "Failed")
RETRY_SECONDS = 0.2
# With a thousand Pods at once, each request would wait for a thousand others, beyond its timeout.
REQUESTS_AT_ONCE = 50

Script: TypeAlias = "Callable[[FakePod], Awaitable[None]]"


class FakePod:
    """One Pod on the node, for its script: each method writes one step of its status."""

    def __init__(
        self,
        client: KubeClient,
        clock: Clock,
        body: Object,
        address: str,
        turn: asyncio.Semaphore,
    ) -> None:
        self._client = client
        self._turn = turn
        self._clock = clock
        self._started_at: str | None = None
        self.body = body
        self.address = address

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.body["metadata"]["namespace"])

    @property
    def uid(self) -> str:
        return str(self.body["metadata"]["uid"])

    @property
    def labels(self) -> dict[str, str]:
        return dict(self.body["metadata"].get("labels") or {})

    async def initialize(self) -> None:
        """Pending with an address: the init containers run."""
        now = _render_time(self._clock.now())
        await self._patch_status(
            phase="Pending",
            hostIP=NODE_ADDRESS,
            podIP=self.address,
            podIPs=[{"ip": self.address}],
            startTime=now,
            conditions=[_condition("PodScheduled", now)],
        )

    async def stay_unscheduled(self, message: str) -> None:
        """Pending without a node, with the message of a scheduler."""
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        await self._patch_status(conditions=[{**condition, "message": message}])

    async def wait(self, reason: str, message: str) -> None:
        """Pending on its node: the first container waits."""
        waiting = {"waiting": {"reason": reason, "message": message}}
        statuses = self._build_statuses("containers", waiting)
        await self._patch_status(phase="Pending", containerStatuses=statuses)

    async def start(self) -> None:
        """Running and ready; the init containers succeeded."""
        now = self._started_at = _render_time(self._clock.now())
        ended = {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": now}}
        running = {"running": {"startedAt": now}}
        await self._patch_status(
            phase="Running",
            conditions=[
                _condition(kind, now)
                for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
            ],
            initContainerStatuses=self._build_statuses("initContainers", ended),
            containerStatuses=self._build_statuses("containers", running),
        )

    async def run_at_once(self) -> None:
        """Running with an address, by one write; for gangs of a thousand."""
        now = self._started_at = _render_time(self._clock.now())
        await self._patch_status(
            phase="Running",
            hostIP=NODE_ADDRESS,
            podIP=self.address,
            podIPs=[{"ip": self.address}],
            startTime=now,
            containerStatuses=self._build_statuses("containers", {"running": {"startedAt": now}}),
        )

    async def finish(
        self, exit_code: int = 0, *, message: str = "", reason: str | None = None
    ) -> None:
        """All containers ended: Succeeded with 0, else Failed."""
        ended = self._build_ended(exit_code, message)
        if reason is not None:
            ended["terminated"]["reason"] = reason
        await self._patch_status(
            phase="Succeeded" if exit_code == 0 else "Failed",
            containerStatuses=self._build_statuses("containers", ended),
        )

    async def fail_init(self, exit_code: int, *, message: str = "") -> None:
        """The first init container failed for good, so the containers never started."""
        waiting = {"waiting": {"reason": "PodInitializing"}}
        statuses = self._build_statuses("initContainers", waiting)
        statuses[0]["state"] = self._build_ended(exit_code, message)
        await self._patch_status(
            phase="Failed",
            initContainerStatuses=statuses,
            containerStatuses=self._build_statuses("containers", waiting),
        )

    def _build_ended(self, exit_code: int, message: str) -> Object:
        now = _render_time(self._clock.now())
        reason = "Completed" if exit_code == 0 else "Error"
        times = {"startedAt": self._started_at or now, "finishedAt": now}
        ended = {"exitCode": exit_code, "reason": reason, "message": message, **times}
        return {"terminated": ended}

    def _build_statuses(self, containers: str, state: Object) -> list[Object]:
        is_running = "running" in state
        return [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "ready": is_running or containers == "initContainers",
                "started": is_running,
                "restartCount": 0,
                "state": state,
            }
            for container in self.body["spec"].get(containers) or []
        ]

    async def _patch_status(self, **status: Any) -> None:
        # With the UID, a late write is not applied to the next Pod of this name.
        body: Object = {"metadata": {"uid": self.uid}, "status": status}
        async with self._turn:
            self.body = await self._client.patch(
                PODS, self.namespace, self.name, body, subresource="status"
            )


def run_for(seconds: float, exit_code: int = 0) -> Script:
    """Make the script of a Pod that runs for a while, then ends with an exit code."""

    async def script(pod: FakePod) -> None:
        await pod.initialize()
        await pod.start()
        await asyncio.sleep(seconds)
        await pod.finish(exit_code)

    return script


async def run_until_deleted(pod: FakePod) -> None:
    """The script of a Pod that never ends by itself."""
    await pod.initialize()
    await pod.start()


class FakeKubelet:
    """Moves the Pods of one namespace. Use it in ``async with``."""

    def __init__(
        self,
        client: KubeClient,
        clock: Clock,
        namespace: str,
        *,
        choose_script: Callable[[Object], Script],
        scheduler_names: Iterable[str] = (DEFAULT_SCHEDULER,),
        termination_seconds: float = 0.0,
        find_shortage: Callable[[Object], str] = lambda _: "",
        node_name: str = NODE_NAME,
        choose_node: Callable[[Object], str] | None = None,
        await_turn: Callable[[str, Object], Awaitable[None]] | None = None,
    ) -> None:
        """Prepare; nothing is watched yet.

        Args:
            client: the server, as its administrator.
            clock: for the times in status.
            namespace: the namespace of the Pods.
            choose_script: returns the script of a new Pod.
            scheduler_names: only Pods with one of these schedulers are bound.
            termination_seconds: time until a deleted Pod is removed, within its grace period.
            find_shortage: returns why no node accepts a Pod; "" to bind it.
            node_name: the node to which Pods are bound; it need not exist.
            choose_node: returns the name of the node of a Pod; None for ``node_name``.
            await_turn: waits until a Pod may be bound ("bind") or removed ("remove").
        """
        self._find_shortage = find_shortage
        self._choose_node = choose_node or (lambda _: node_name)
        self._await_turn = await_turn
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._choose_script = choose_script
        self._scheduler_names = frozenset(scheduler_names)
        self._termination_seconds = termination_seconds
        self._scripts: dict[str, asyncio.Task[None]] = {}
        self._removals: dict[str, asyncio.Task[None]] = {}
        self._turn = asyncio.Semaphore(REQUESTS_AT_ONCE)
        self._addresses = 0
        self._watcher: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._watcher = asyncio.create_task(self._follow(), name="fakekubelet-watch")
        return self

    async def __aexit__(self, *_exc: object) -> None:
        tasks = [*self._scripts.values(), *self._removals.values()]
        if self._watcher is not None:
            tasks.append(self._watcher)
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        errors = [e for e in ends if isinstance(e, Exception)]
        if errors:
            raise ExceptionGroup("the fake kubelet failed", errors)

    async def _follow(self) -> None:
        while True:
            with suppress(KubeError):
                listed = await self._client.list(PODS, self._namespace)
                for body in listed["items"]:
                    self._observe(body)
                await self._watch(listed["metadata"]["resourceVersion"])
            await asyncio.sleep(RETRY_SECONDS)

    async def _watch(self, version: str) -> None:
        """Watch from a version until the server has forgotten it."""
        while True:
            events = self._client.watch(PODS, self._namespace, resource_version=version)
            try:
                async with aclosing(events):
                    async for event, body in events:
                        version = body["metadata"]["resourceVersion"]
                        if event in {"ADDED", "MODIFIED"}:
                            self._observe(body)
            except GoneError:
                return

    def _observe(self, body: Object) -> None:
        uid = body["metadata"]["uid"]
        if body["spec"].get("schedulerName") not in self._scheduler_names:
            return
        if body["metadata"].get("deletionTimestamp") is not None:
            if uid not in self._removals:
                name = f"fakekubelet-remove-{uid}"
                self._removals[uid] = asyncio.create_task(self._remove(body), name=name)
        elif uid not in self._scripts and body["status"].get("phase") not in ENDED_PHASES:
            name = f"fakekubelet-run-{uid}"
            self._scripts[uid] = asyncio.create_task(self._run(body), name=name)

    async def _run(self, body: Object) -> None:
        self._addresses += 1
        high, low = divmod(self._addresses, 256)
        address = f"10.{1 + high // 256}.{high % 256}.{low}"
        pod = FakePod(self._client, self._clock, body, address, self._turn)
        try:
            if not body["spec"].get("nodeName"):
                shortage = self._find_shortage(body)
                if shortage:
                    await pod.stay_unscheduled(shortage)
                    return
                if self._await_turn is not None:
                    await self._await_turn("bind", body)
                await self._bind(body["metadata"], self._choose_node(body))
            await self._choose_script(body)(pod)
        except (NotFoundError, ConflictError):
            # The Pod was deleted, or deleted and created again, during the script.
            return

    async def _bind(self, metadata: Object, node_name: str) -> None:
        # The client creates only whole resources.
        plural = f"pods/{metadata['name']}/binding"
        binding = Resource("", "v1", plural, "Binding", namespaced=True)
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {key: metadata[key] for key in ("name", "namespace", "uid")},
            "target": {"kind": "Node", "name": node_name},
        }
        async with self._turn:
            await self._client.create(binding, self._namespace, body)

    async def _remove(self, body: Object) -> None:
        """Delete the Pod without a grace period, as a kubelet at the end of the grace period."""
        uid = body["metadata"]["uid"]
        script = self._scripts.get(uid)
        if script is not None:
            script.cancel()
        if self._await_turn is not None:
            await self._await_turn("remove", body)
        await asyncio.sleep(self._termination_seconds)
        with suppress(NotFoundError, ConflictError):
            await self._client.delete(
                PODS, self._namespace, body["metadata"]["name"], uid=uid, grace_seconds=0
            )


def _condition(kind: str, at: str) -> Object:
    return {"type": kind, "status": "True", "lastTransitionTime": at}


def _render_time(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
