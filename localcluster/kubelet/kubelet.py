"""The node: takes Pods from the API server, runs them, and finishes their deletion.

It is the scheduler and the kubelet of the only node, and an ordinary client of its API server:

1. A list or a change of Pods updates the worker of each Pod that already runs.
2. A Pod without a worker is admitted: it is bound and run, left alone, or refused. Refused Pods are
   tried again when another Pod has ended.
3. A Pod whose worker has ended never runs again. If its deletion was requested, it is deleted.

Pods are identified by their UID, because a later Pod may have the same name.
"""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path

from framework.clock import Clock, Random, SystemRandom
from framework.kube.client import KubeClient
from framework.kube.listwatch import ListWatch, Sink
from framework.kube.resources import PODS, SERVICES, Object, Resource
from localcluster.kubelet.container.forkserver_process import ForkServerProcess
from localcluster.kubelet.container.machine import Machine
from localcluster.kubelet.container.process import Namespaces
from localcluster.kubelet.container.restarts import BackoffBounds
from localcluster.kubelet.container.sandbox import Isolation, detect_namespaces
from localcluster.kubelet.events import EventRecorder
from localcluster.kubelet.logs import LogStore
from localcluster.kubelet.node import build_node, register_node
from localcluster.kubelet.pod.admission import Bind, Capacity, Leave, Refuse, Run, decide_admission
from localcluster.kubelet.pod.worker import PodWorker, StopCause
from localcluster.kubelet.pod.writes import PodWrites
from localcluster.network.choice import NetworkChoice, NetworkNeeds, open_network
from localcluster.network.cluster_names import ClusterNames
from localcluster.network.pod_network import PodNetwork
from localcluster.stdio import StartError, Stdio, Streams

logger = logging.getLogger(__name__)

_SHUTDOWN_GRACE_SECONDS = 2.0
_SHUTDOWN_LIMIT_SECONDS = 8.0


class Kubelet:
    """Runs the Pods of one node as processes of this machine."""

    def __init__(  # noqa: PLR0913 what a node consists of: all by keyword
        self,
        client: KubeClient,
        *,
        clock: Clock,
        root: Path,
        api_address: str,
        service_account_token: str,
        serve_api: Callable[[socket.socket], Awaitable[None]],
        node_name: str = "local",
        network: NetworkChoice = NetworkChoice.AUTO,
        isolation: Isolation = Isolation.AUTO,
        logs: LogStore | None = None,
        capacity: Capacity | None = None,
        backoff: BackoffBounds | None = None,
        random: Random | None = None,
    ) -> None:
        """Prepare; ``run`` does the work.

        Args:
            client: an open client of the API server, with every right.
            clock: for times in statuses.
            root: directory for the Pods' files.
            api_address: address of the API server, for example ``http://127.0.0.1:6443``.
            service_account_token: the token in the service account directory of each Pod.
            serve_api: makes the API server listen on another socket, which Pods can reach.
            node_name: name of the Node object.
            network: the network of the Pods.
            isolation: how volumes appear at their mountPath.
            logs: the store of logs; by default below ``root``.
            capacity: the extended resources; by default none.
            backoff: the crash back-off; by default the real kubelet's.
            random: for the waits of the list-watch.
        """
        self.node_name = node_name
        self.logs = logs or LogStore(root / "logs", clock)
        self.synced = asyncio.Event()
        """Set once the Node is registered and the first list of Pods taken."""
        self._client = client
        self._clock = clock
        self._root = root
        self._api_address = api_address
        self._isolation = Isolation(isolation)
        self._network_choice = NetworkChoice(network)
        self._serve_api = serve_api
        self._names = ClusterNames()
        self.network_limits = ""
        """The limits of the Pods' network, if it was not requested. Set before ``synced``."""
        self._capacity = capacity or Capacity(extended={})
        self._backoff = backoff or BackoffBounds()
        self._random = random or SystemRandom()
        self._account = {"token": service_account_token.encode()}
        self._events = EventRecorder(client, clock, node_name)
        self._writes = PodWrites(client, clock, self._events, node_name)
        self._fork_server = ForkServerProcess()
        self._machine: Machine | None = None
        self._workers: dict[str, PodWorker] = {}
        # Pods without a node, because they do not fit.
        self._refused: dict[str, Object] = {}
        # Pods that have ended here: they never run again.
        self._finished: set[str] = set()
        self._deleting: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        """Run Pods until ``stop``, or until cancelled; then end them all.

        Raises:
            IsolationError: the requested isolation is not available.
            NetworkError: the requested network is not available.
        """
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(self._stopped.set)
            stack.push_async_callback(self._fork_server.stop)
            self._root.mkdir(parents=True, exist_ok=True)
            node = build_node(self.node_name, self._capacity, self._clock.now())
            namespaces = await detect_namespaces(self._isolation, self._root, self._fork_server)
            network = await self._open_network(namespaces)
            stack.push_async_callback(network.close)
            allocatable = node["status"]["allocatable"]
            self._machine = self._build_machine(namespaces, network, allocatable)
            extra = {
                "node": self.node_name,
                "private_root": namespaces.private_root,
                "network": type(network).__name__,
            }
            logger.info("kubelet starts", extra=extra)
            stack.push_async_callback(self._cancel_tasks)
            await register_node(self._client, node)
            await self._run_pods()

    async def _run_pods(self) -> None:
        listwatch = self._watch(PODS, self)
        services = self._watch(SERVICES, self._names)
        async with asyncio.TaskGroup() as group:
            eternal = [
                group.create_task(listwatch.run(), name="kubelet list-watch"),
                group.create_task(services.run(), name="kubelet services"),
                group.create_task(self._events.run(), name="kubelet events"),
            ]
            await listwatch.synced.wait()
            self.synced.set()
            await self._stopping.wait()
            await self._shut_down()
            for task in eternal:
                task.cancel()

    def _watch(self, resource: Resource, sink: Sink) -> ListWatch:
        return ListWatch(self._client, resource, sink, clock=self._clock, random=self._random)

    async def _open_network(self, namespaces: Namespaces) -> PodNetwork:
        needs = NetworkNeeds(
            api_address=self._api_address,
            serve_api=self._serve_api,
            has_private_root=namespaces.private_root,
            in_user_namespace=namespaces.user,
            names=self._names,
        )
        network, self.network_limits = await open_network(self._network_choice, needs)
        return network

    def _build_machine(
        self, namespaces: Namespaces, network: PodNetwork, allocatable: dict[str, str]
    ) -> Machine:
        return Machine(
            client=self._client,
            clock=self._clock,
            node_name=self.node_name,
            root=self._root,
            fork_server=self._fork_server,
            namespaces=namespaces,
            api_address=self._api_address,
            account=self._account,
            logs=self.logs,
            events=self._events,
            network=network,
            backoff=self._backoff,
            host_env=dict(os.environ),
            allocatable=allocatable,
        )

    async def run_command(self, uid: str, container: str, argv: Sequence[str], stdio: Stdio) -> int:
        """Run a command in a container, as ``RunningPods`` declares."""
        worker = self._workers.get(uid)
        if worker is None:
            raise StartError("the Pod does not run on this node")
        return await worker.run_command(container, argv, stdio)

    async def connect(self, uid: str, port: int) -> Streams:
        """Connect to a port of a Pod, as ``RunningPods`` declares."""
        worker = self._workers.get(uid)
        if worker is None:
            raise OSError("the Pod does not run on this node")
        return await worker.connect(port)

    async def stop(self) -> None:
        """End all Pods (SIGTERM, 2 s, SIGKILL), set them Failed and return when all is over."""
        self._stopping.set()
        await self._stopped.wait()

    async def _shut_down(self) -> None:
        for worker in self._workers.values():
            worker.stop(StopCause.NODE_SHUTDOWN, _SHUTDOWN_GRACE_SECONDS)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_SHUTDOWN_LIMIT_SECONDS)

    async def _cancel_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- Sink of the list-watch -----------------------------------------------------------------

    def replace(self, items: list[Object], resource_version: str) -> None:
        """Take the list of all Pods."""
        del resource_version
        self._names.replace_pods(items)
        uids = {pod["metadata"]["uid"] for pod in items}
        for uid in [*self._workers, *self._refused, *self._finished]:
            if uid not in uids:
                self._forget(uid)
        for pod in items:
            self._see(pod)

    def apply(self, event_type: str, obj: Object) -> None:
        """Take one change."""
        if event_type == "DELETED":
            self._names.remove_pod(obj)
            self._forget(obj["metadata"]["uid"])
        else:
            self._names.set_pod(obj)
            self._see(obj)

    def bookmark(self, resource_version: str) -> None:
        """Do nothing: Pods are compared by UID, not by version."""

    def _forget(self, uid: str) -> None:
        self._refused.pop(uid, None)
        self._finished.discard(uid)
        self._deleting.discard(uid)
        worker = self._workers.get(uid)
        if worker is not None:
            worker.stop(StopCause.GONE, 0)

    def _see(self, pod: Object) -> None:
        metadata = pod["metadata"]
        uid = metadata["uid"]
        worker = self._workers.get(uid)
        if worker is not None:
            worker.update(pod)
            return
        self._refused.pop(uid, None)
        is_ours = pod["spec"].get("nodeName") == self.node_name
        if is_ours and metadata.get("deletionTimestamp"):
            self._finish_deletion(pod)
        elif uid not in self._finished and not self._stopping.is_set():
            self._admit(pod)

    def _admit(self, pod: Object) -> None:
        running = [worker.pod for worker in self._workers.values()]
        match decide_admission(pod, self.node_name, self._capacity, running):
            case Leave():
                return
            case Refuse(message):
                self._refused[pod["metadata"]["uid"]] = pod
                self._spawn(self._writes.refuse(pod, message), "refuse", pod)
            case Run():
                self._take(pod, needs_binding=False)
            case Bind():
                self._take(pod, needs_binding=True)

    def _take(self, pod: Object, *, needs_binding: bool) -> None:
        if self._machine is None:
            raise RuntimeError("Pods are seen before the kubelet runs")
        worker = PodWorker(pod, self._machine)
        self._workers[worker.uid] = worker
        self._spawn(self._run_pod(worker, needs_binding=needs_binding), "pod", pod)

    # --- What is done with a Pod ----------------------------------------------------------------

    async def _run_pod(self, worker: PodWorker, *, needs_binding: bool) -> None:
        try:
            is_bound = not needs_binding or await self._writes.bind(worker.pod)
            # The refusal may be caused by our own first request, whose answer was lost.
            if not is_bound and worker.pod["spec"].get("nodeName") != self.node_name:
                return
            # Also after a failure, because a second run would start its processes again.
            self._finished.add(worker.uid)
            await worker.run()
        finally:
            del self._workers[worker.uid]
            self._retry_refused()
        if worker.is_deleted:
            self._finish_deletion(worker.pod)

    def _retry_refused(self) -> None:
        """Try the Pods again that did not fit."""
        for pod in list(self._refused.values()):
            self._see(pod)

    def _finish_deletion(self, pod: Object) -> None:
        """Delete a Pod that no longer runs from the API."""
        uid = pod["metadata"]["uid"]
        if uid not in self._deleting:
            self._deleting.add(uid)
            self._spawn(self._writes.delete(pod), "delete", pod)

    def _spawn(self, work: Coroutine[None, None, None], verb: str, pod: Object) -> None:
        metadata = pod["metadata"]
        name = f"{verb} {metadata['namespace']}/{metadata['name']}"
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._reap)

    def _reap(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("kubelet task failed", extra={"task": task.get_name()}, exc_info=error)
