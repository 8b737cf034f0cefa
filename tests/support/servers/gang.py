"""Gangs on a complete local cluster, and a record of all changes in its API.

The cluster's API server and kubelet share the test's event loop; controller, barriers and the
Tasks' own programs are processes.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from framework.api import constants
from framework.api.naming import build_pod_name
from framework.clock import SystemClock, SystemRandom, SystemUids
from framework.kube.client import KubeClient, PatchContent
from framework.kube.listwatch import ListWatch
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS, TRAININGJOBS, Object, Resource
from localcluster.apiserver.model.options import ContainerLog, LogReadOptions
from localcluster.cluster import NODE_NAME, ClusterOptions, LocalCluster
from localcluster.kubelet.container.sandbox import Isolation
from localcluster.kubelet.logs import KeptLog
from tests.support.builders import FAIL_FAST, build_submission
from tests.support.waiting import HANG_SECONDS, wait_until_async

NAMESPACE = "default"
MADE_BY_TESTS = "metadata.name!=kube-root-ca.crt"
"""Excludes the ConfigMap that each namespace has by itself."""
BARRIER = "barrier"
MAIN = "main"
# The node has none: a Pod that requests it stays Pending until a test binds it.
SCARCE = "nvidia.com/gpu"
# Programs end at once on SIGTERM, but on a busy machine they need time for that.
GRACE_SECONDS = 60

# Ends when a file appears, with the code in it.
MEMBER_SCRIPT = """
trap 'echo terminated; exit 143' TERM
echo "started $FC_TASKROLE_NAME/$FC_TASK_INDEX"
me=$FC_FRAMEWORK_NAME-$FC_FRAMEWORK_ATTEMPT_ID-$FC_TASKROLE_NAME-$FC_TASK_INDEX-$FC_TASK_ATTEMPT_ID
echo "$FC_POD_UID" >>/gate/started-$me
[ ! -e /mnt/frameworkbarrier/injector.sh ] || . /mnt/frameworkbarrier/injector.sh
echo "workers ${FB_WORKER_IPS:-none}"
while [ ! -e /gate/end-$me ]; do sleep 0.1; done
exit "$(cat /gate/end-$me)"
"""


def build_role(
    name: str,
    count: int,
    script: str = MEMBER_SCRIPT,
    *,
    has_barrier: bool = True,
    is_scarce: bool = False,
    max_retries: int = 0,
) -> Object:
    """Build a task role whose first failure ends the attempt."""
    mounts = [
        {"name": "barrier", "mountPath": constants.WORKING_DIR},
        {"name": "gate", "mountPath": "/gate"},
    ]
    main: Object = {
        "name": MAIN,
        "image": "busybox",
        "command": ["sh", "-c", script],
        "volumeMounts": mounts,
    }
    if is_scarce:
        main["resources"] = {"limits": {SCARCE: "1"}}
    barrier = {"name": BARRIER, "image": "frameworkbarrier/framework-barrier"}
    spec: Object = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "containers": [main],
        "initContainers": [barrier | {"volumeMounts": mounts[:1]}] if has_barrier else [],
        "volumes": [
            {"name": "barrier", "emptyDir": {}},
            {"name": "gate", "hostPath": {"path": "GATE"}},
        ],
    }
    return {
        "name": name,
        "taskNumber": count,
        "frameworkAttemptCompletionPolicy": FAIL_FAST,
        "task": {
            "retryPolicy": {"maxRetryCount": max_retries},
            "pod": {"spec": spec},
        },
    }


def build_gang(*roles: Object, name: str = "gang", max_retries: int = 0) -> Object:
    """Build a Framework of these roles."""
    return build_submission(name, *roles, retryPolicy={"maxRetryCount": max_retries})


@dataclass(frozen=True, slots=True)
class Change:
    """An event of a watch."""

    at: float
    """Time at which it was seen, on the monotonic clock."""
    resource: Resource
    type: str
    body: Object

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def uid(self) -> str:
        return str(self.body["metadata"]["uid"])

    @property
    def status(self) -> Object:
        status: Object = self.body.get("status") or {}
        return status


class _Sink:
    """Writes the changes of a list-watch into the record."""

    def __init__(self, resource: Resource, take: Callable[[Change], None]) -> None:
        self._resource = resource
        self._take = take

    def replace(self, items: list[Object], resource_version: str) -> None:
        """Check that the list is empty: it comes before all creates, and there is no other one."""
        assert not items, f"{self._resource.plural} listed again at {resource_version}: {items}"

    def apply(self, event_type: str, obj: Object) -> None:
        self._take(Change(time.monotonic(), self._resource, event_type, obj))

    def bookmark(self, resource_version: str) -> None:
        """Nothing changed."""


class GangCluster:
    """A running local cluster, its client, and all changes of Frameworks, ConfigMaps and Pods.

    Attributes:
        changes: the changes in the order in which they were seen.
        on_change: called with each change at once, before the waiting tests see it.
    """

    def __init__(self, cluster: LocalCluster, client: KubeClient, gate: Path) -> None:
        self.cluster = cluster
        self.client = client
        self.changes: list[Change] = []
        self.on_change: Callable[[Change], None] = lambda _: None
        self._gate = gate
        self._changed = asyncio.Event()

    def take(self, change: Change) -> None:
        self.changes.append(change)
        self._changed.set()
        self.on_change(change)

    # --- Actions of tests -----------------------------------------------------------------------

    def place_gate(self, framework: Object) -> Object:
        """Set this cluster's directory as the Tasks' volume ``gate``."""
        for role in framework["spec"]["taskRoles"]:
            for volume in role["task"]["pod"]["spec"].get("volumes") or ():
                if "hostPath" in volume:
                    volume["hostPath"] = {"path": str(self._gate)}
        return framework

    async def create(self, framework: Object) -> Object:
        return await self.client.create(FRAMEWORKS, NAMESPACE, self.place_gate(framework))

    async def patch_spec(self, framework: str, *operations: Object) -> None:
        """Apply a JSON patch, like a user who scales."""
        await self.client.patch(
            FRAMEWORKS, NAMESPACE, framework, operations, content=PatchContent.JSON
        )

    async def bind(self, *pods: str, number: int = 0) -> None:
        """Bind Pods to the node, like a scheduler, even if they do not fit."""
        for name in pods:
            uid = await self.wait_for_pod(name, number)
            binding = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": name, "uid": uid},
                "target": {"apiVersion": "v1", "kind": "Node", "name": NODE_NAME},
            }
            bindings = Resource("", "v1", f"pods/{name}/binding", "Binding", namespaced=True)
            await self.client.create(bindings, NAMESPACE, binding)

    def end_task(
        self, role: str, index: int, code: int = 0, *, framework: str = "gang", attempt: str = "0-0"
    ) -> None:
        """Let a Task's program end; ``attempt`` is the Framework's and the Task's."""
        of_framework, of_task = attempt.split("-")
        path = self._gate / f"end-{framework}-{of_framework}-{role}-{index}-{of_task}"
        temporary = path.with_name(f".{path.name}")
        temporary.write_text(str(code))
        temporary.replace(path)

    def kill_controller(self) -> None:
        os.kill(self._find_controller(), signal.SIGKILL)

    @contextlib.contextmanager
    def paused_controller(self) -> Iterator[None]:
        """Stop the controller's process during the block."""
        pid = self._find_controller()
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def _find_controller(self) -> int:
        supervisor = self.cluster.controller
        assert supervisor is not None
        assert supervisor.pid is not None, "the controller does not run"
        return supervisor.pid

    # --- Observations of tests ------------------------------------------------------------------

    async def wait_for(
        self,
        what: str,
        wanted: Callable[[Change], bool],
        *,
        since: int = 0,
        seconds: float = HANG_SECONDS,
    ) -> Change:
        """Return the first wanted change of those seen since ``since``."""
        seen = since
        try:
            async with asyncio.timeout(seconds):
                while True:
                    for change in self.changes[seen:]:
                        if wanted(change):
                            return change
                    seen = len(self.changes)
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError as e:
            raise AssertionError(f"no {what} in {seconds} s; {self.describe()}") from e

    async def wait_for_state(self, state: str, framework: str = "gang") -> Object:
        def is_there(change: Change) -> bool:
            is_it = change.resource is FRAMEWORKS and change.name == framework
            return is_it and change.status.get("state") == state

        return (await self.wait_for(f"state {state} of {framework}", is_there)).body

    async def wait_for_task(
        self, role: str, index: int, state: str, *, attempt: int = 0, framework_attempt: int = 0
    ) -> Change:
        """Return the first change with a Task in this state."""

        def is_there(change: Change) -> bool:
            if change.resource is not FRAMEWORKS:
                return False
            if read_attempt(change.body).get("id") != framework_attempt:
                return False
            task = find_task(change.body, role, index)
            return bool(task) and task["state"] == state and task["attemptStatus"]["id"] == attempt

        return await self.wait_for(f"{role}/{index} {state}", is_there)

    async def wait_for_pod(self, name: str, number: int = 0) -> str:
        """Return the UID of the first, second, ... Pod of this name."""

        def is_there(change: Change) -> bool:
            return is_pod(name)(change) and change.uid not in earlier

        earlier: list[str] = []
        while len(earlier) <= number:
            earlier.append((await self.wait_for(f"another Pod {name}", is_there)).uid)
        return earlier[-1]

    def list_pods(self, framework: str = "gang") -> dict[str, list[str]]:
        """List the UIDs of all present and past Pods, by name, in order."""
        found: dict[str, list[str]] = {}
        for change in self.changes:
            if change.resource is PODS and change.name.startswith(f"{framework}-"):
                uids = found.setdefault(change.name, [])
                if change.uid not in uids:
                    uids.append(change.uid)
        return found

    def list_starts(self) -> dict[str, list[str]]:
        """List the UIDs of the Pods whose program started, by Task and attempts."""
        return {
            path.name.removeprefix("started-"): path.read_text().split()
            for path in sorted(self._gate.glob("started-*"))
        }

    def list_logs(self, container: str, framework: str = "gang") -> list[KeptLog]:
        labels = {constants.FRAMEWORK_NAME: framework}
        logs = self.cluster.logs.list_kept(NAMESPACE, labels)
        return [log for log in logs if log.container == container]

    async def read_log(self, pod: str, container: str = MAIN, number: int = 0) -> str:
        uid = await self.wait_for_pod(pod, number)
        pieces = self.cluster.logs.stream(ContainerLog(NAMESPACE, pod, container, uid))
        return b"".join([piece async for piece in pieces]).decode()

    async def wait_for_log(
        self, pod: str, *texts: str, container: str = BARRIER, number: int = 0
    ) -> str:
        """Wait until a line of a running container's log has all these texts; return it."""
        uid = await self.wait_for_pod(pod, number)
        await self.wait_for(f"start of {container} of {pod}", is_started(uid, container))
        pieces = self.cluster.logs.stream(
            ContainerLog(NAMESPACE, pod, container, uid), LogReadOptions(follow=True)
        )
        output = ""
        try:
            async with asyncio.timeout(HANG_SECONDS), contextlib.aclosing(pieces):
                async for piece in pieces:
                    output += piece.decode()
                    for line in output.splitlines():
                        if all(text in line for text in texts):
                            return line
        except TimeoutError:
            pass
        raise AssertionError(f"no line with {texts} in the log of {pod}:\n{output}")

    async def wait_until_no_process(self, marker: str) -> None:
        await wait_until_async(
            lambda: not dict(find_processes(marker)), lambda: f"{dict(find_processes(marker))}"
        )

    def describe(self) -> str:
        """Describe the last changes, for the message of a failure."""
        lines = []
        for change in {(c.resource.plural, c.name): c for c in self.changes}.values():
            state = change.status.get("state") or change.status.get("phase") or ""
            lines.append(f"{change.type} {change.resource.plural} {change.name} {state}")
        log = self.cluster.directory / "controller.log"
        tail = log.read_text(errors="replace")[-2000:] if log.exists() else ""
        return "last seen:\n" + "\n".join(lines) + f"\ncontroller's log:\n{tail}"


@contextlib.asynccontextmanager
async def open_gang_cluster(
    directory: Path, *, isolation: Isolation = Isolation.AUTO, with_kinds: bool = False
) -> AsyncGenerator[GangCluster]:
    """Run a local cluster and record its changes."""
    clock, random = SystemClock(), SystemRandom()
    options = ClusterOptions(
        directory=directory / "cluster", isolation=isolation, with_kinds=with_kinds
    )
    gate = directory / "gate"
    gate.mkdir()
    async with (
        LocalCluster(options, clock=clock, uids=SystemUids(), random=random) as cluster,
        KubeClient(cluster.kube_config, user_agent="test", clock=clock) as client,
        asyncio.TaskGroup() as tasks,
    ):
        world = GangCluster(cluster, client, gate)
        watches = []
        kinds = (TRAININGJOBS,) if with_kinds else ()
        for resource in (FRAMEWORKS, CONFIGMAPS, PODS, *kinds):
            sink = _Sink(resource, world.take)
            listwatch = ListWatch(
                client,
                resource,
                sink,
                clock=clock,
                random=random,
                namespace=NAMESPACE,
                field_selector=MADE_BY_TESTS,
            )
            watches.append(tasks.create_task(listwatch.run(), name=f"watch {resource.plural}"))
            await listwatch.synced.wait()
        try:
            yield world
        finally:
            for watch in watches:
                watch.cancel()


# --- Reading objects -----------------------------------------------------------------------------


def read_attempt(framework: Object) -> Object:
    """Return the status of the current attempt, empty before there is one."""
    attempt: Object = (framework.get("status") or {}).get("attemptStatus") or {}
    return attempt


def list_tasks(framework: Object) -> dict[str, Object]:
    """Return the Tasks of the current attempt by the name of their Pods."""
    return {
        build_pod_name(framework["metadata"]["name"], role["name"], task["index"]): task
        for role in read_attempt(framework).get("taskRoleStatuses") or ()
        for task in role["taskStatuses"]
    }


def find_task(framework: Object, role: str, index: int) -> Object:
    """Return a Task, an empty one if there is none."""
    name = build_pod_name(framework["metadata"]["name"], role, index)
    return list_tasks(framework).get(name, {})


def find_container(pod: Object, container: str) -> Object:
    """Return the state of a container, an empty one before there is any."""
    status = pod.get("status") or {}
    every: list[Any] = [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]
    return next((c.get("state") or {} for c in every if c["name"] == container), {})


def is_pod(name: str) -> Callable[[Change], bool]:
    return lambda change: change.resource is PODS and change.name == name


def is_started(uid: str, container: str) -> Callable[[Change], bool]:
    """Return a check for changes of a Pod whose container runs or has run."""

    def check(change: Change) -> bool:
        state = find_container(change.body, container) if change.uid == uid else {}
        return "running" in state or "terminated" in state

    return check


def find_processes(marker: str) -> Iterator[tuple[int, str]]:
    """Find the processes with this text in their environment: id and command line."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        with contextlib.suppress(OSError):
            if marker.encode() in (entry / "environ").read_bytes():
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                yield int(entry.name), command.decode(errors="replace")
