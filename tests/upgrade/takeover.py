"""Plays a take-over: stores situations, starts our controller, moves the Pods, judges the ends."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise

from framework.api import codec, constants
from framework.api.states import FrameworkState
from framework.api.types import Framework, FrameworkStatus, TaskStatus
from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS, Object, Resource
from tests.support.fakes.kubelet import DEFAULT_SCHEDULER, FakeKubelet, FakePod, Script
from tests.support.servers.childprocess import ChildProcess
from tests.support.simulator.invariants import check_step
from tests.support.waiting import HANG_SECONDS
from tests.upgrade.originals import HOLD
from tests.upgrade.stored import Loader, complete_pods, move_times, open_status

IDLE_SECONDS = 120.0
"""Far longer than a busy machine takes for the next step."""
FOLLOWED = (PODS, FRAMEWORKS)
SCHEDULERS = (DEFAULT_SCHEDULER, "fake")
# This Pod fails once more: its count continues that of the original.
FAILING_POD = "running-worker-1"
FAILING_ATTEMPT = "1"


@dataclass
class Ledger:
    """The changes in a namespace since the situations were stored."""

    pods: dict[str, list[str]] = field(default_factory=dict)
    """Each name's Pods by UID, in the order in which they came."""
    statuses: dict[str, list[FrameworkStatus]] = field(default_factory=dict)
    """Each Framework's statuses, as stored one after another."""
    bodies: dict[str, Object] = field(default_factory=dict)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def wait_for(self, is_met: Callable[[Object], bool], count: int = 0) -> None:
        """Wait until ``is_met`` holds for all Frameworks, and there are at least ``count`` of them.

        Fail if no object changes for IDLE_SECONDS.
        """

        def list_late() -> list[str]:
            return [name for name, body in self.bodies.items() if not is_met(body)]

        async with self.changed:
            while list_late() or len(self.bodies) < count:
                try:
                    await asyncio.wait_for(self.changed.wait(), IDLE_SECONDS)
                except TimeoutError as e:
                    message = f"nothing changed for {IDLE_SECONDS:g} s, late: {list_late()}"
                    raise AssertionError(message) from e

    def take(self, resource: Resource, body: Object) -> None:
        name = body["metadata"]["name"]
        if resource is PODS:
            uids = self.pods.setdefault(name, [])
            if body["metadata"]["uid"] not in uids:
                uids.append(body["metadata"]["uid"])
        elif (status := codec.decode_framework(body).status) is not None:
            self.bodies[name] = body
            statuses = self.statuses.setdefault(name, [])
            if statuses[-1:] != [status]:
                statuses.append(status)

    async def read(self, kube: KubeClient, namespace: str, resource: Resource) -> str:
        """Read all objects; return the version from which to follow."""
        listed = await kube.list(resource, namespace)
        for body in listed["items"]:
            self.take(resource, body)
        return str(listed["metadata"]["resourceVersion"])

    async def follow(
        self, kube: KubeClient, namespace: str, resource: Resource, version: str
    ) -> None:
        while True:
            events = kube.watch(
                resource,
                namespace,
                resource_version=version,
                read_deadline_seconds=2 * HANG_SECONDS,
            )
            async with contextlib.aclosing(events):
                async for event, body in events:
                    version = body["metadata"]["resourceVersion"]
                    if event in {"ADDED", "MODIFIED"}:
                        async with self.changed:
                            self.take(resource, body)
                            self.changed.notify_all()


@contextlib.asynccontextmanager
async def open_ledger(kube: KubeClient, namespace: str) -> AsyncIterator[Ledger]:
    """Keep a ledger while the block runs; all that is there now is in it from the start."""
    ledger = Ledger()
    follows = {
        resource.plural: ledger.follow(kube, namespace, resource, version)
        for resource in FOLLOWED
        for version in [await ledger.read(kube, namespace, resource)]
    }
    async with asyncio.TaskGroup() as tasks:
        followers = [tasks.create_task(follow, name=name) for name, follow in follows.items()]
        try:
            yield ledger
        finally:
            for follower in followers:
                follower.cancel()


class TakeOver:
    """One namespace with all situations, from the last write of the original to the end."""

    def __init__(self, kube: KubeClient, namespace: str) -> None:
        self._kube = kube
        self._namespace = namespace
        self._may_end = asyncio.Event()
        self._started_at = SystemClock().now()
        self._stored: dict[str, Framework] = {}
        self._stored_pods: dict[str, set[str]] = {}

    async def play(
        self,
        situations: Mapping[str, list[Object]],
        start_controller: Callable[[], AbstractContextManager[ChildProcess]],
    ) -> None:
        """Take everything over and bring it to its end; fail if something is not as it must be."""
        for name, objects in situations.items():
            await self._store(name, objects)
        kubelet = FakeKubelet(
            self._kube,
            SystemClock(),
            self._namespace,
            choose_script=self._choose_script,
            scheduler_names=SCHEDULERS,
        )
        async with open_ledger(self._kube, self._namespace) as ledger, kubelet:
            # Statuses have whole seconds.
            self._started_at = SystemClock().now().replace(microsecond=0)
            with start_controller() as controller:
                await ledger.wait_for(_is_taken_over)
                self._check_nothing_ended(ledger)
                await self._let_end()
                await ledger.wait_for(lambda body: _is_over(body) and self._is_seen(body, ledger))
                controller.raise_if_ended()
        errors = [error for name in situations for error in self._judge(name, ledger)]
        if errors:
            raise ExceptionGroup("the take-over went wrong", errors)

    def _is_seen(self, body: Object, ledger: Ledger) -> bool:
        """Return whether the ledger has each new Pod that a status of the Framework names.

        The watch of the Pods may be behind the watch of the Frameworks.
        """
        name = body["metadata"]["name"]
        seen = {uid for uids in ledger.pods.values() for uid in uids}
        return _list_pod_uids(*ledger.statuses[name]) - _list_pod_uids(self._status(name)) <= seen

    async def _store(self, name: str, objects: list[Object]) -> None:
        open_status(objects[0])
        moved = move_times(complete_pods(objects), SystemClock().now())
        bodies = await Loader(self._kube, self._namespace).load(moved)
        stored = await self._kube.get(FRAMEWORKS, self._namespace, name)
        self._stored[name] = codec.decode_framework(stored)
        uids = {body["metadata"]["uid"] for body in bodies if body["kind"] == "Pod"}
        self._stored_pods[name] = uids

    def _choose_script(self, body: Object) -> Script:
        annotations = body["metadata"]["annotations"]
        attempt = annotations[constants.TASK_ATTEMPT_ID]
        fails = body["metadata"]["name"] == FAILING_POD and attempt == FAILING_ATTEMPT

        async def script(pod: FakePod) -> None:
            if pod.body["status"]["phase"] == "Pending":
                await pod.initialize()
                await pod.start()
            await self._may_end.wait()
            await pod.finish(7 if fails else 0)

        return script

    async def _let_end(self) -> None:
        """Do the next steps of users and kubelets."""
        start = {"spec": {"executionType": "Start"}}
        await self._kube.patch(FRAMEWORKS, self._namespace, "created", start)
        listed = await self._kube.list(PODS, self._namespace)
        for pod in listed["items"]:
            if HOLD in (pod["metadata"].get("finalizers") or ()):
                free = {"metadata": {"uid": pod["metadata"]["uid"], "finalizers": None}}
                name = pod["metadata"]["name"]
                await self._kube.patch(PODS, self._namespace, name, free)
        self._may_end.set()

    def _check_nothing_ended(self, ledger: Ledger) -> None:
        """Check that the controller changed no state by itself."""
        for name in ("created", "completing", "scalingdown", "completed"):
            assert ledger.statuses[name][-1].state == self._status(name).state
        held = ledger.statuses["scalingdown"][-1].attempt_status.task_roles[0].tasks
        assert [task.deletion_pending for task in held] == [False, True, True]

    def _status(self, name: str) -> FrameworkStatus:
        status = self._stored[name].status
        assert status is not None
        return status

    def _judge(self, name: str, ledger: Ledger) -> list[AssertionError]:
        """Judge one Framework's steps, Pods and end."""
        errors = []
        for check in (self._judge_steps, self._judge_pods, self._judge_end):
            try:
                check(name, ledger)
            except AssertionError as e:
                e.add_note(f"{name}: {check.__name__}")
                errors.append(e)
        return errors

    def _judge_steps(self, name: str, ledger: Ledger) -> None:
        for before, after in pairwise([self._status(name), *ledger.statuses[name]]):
            check_step(before, after)

    def _judge_pods(self, name: str, ledger: Ledger) -> None:
        """No Pod was wasted and none made twice."""
        stored = self._stored_pods[name]
        names = [pod for pod in ledger.pods if pod.startswith(f"{name}-")]
        seen = {(pod, uid) for pod in names for uid in ledger.pods[pod]}
        assert {uid for _, uid in seen} >= stored
        kept = {pod for pod, uid in seen if uid in stored}
        wanted = [] if name in {"completed", "completing"} else sorted(self._list_new(name, kept))
        assert sorted(pod for pod, uid in seen if uid not in stored) == wanted

    def _list_new(self, name: str, kept: set[str]) -> list[str]:
        """Name the Pods that must be created: the missing ones, and those of a next attempt."""
        is_retried = self._status(name).state is FrameworkState.ATTEMPT_COMPLETED
        names = [
            task.attempt_status.pod_name
            for _, task in self._status(name).attempt_status.walk_tasks()
            if is_retried or (not _has_ended(task) and task.attempt_status.pod_name not in kept)
        ]
        return [*names, *(pod for pod in kept if pod == FAILING_POD)]

    def _judge_end(self, name: str, ledger: Ledger) -> None:
        before = self._status(name)
        after = ledger.statuses[name][-1]
        is_retried = before.state is FrameworkState.ATTEMPT_COMPLETED
        completion = after.attempt_status.completion_status
        assert completion is not None
        assert completion.code == (-210 if name == "completing" else 0)
        assert after.attempt_status.id == int(is_retried)
        assert after.retry_policy_status.total_retried_count == int(is_retried)
        if is_retried:
            delay = before.retry_policy_status.retry_delay_seconds
            assert delay is not None
            started_at = after.attempt_status.start_time
            assert started_at >= before.transition_time + timedelta(seconds=delay)
            # The delay did not begin again; how soon after its end depends on the machine.
            assert started_at < self._started_at + timedelta(seconds=delay)
            return
        assert after.attempt_status.instance_uid is not None
        if before.attempt_status.instance_uid is not None:
            assert after.attempt_status.instance_uid == before.attempt_status.instance_uid
        self._judge_tasks(before, after, ledger)
        packed = "taskRoleStatusesCompressed" in ledger.bodies[name]["status"]["attemptStatus"]
        assert packed == (name == "compressed")

    def _judge_tasks(self, before: FrameworkStatus, after: FrameworkStatus, ledger: Ledger) -> None:
        found = {(role.name, task.index): task for role, task in after.attempt_status.walk_tasks()}
        for role, old in before.attempt_status.walk_tasks():
            new = found.pop((role.name, old.index), None)
            if old.deletion_pending and before.attempt_status.completion_status is None:
                assert new is None
                continue
            assert new is not None
            self._judge_task(old, new, ledger)
        assert found == {}

    def _judge_task(self, old: TaskStatus, new: TaskStatus, ledger: Ledger) -> None:
        name = old.attempt_status.pod_name
        retries = int(name == FAILING_POD)
        assert new.instance_uid == old.instance_uid
        assert new.attempt_status.id == old.attempt_status.id + retries
        counts = old.retry_policy_status.accountable_retried_count + retries
        assert new.retry_policy_status.accountable_retried_count == counts
        if old.attempt_status.completion_status is not None:
            assert new.attempt_status.completion_status == old.attempt_status.completion_status
        if old.attempt_status.pod_uid is not None and not retries:
            assert new.attempt_status.pod_uid == old.attempt_status.pod_uid
        elif not _has_ended(old):
            assert new.attempt_status.pod_uid == ledger.pods[name][-1]


def _list_pod_uids(*statuses: FrameworkStatus) -> set[str]:
    """List the UIDs of the Pods of these statuses."""
    tasks = (task for status in statuses for _, task in status.attempt_status.walk_tasks())
    return {task.attempt_status.pod_uid for task in tasks if task.attempt_status.pod_uid}


def _has_ended(task: TaskStatus) -> bool:
    return task.completion_time is not None


def _is_taken_over(framework: Object) -> bool:
    # A Framework that was completed before is not changed.
    return "conditions" in framework["status"] or _is_over(framework)


def _is_over(framework: Object) -> bool:
    return bool(framework["status"]["state"] == "Completed")


async def count_configmaps(kube: KubeClient, namespace: str) -> int:
    """Count the ConfigMaps of attempts."""
    listed = await kube.list(CONFIGMAPS, namespace, label_selector=constants.FRAMEWORK_NAME)
    return len(listed["items"])
