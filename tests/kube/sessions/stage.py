"""The cluster of the recorded sessions: a control plane, our controller, and a scripted node."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import yaml

from framework.api.constants import FRAMEWORK_NAME
from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.resources import EVENTS, FRAMEWORKS, NODES, Object
from tests.support.fakes.kubelet import FakeKubelet, FakePod
from tests.support.fakes.kubeletserver import Contents, Ended, open_kubelet_server
from tests.support.servers.childprocess import ChildProcess
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkserver import start_controller
from tests.support.servers.pki import build_server_context, create_pki
from tests.support.servers.remedies import Shell
from tests.support.servers.watching import watch_until
from tests.support.waiting import HANG_SECONDS

NODE = "node-1"
CAPACITY = {"cpu": "64", "memory": "256Gi", "pods": "110"}
LOGS = {
    index: [
        f"2026-01-01T00:00:0{epoch}.{index}00000000Z epoch {epoch}: loss {0.9 / (epoch + 1):.3f}"
        for epoch in range(3)
    ]
    for index in range(10)
}


def read_log(pod: str, _container: str) -> str:
    """The log of a Pod's program."""
    return "".join(f"{line}\n" for line in LOGS[int(pod.rpartition("-")[2])])


def run_program(pod: str, argv: tuple[str, ...]) -> Ended:
    """Run the programs that the sessions start in Pods."""
    if argv == ("hostname",):
        return Ended(f"{pod}\n")
    return Ended(f"ls: cannot access '{argv[-1]}': No such file or directory\n", 2)


CONTENTS = Contents(read_log, run_program, b"HTTP/1.0 200 OK\r\n\r\nTensorBoard\n")


class Stage:
    """Moves the Pods, each when the story asks for it."""

    def __init__(
        self, kube: KubeClient, namespace: str, shell: Shell, controller: ChildProcess
    ) -> None:
        self.shell = shell
        self._kube = kube
        self._namespace = namespace
        self._controller = controller
        self._pods: dict[str, list[FakePod]] = {}
        self._turns: Counter[tuple[str, str]] = Counter()
        self._changed = asyncio.Event()

    async def await_turn(self, step: str, body: Object) -> None:
        """Wait until the story lets this Pod be bound or removed."""
        key = step, str(body["metadata"]["name"])
        await self._wait_for(lambda: self._turns[key] > 0)
        self._turns[key] -= 1

    def _let(self, step: str, *names: str) -> None:
        self._turns.update((step, name) for name in names)
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _wait_for(self, is_there: Callable[[], bool]) -> None:
        async with asyncio.timeout(HANG_SECONDS):
            while not is_there():
                await self._changed.wait()

    async def follow(self, pod: FakePod) -> None:
        """Note a Pod that is on the node: its script, which is over at once."""
        self._pods.setdefault(pod.name, []).append(pod)
        self._notify()

    async def bind(self, name: str) -> FakePod:
        """Put the next Pod of this name on the node."""
        count = len(self._pods.get(name, ()))
        self._let("bind", name)
        await self._wait_for(lambda: len(self._pods.get(name, ())) > count)
        return self._pods[name][-1]

    async def start(self, *names: str) -> None:
        """Let the next Pods of these names run."""
        for name in names:
            pod = await self.bind(name)
            await pod.initialize()
            await pod.start()

    async def restart(self, *names: str) -> None:
        """Let Pods that are on the node run, with the images that they have now."""
        for name in names:
            pod = self._pods[name][-1]
            await pod.initialize()
            await pod.start()

    def remove(self, *names: str) -> None:
        """Let the Pods of these names end, which are deleted now or later."""
        self._let("remove", *names)

    def pause_controller(self) -> None:
        """Let the controller see and do nothing."""
        os.kill(self._controller.pid, signal.SIGSTOP)

    def resume_controller(self) -> None:
        """End the pause."""
        os.kill(self._controller.pid, signal.SIGCONT)

    async def wait_for_event(self, framework: str, reason: str) -> None:
        """Wait until there is an Event with this reason about a Framework."""

        def find(_: str, body: Object) -> Object | None:
            name = (body.get("involvedObject") or {}).get("name")
            return body if (name, body.get("reason")) == (framework, reason) else None

        await watch_until(self._kube, EVENTS, self._namespace, find)

    async def wait_for_state(self, framework: str, state: str, field: str = "state") -> None:
        """Wait until the controller has written this state, or other field, of a Framework."""

        def find(_: str, body: Object) -> Object | None:
            is_named = body["metadata"].get("name") == framework
            return body if is_named and (body.get("status") or {}).get(field) == state else None

        await watch_until(self._kube, FRAMEWORKS, self._namespace, find)

    async def refuse_image(self, *names: str) -> None:
        """Let Pods wait for an image that the registry does not have."""
        pods = [await self.bind(name) for name in names]
        for pod in pods:
            await pod.initialize()
        await self.wait_for_event(pods[0].labels[FRAMEWORK_NAME], "GangReady")
        for pod in pods:
            image = pod.body["spec"]["containers"][0]["image"]
            await pod.wait("ImagePullBackOff", f'Back-off pulling image "{image}"')
            await self._kube.create(EVENTS, self._namespace, build_pull_event(pod, image))


def build_pull_event(pod: FakePod, image: str) -> Object:
    """What a kubelet with containerd writes about an image that does not exist."""
    involved = {"kind": "Pod", "name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
    now = SystemClock().now().strftime("%Y-%m-%dT%H:%M:%SZ")
    message = (
        f'Failed to pull image "{image}": rpc error: code = NotFound desc = failed to pull and '
        f'unpack image "{image}": failed to resolve reference "{image}": {image}: not found'
    )
    return {
        "metadata": {"name": f"{pod.name}.pull"},
        "involvedObject": involved,
        "source": {"component": "kubelet", "host": NODE},
        "reason": "Failed",
        "type": "Warning",
        "message": message,
        "count": 1,
        "firstTimestamp": now,
        "lastTimestamp": now,
    }


@asynccontextmanager
async def open_stage(
    access: Access, kube: KubeClient, namespace: str, folder: Path
) -> AsyncIterator[Stage]:
    """Make the node of the story, and run a controller and the kubelet for the namespace."""
    assert access.kubectl is not None
    work = folder / "train"
    work.mkdir()
    kubeconfig = write_kubeconfig(access, namespace, folder)
    shell = Shell(work, str(kubeconfig), access.kubectl)
    tls = build_server_context(create_pki(folder / "pki"))
    with start_controller(access, folder, "--namespace", namespace) as controller:
        stage = Stage(kube, namespace, shell, controller)
        kubelet = FakeKubelet(
            kube,
            SystemClock(),
            namespace,
            choose_script=lambda _: stage.follow,
            node_name=NODE,
            await_turn=stage.await_turn,
        )
        async with open_kubelet_server(CONTENTS, tls) as port, open_node(kube, port), kubelet:
            yield stage


def write_kubeconfig(access: Access, namespace: str, folder: Path) -> Path:
    """Write the user's kubeconfig, whose context has the namespace."""
    content = yaml.safe_load(Path(access.kubeconfig).read_text(encoding="utf-8"))
    content["contexts"][0]["context"]["namespace"] = namespace
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(content))
    return path


@asynccontextmanager
async def open_node(kube: KubeClient, port: int) -> AsyncIterator[None]:
    """Make the node, whose kubelet listens on this port of 127.0.0.1, for the block."""
    await kube.create(NODES, None, {"metadata": {"name": NODE}})
    try:
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            "capacity": CAPACITY,
            "allocatable": CAPACITY,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        }
        await kube.patch(NODES, None, NODE, {"status": status}, subresource="status")
        yield
    finally:
        await kube.delete(NODES, None, NODE)
