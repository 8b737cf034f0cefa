"""The floor: a controller that sends only the requests that no controller can avoid.

Started by ``benchmarks.frameworks --floor``. For each Framework: five status writes, the attempt
ConfigMap and each Pod created and deleted, each as soon as its preconditions hold. It has no
failures, retries, changes of specs, rosters and restarts.
"""

import argparse
import asyncio
import os
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import datetime

import msgspec

from benchmarks.fakenode import Meta, watch
from controller.core.objects.object_templates import build_configmap, build_pod
from controller.core.status.initial_status import new_framework_status
from framework.api import codec, constants
from framework.api.naming import TaskKey, build_instance_uid
from framework.api.states import FrameworkState, TaskState
from framework.api.types import Framework, FrameworkStatus, TaskStatus
from framework.clock import Clock, SystemClock
from framework.kube.client import KubeClient
from framework.kube.config import load_kube_config
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS, Object, Resource

_CONCURRENCY = 64


class _Status(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    metadata: Meta
    status: _Status


_decode_object = msgspec.json.Decoder().decode
_decode_pod = msgspec.json.Decoder(_Pod).decode


@dataclass
class Progress:
    """The observed state of the objects of a Framework."""

    total: int
    running: set[str] = field(default_factory=set)
    succeeded: set[str] = field(default_factory=set)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait_full(self, pods: set[str]) -> None:
        """Wait until one of the two sets holds all Pods."""
        while len(pods) < self.total:
            self.changed.clear()
            await self.changed.wait()


class Floor:
    """All Frameworks."""

    def __init__(self, client: KubeClient, clock: Clock) -> None:
        """Prepare."""
        self._client = client
        self._clock = clock
        self._limit = asyncio.Semaphore(_CONCURRENCY)
        self._progress: dict[str, Progress] = {}
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Run for ever."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            tasks.create_task(self._follow_pods(), name="pods")
            tasks.create_task(self._follow_frameworks(), name="frameworks")

    async def _follow_frameworks(self) -> None:
        async with aclosing(watch(self._client, FRAMEWORKS.path(), _decode_object)) as events:
            async for event, wire in events:
                if event == "ADDED" and wire.get("status") is None and self._tasks is not None:
                    framework = codec.decode_framework(wire)
                    self._tasks.create_task(self._carry(framework), name=framework.key)

    async def _follow_pods(self) -> None:
        async with aclosing(watch(self._client, PODS.path(), _decode_pod)) as events:
            async for event, pod in events:
                if event != "DELETED":
                    self._observe(pod)

    def _observe(self, pod: _Pod) -> None:
        name = pod.metadata.name
        progress = self._progress.get(pod.metadata.annotations.get(constants.FRAMEWORK_NAME, ""))
        if progress is not None and pod.status.phase in {"Running", "Succeeded"}:
            # After an interrupted watch, only the end may be seen.
            progress.running.add(name)
            if pod.status.phase == "Succeeded":
                progress.succeeded.add(name)
            progress.changed.set()

    async def _carry(self, framework: Framework) -> None:
        """Run a Framework from its creation to its end."""
        meta = framework.metadata
        roles = framework.spec.task_roles
        progress = Progress(sum(role.task_number for role in roles))
        self._progress[meta.name] = progress
        now = self._clock.now().replace(microsecond=0)
        framework = await self._write(framework, new_framework_status(framework, now))
        created = await self._create(CONFIGMAPS, meta.namespace, build_configmap(framework))
        framework = await self._write(framework, _record_configmap(_status(framework), created))
        pods = await asyncio.gather(
            *(
                self._create(PODS, meta.namespace, build_pod(framework, TaskKey(role.name, index)))
                for role in roles
                for index in range(role.task_number)
            )
        )
        uids = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}
        await progress.wait_full(progress.running)
        running = _move_tasks(_status(framework), TaskState.ATTEMPT_RUNNING, now, uids)
        framework = await self._write(
            framework, replace(running, state=FrameworkState.ATTEMPT_RUNNING)
        )
        await progress.wait_full(progress.succeeded)
        ending = _move_tasks(_status(framework), TaskState.ATTEMPT_DELETION_PENDING, now, uids)
        ending = replace(ending, state=FrameworkState.ATTEMPT_DELETION_PENDING)
        framework = await self._write(framework, ending)
        await asyncio.gather(*(self._delete(PODS, meta.namespace, n, u) for n, u in uids.items()))
        await self._delete(
            CONFIGMAPS, meta.namespace, created["metadata"]["name"], created["metadata"]["uid"]
        )
        ended = _move_tasks(_status(framework), TaskState.COMPLETED, now, uids)
        await self._write(framework, replace(ended, state=FrameworkState.COMPLETED))

    async def _create(self, resource: Resource, namespace: str, body: Object) -> Object:
        async with self._limit:
            return await self._client.create(resource, namespace, body)

    async def _delete(self, resource: Resource, namespace: str, name: str, uid: str) -> None:
        async with self._limit:
            # No Pod is left, so a deletion in the foreground is not needed.
            await self._client.delete(resource, namespace, name, uid=uid, propagation="Background")

    async def _write(self, framework: Framework, status: FrameworkStatus) -> Framework:
        meta = framework.metadata
        wire = codec.compress_status(codec.encode_status(status), constants.COMPRESSION_MIN_BYTES)
        body: Object = {
            "apiVersion": constants.API_VERSION,
            "kind": constants.FRAMEWORK_KIND,
            "metadata": {
                "name": meta.name,
                "namespace": meta.namespace,
                "uid": meta.uid,
                "resourceVersion": meta.resource_version,
            },
            "status": wire,
        }
        async with self._limit:
            written = await self._client.replace(
                FRAMEWORKS, meta.namespace, meta.name, body, subresource="status"
            )
        return replace(framework, metadata=codec.decode_metadata(written), status=status)


def _status(framework: Framework) -> FrameworkStatus:
    if framework.status is None:
        raise AssertionError("it was just written")
    return framework.status


def _record_configmap(status: FrameworkStatus, created: Object) -> FrameworkStatus:
    attempt = replace(
        status.attempt_status,
        configmap_uid=created["metadata"]["uid"],
        instance_uid=build_instance_uid(0, created["metadata"]["uid"]),
    )
    return replace(status, state=FrameworkState.ATTEMPT_PREPARING, attempt_status=attempt)


def _move_tasks(
    status: FrameworkStatus, state: TaskState, now: datetime, uids: dict[str, str]
) -> FrameworkStatus:
    def move(task: TaskStatus) -> TaskStatus:
        uid = uids[task.attempt_status.pod_name]
        attempt = replace(
            task.attempt_status, pod_uid=uid, instance_uid=build_instance_uid(0, uid), run_time=now
        )
        return replace(task, state=state, attempt_status=attempt, run_time=now)

    attempt = status.attempt_status
    roles = tuple(
        replace(role, tasks=tuple(move(task) for task in role.tasks)) for role in attempt.task_roles
    )
    return replace(status, attempt_status=replace(attempt, task_roles=roles))


async def run_floor(kubeconfig: str) -> None:
    """Run against the cluster of a kubeconfig."""
    clock = SystemClock()
    config = load_kube_config(None, kubeconfig, {})
    async with KubeClient(config, user_agent="benchmark-floor", clock=clock) as client:
        await Floor(client, clock).run()


def main() -> None:
    """Run as a program, until it is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", default=os.environ.get("KUBECONFIG", ""))
    asyncio.run(run_floor(parser.parse_args().kubeconfig))


if __name__ == "__main__":
    main()
