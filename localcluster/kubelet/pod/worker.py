"""The life of one Pod, from its address to its last status.

1. The Pod gets its address, which is published, then its directory and volumes.
2. Init containers run one by one; a sidecar among them is started and stays.
3. The main containers run together, each by the restart policy.
4. Containers stop: all but the sidecars first, then the sidecars in reverse order.
5. The last status is written, then the Pod's directory is removed.

A deletion, a deadline or the end of the node leads to step 4 from any earlier step. Deleting the
Pod in the API is ``kubelet``'s.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum, auto
from typing import TypeVar

from framework.kube.errors import KubeError
from framework.kube.resources import Object
from localcluster.kubelet.container.container import ContainerRunner, fetch_sources
from localcluster.kubelet.container.launch import PodSetup, get_hostname
from localcluster.kubelet.container.machine import HOST_IP, Machine
from localcluster.kubelet.container.restarts import RestartPolicy
from localcluster.kubelet.container.security import get_volume_group, list_ignored
from localcluster.kubelet.events import EventReason
from localcluster.kubelet.fields import FieldError, PodFacts
from localcluster.kubelet.pod.status_channel import StatusChannel
from localcluster.kubelet.status import PodView, build_status
from localcluster.kubelet.volumes.pod_directory import PodDirectory
from localcluster.kubelet.volumes.volumes import Volume, list_volume_references, plan_volumes
from localcluster.network.name_files import list_name_files
from localcluster.network.pod_network import NetworkError, OpenNamespace
from localcluster.stdio import StartError, Stdio, Streams

logger = logging.getLogger(__name__)

_DEFAULT_GRACE_SECONDS = 30
_VOLUME_RETRY_SECONDS = 1.0
_LAST_STATUS_SECONDS = 2.0
_LOCALHOST = "127.0.0.1"
_Given = TypeVar("_Given")


class StopCause(Enum):
    """Why a Pod stops before its containers have ended."""

    DELETED = auto()
    """It has a deletionTimestamp."""
    GONE = auto()
    """It is no longer in the API."""
    DEADLINE = auto()
    """activeDeadlineSeconds are over."""
    NODE_SHUTDOWN = auto()
    """The kubelet stops."""
    BROKEN = auto()
    """A bug of the local cluster."""


_FAILURES = {
    StopCause.DEADLINE: (
        "DeadlineExceeded",
        "Pod was active on the node longer than the specified deadline",
    ),
    StopCause.NODE_SHUTDOWN: ("NodeShutdown", "The local cluster was stopped."),
    StopCause.BROKEN: ("KubeletError", "The local cluster's kubelet failed; its log says why."),
}


class PodWorker:
    """One Pod on this node."""

    def __init__(self, pod: Object, machine: Machine) -> None:
        """Prepare to run; nothing is made yet."""
        self.pod = pod
        self.uid: str = pod["metadata"]["uid"]
        self._machine = machine
        self._directory = PodDirectory(machine.root, self.uid)
        self._channel = StatusChannel(machine.client, pod)
        self._started_at = machine.clock.now()
        self._pod_ips: tuple[str, ...] = ()
        self._init_over = False
        self._has_stopped = False
        # Never reset: an older object of the Pod may come after a newer one.
        self._is_marked = False
        self._cause: StopCause | None = None
        self._grace_seconds: float = self._read_grace()
        self._stopping = asyncio.Event()
        self._kill_now = asyncio.Event()
        self._conditions: Sequence[Object] = ()
        self._status: Object | None = None
        spec = pod["spec"]
        self._policy = RestartPolicy(spec.get("restartPolicy") or "Always")
        self._runners = [
            ContainerRunner(container, pod, self._publish, is_init=is_init)
            for field, is_init in (("initContainers", True), ("containers", False))
            for container in spec.get(field) or ()
        ]

    # --- Changes of the Pod ----------------------------------------------------------------------

    def update(self, pod: Object) -> None:
        """Take a newer object of this Pod."""
        self.pod = pod
        if pod["metadata"].get("deletionTimestamp"):
            self._is_marked = True
            self.stop(StopCause.DELETED, self._read_grace())

    def stop(self, cause: StopCause, grace_seconds: float) -> None:
        """Let the Pod end; a later call can only shorten the grace period."""
        if self._cause is None or cause is StopCause.GONE:
            self._cause = cause
        if not self._stopping.is_set():
            self._grace_seconds = grace_seconds
        elif grace_seconds < self._grace_seconds:
            self._grace_seconds = grace_seconds
            asyncio.get_running_loop().call_later(grace_seconds, self._kill_now.set)
        self._stopping.set()
        if grace_seconds <= 0:
            self._kill_now.set()

    @property
    def is_deleted(self) -> bool:
        """Return whether the kubelet must finish the Pod's deletion."""
        return self._is_marked and self._cause is not StopCause.GONE

    def _read_grace(self) -> float:
        seconds = self.pod["metadata"].get("deletionGracePeriodSeconds")
        if seconds is None:
            seconds = self.pod["spec"].get("terminationGracePeriodSeconds")
        return _DEFAULT_GRACE_SECONDS if seconds is None else float(seconds)

    # --- Life -----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run the Pod to its end; only its logs and its status are left."""
        writer = asyncio.create_task(self._channel.run(), name=f"status {self.uid}")
        try:
            await self._live_until_stopped()
            await self._stop_containers()
            self._has_stopped = True
            self._publish()
            await self._flush()
        finally:
            # Only a cancelled worker still has processes here.
            self._kill_now.set()
            await self._stop_containers()
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)
            await self._machine.network.detach(self.uid)
            await asyncio.to_thread(self._directory.remove)

    async def _live_until_stopped(self) -> None:
        life = asyncio.create_task(self._live(), name=f"life of {self.uid}")
        stop = asyncio.create_task(self._wait_for_stop(), name=f"stop of {self.uid}")
        try:
            await asyncio.wait({life, stop}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (life, stop):
                task.cancel()
            results = await asyncio.gather(life, stop, return_exceptions=True)
        if isinstance(results[0], Exception):
            # A failure of one Pod must not end the kubelet.
            logger.error("Pod worker failed", extra=self._describe(), exc_info=results[0])
            self.stop(StopCause.BROKEN, self._grace_seconds)

    async def _wait_for_stop(self) -> None:
        deadline = self.pod["spec"].get("activeDeadlineSeconds")
        try:
            async with asyncio.timeout(deadline):
                await self._stopping.wait()
        except TimeoutError:
            _, message = _FAILURES[StopCause.DEADLINE]
            self._machine.events.record(self.pod, EventReason.DEADLINE_EXCEEDED, message)
            self.stop(StopCause.DEADLINE, self._grace_seconds)

    async def _live(self) -> None:
        await self._set_up()
        async with asyncio.TaskGroup() as group:
            sidecars: list[asyncio.Task[None]] = []
            for runner in self._list_runners(is_init=True):
                if runner.view.is_sidecar:
                    sidecars.append(_start(group, runner, RestartPolicy.ALWAYS))
                    await runner.passed.wait()
                    continue
                await runner.run(self._policy.of_init_containers)
                if runner.view.has_failed:
                    break
            else:
                self._init_over = True
                mains = [_start(group, r, self._policy) for r in self._list_runners(is_init=False)]
                await asyncio.wait(mains)
            for task in sidecars:
                task.cancel()

    async def run_command(self, container: str, argv: Sequence[str], stdio: Stdio) -> int:
        """Run a command in a container, as ``RunningPods`` declares."""
        for runner in self._runners:
            if runner.view.name == container:
                return await runner.run_command(argv, stdio)
        raise StartError(f"the Pod has no container {container}")

    async def connect(self, port: int) -> Streams:
        """Connect to a port of this Pod from inside of it, as ``RunningPods`` declares."""
        if self.pod["spec"].get("hostNetwork"):
            return await asyncio.open_connection(_LOCALHOST, port)
        return await self._machine.network.connect_inside(self.uid, port)

    def _list_runners(self, *, is_init: bool) -> list[ContainerRunner]:
        return [runner for runner in self._runners if runner.view.is_init is is_init]

    async def _set_up(self) -> None:
        """Give the Pod its address, its directory and its volumes."""
        # The address is published before anything else: the gang's barrier waits for it.
        self._pod_ips = await self._attach()
        self._publish()
        pod, machine = self.pod, self._machine
        facts = PodFacts(pod, machine.node_name, HOST_IP, self._pod_ips, machine.allocatable)
        resolver = machine.network.resolver
        self._directory.make(list_name_files(pod, get_hostname(pod), self._pod_ips, resolver))
        machine.logs.register_pod(pod)
        volumes = await self._make_volumes(facts)
        network = await self._open_network()
        setup = PodSetup(machine, facts, self._directory, volumes, network)
        for runner in self._runners:
            runner.setup = setup
        ignored = list_ignored(pod, machine.host)
        if ignored:
            message = f"not as on a cluster: {'; '.join(ignored)}"
            machine.events.record(pod, EventReason.SECURITY_CONTEXT_IGNORED, message)
        if not machine.namespaces.private_root:
            message = (
                "this host forbids mount namespaces: volumes are not at their mountPath, paths in "
                "command, args and env are replaced by the Pod's own directories"
            )
            machine.events.record(pod, EventReason.PATHS_REPLACED, message)

    async def _attach(self) -> tuple[str, ...]:
        if self.pod["spec"].get("hostNetwork"):
            return (HOST_IP,)
        return await self._insist(self._machine.network.attach)

    async def _open_network(self) -> tuple[OpenNamespace, ...]:
        if self.pod["spec"].get("hostNetwork"):
            return ()
        return await self._insist(self._machine.network.open_namespaces)

    async def _insist(self, ask: Callable[[str], Awaitable[_Given]]) -> _Given:
        """Ask the network for something of this Pod until it is available."""
        while True:
            try:
                return await ask(self.uid)
            except NetworkError as e:
                self._machine.events.record(self.pod, EventReason.FAILED, str(e))
            await asyncio.sleep(_VOLUME_RETRY_SECONDS)

    async def _make_volumes(self, facts: PodFacts) -> dict[str, Volume]:
        """Make the volumes; wait while an object that they refer to is missing."""
        machine, metadata = self._machine, self.pod["metadata"]
        references = list_volume_references(self.pod)
        account = {**machine.account, "namespace": metadata["namespace"].encode()}
        said = ""
        while True:
            try:
                sources = await fetch_sources(machine.client, metadata["namespace"], references)
                volumes = plan_volumes(facts, sources, account)
                group = get_volume_group(self.pod, machine.host)
                await asyncio.to_thread(self._directory.write_volumes, volumes, group)
            except (FieldError, KubeError, OSError) as e:
                if str(e) != said:
                    said = str(e)
                    machine.events.record(self.pod, EventReason.FAILED_MOUNT, said)
            else:
                return volumes
            await asyncio.sleep(_VOLUME_RETRY_SECONDS)

    async def _stop_containers(self) -> None:
        """End running containers: all but the sidecars, then the sidecars in reverse order."""
        sidecars = [r for r in self._runners if r.view.is_sidecar]
        others = [r for r in self._runners if not r.view.is_sidecar]
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._grace_seconds
        await asyncio.gather(*(r.stop(self._grace_seconds, self._kill_now) for r in others))
        for runner in reversed(sidecars):
            await runner.stop(max(0.0, deadline - loop.time()), self._kill_now)

    # --- Status ---------------------------------------------------------------------------------

    def _publish(self) -> None:
        view = self._build_view()
        status = build_status(view, self._machine.clock.now())
        if status == self._status:
            return
        self._status = status
        self._conditions = status["conditions"]
        if self._cause is not StopCause.GONE:
            self._channel.submit(status)

    def _build_view(self) -> PodView:
        own = {condition["type"] for condition in self._conditions}
        seen = (self.pod.get("status") or {}).get("conditions") or ()
        foreign = [condition for condition in seen if condition.get("type") not in own]
        failure = None if self._cause is None else _FAILURES.get(self._cause)
        is_failed = failure is not None and self._has_stopped
        reason, message = failure if failure is not None and is_failed else ("", "")
        return PodView(
            containers=tuple(runner.view for runner in self._runners),
            host_ip=HOST_IP,
            pod_ips=self._pod_ips,
            started_at=self._started_at,
            has_stopped=self._has_stopped,
            is_failed=is_failed,
            reason=reason,
            message=message,
            init_over=self._init_over,
            former_conditions=(*self._conditions, *foreign),
        )

    async def _flush(self) -> None:
        """Wait for the last status, with a limit at shutdown; not if the Pod is gone."""
        if self._cause is StopCause.GONE:
            return
        limit = _LAST_STATUS_SECONDS if self._cause is StopCause.NODE_SHUTDOWN else None
        try:
            async with asyncio.timeout(limit):
                await self._channel.flush()
        except TimeoutError:
            logger.warning("last Pod status not written", extra=self._describe())

    def _describe(self) -> dict[str, object]:
        metadata = self.pod["metadata"]
        return {"pod": f"{metadata['namespace']}/{metadata['name']}", "uid": self.uid}


def _start(
    group: asyncio.TaskGroup, runner: ContainerRunner, policy: RestartPolicy
) -> "asyncio.Task[None]":
    return group.create_task(runner.run(policy), name=f"container {runner.view.name}")
