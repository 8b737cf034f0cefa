"""The controller's shell on a storage, part by part, for tests in virtual time.

No part runs until a test starts it.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from controller.controller import NAMESPACE_WORKERS
from controller.core.actions import ObjectKind
from controller.core.decision import SnapshotTrigger
from controller.core.settings import Settings
from controller.execute.executor import Executor
from controller.execute.writer import Writer
from controller.gate.write_gate import JointWriteGate, WriteGate
from controller.queues.workqueue import WorkQueue
from controller.reconcile.memory import UNLIMITED, MemoryLedger
from controller.reconcile.worker import Worker
from controller.report.events import EventRecorder
from controller.report.history_log import HistoryLog
from controller.report.reporter import Reporter
from controller.runtime import Runtime
from controller.serve.metrics import Metrics
from controller.store.entry import Entry
from controller.store.object_identity import RESOURCES
from controller.store.observed import Observed
from controller.store.provenance import Signer
from controller.store.store import Store
from framework.api.types import Framework
from framework.clock import SystemRandom
from framework.kube.resources import FRAMEWORKS, PODS, Object, Resource
from localcluster.apiserver.model.errors import StatusError
from localcluster.apiserver.model.options import DeleteOptions
from localcluster.apiserver.storage import Storage
from tests.support.builders import FRAMEWORK, NAMESPACE, build_role_wire, build_submission
from tests.support.fakes.storageclient import (
    Fate,
    LoopClock,
    Network,
    Request,
    SeededKeys,
    StorageClient,
    find_type,
    open_storage,
)

KEY = f"{NAMESPACE}/{FRAMEWORK}"
ALWAYS_OPEN = JointWriteGate()
MERGE_PATCH = "application/merge-patch+json"


class ScriptedNetwork(Network):
    """Gives the next requests that match the fates that a test chose; all others are answered."""

    def __init__(self) -> None:
        self.script: list[tuple[Callable[[Request], bool], Fate]] = []

    def expect(self, verb: str, resource: Resource, *fates: Fate) -> None:
        """Give the next requests of this verb and resource these fates, one each."""

        def fits(request: Request) -> bool:
            return (request.verb, request.resource) == (verb, resource)

        self.script += [(fits, fate) for fate in fates]

    def draw_fate(self, request: Request) -> Fate:
        for place, (fits, fate) in enumerate(self.script):
            if fits(request):
                del self.script[place]
                return fate
        return Fate()


def refuse(code: int, reason: str = "", retry_after: int | None = None) -> Fate:
    """The fate of a request that the server refuses."""
    error = StatusError(code, reason or "Injected", "injected")
    error.retry_after = retry_after
    return Fate(error=error)


class Shell:
    """All parts, joined as the app joins them, without informers."""

    def __init__(
        self,
        settings: Settings | None = None,
        after: "Shell | None" = None,
        memory: MemoryLedger = UNLIMITED,
        write_gate: WriteGate = ALWAYS_OPEN,
    ) -> None:
        """Start with an empty store; ``after``: on the server of another shell, which has ended."""
        self.clock = LoopClock()
        self.storage: Storage = after.storage if after else open_storage(self.clock)
        self.network = ScriptedNetwork()
        self.client = StorageClient(self.storage, self.network)
        self.metrics = Metrics()
        self.changed: list[str] = []
        self.queue = WorkQueue(self._find_limit)
        self.store = Store(self._note)
        self.signer: Signer = Signer(SeededKeys(after.signer.public_key if after else ""))
        runtime = Runtime(self.client, self.clock, SystemRandom(), self.metrics, write_gate)
        self.executor = Executor(runtime, self.store, on_answer=self._note, signer=self.signer)
        self.writer = Writer(runtime, self.store, compression_min_bytes=None)
        self.recorder = EventRecorder(runtime, "test")
        self.worker = Worker(
            # The gate closes only for executor and writer, so that tests see their behaviour.
            replace(runtime, write_gate=ALWAYS_OPEN),
            store=self.store,
            queue=self.queue,
            writer=self.writer,
            executor=self.executor,
            reporter=Reporter(self.recorder),
            history=HistoryLog(set(SnapshotTrigger)),
            settings=replace(settings or Settings(), creator_key=self.signer.public_key),
            memory=memory,
        )

    def _find_limit(self, namespace: str) -> int:
        return min(NAMESPACE_WORKERS, self.executor.get_window(namespace))

    def _note(self, key: str) -> None:
        self.changed.append(key)
        self.queue.add(key)

    @property
    def entry(self) -> Entry:
        found = self.store.find(KEY)
        assert found is not None
        return found

    @property
    def known(self) -> Observed:
        """The gang in the store."""
        return self.entry.observed

    @property
    def framework(self) -> Framework:
        """The Framework in the store."""
        assert self.known.framework is not None
        return self.known.framework

    @property
    def status(self) -> Object:
        status: Object = self.get(FRAMEWORKS, FRAMEWORK).get("status") or {}
        return status

    @property
    def tasks(self) -> list[Object]:
        """The Tasks of the first role in that status."""
        tasks: list[Object] = self.status["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"]
        return tasks

    def find_condition(self, name: str = FRAMEWORK, condition_type: str = "Blocked") -> Object:
        """A condition in the server; empty if there is none."""
        status = self.get(FRAMEWORKS, name).get("status") or {}
        found = (c for c in status.get("conditions") or () if c["type"] == condition_type)
        return next(found, {})

    def create_framework(
        self,
        name: str = FRAMEWORK,
        number: int = 1,
        *,
        namespace: str = NAMESPACE,
        **spec: Any,
    ) -> Object:
        body = build_submission(name, build_role_wire("worker", number), **spec)
        created = self.storage.create(self.type(FRAMEWORKS), namespace, body)
        self.store.apply(ObjectKind.FRAMEWORK, created)
        return created

    def show(self) -> None:
        """Give the store the present objects of the server, like a list."""
        for kind in (ObjectKind.POD, ObjectKind.CONFIGMAP, ObjectKind.FRAMEWORK):
            listed = self.storage.list(self.type(RESOURCES[kind]), NAMESPACE)
            self.store.replace(kind, listed.items, listed.resource_version)

    def patch(
        self, resource: Resource, name: str, body: Object, subresource: str | None = None
    ) -> Object:
        """Change an object at the server; the store does not see it yet."""
        rt = self.type(resource)
        return self.storage.patch(rt, NAMESPACE, name, body, MERGE_PATCH, subresource=subresource)

    def edit(self, **spec: Any) -> None:
        """Change the spec at the server, and let the store see it."""
        self.patch(FRAMEWORKS, FRAMEWORK, {"spec": spec})
        self.show()

    def patch_pod(self, name: str = f"{FRAMEWORK}-worker-0", **status: Any) -> None:
        """Change the status of a Pod at the server, and let the store see it."""
        if "podIP" in status:
            status["podIPs"] = [{"ip": status["podIP"]}]
        self.patch(PODS, name, {"status": status}, "status")
        self.show()

    def delete(self, resource: Resource, name: str, **options: Any) -> None:
        """Delete an object at the server; the store does not see it yet."""
        self.storage.delete(self.type(resource), NAMESPACE, name, DeleteOptions(**options))

    def get(self, resource: Resource, name: str) -> Object:
        return self.storage.get(self.type(resource), NAMESPACE, name)

    def names(self, resource: Resource) -> list[str]:
        listed = self.storage.list(self.type(resource), NAMESPACE)
        return [item["metadata"]["name"] for item in listed.items]

    def type(self, resource: Resource) -> Any:
        return find_type(self.storage, resource)

    def sent(self, *verbs: str) -> list[str]:
        """The requests of the controller so far, in words; without Events."""
        return [
            f"{r.verb} {r.resource.plural} {r.name}"
            for r in self.client.sent
            if r.resource.plural != "events" and (not verbs or r.verb in verbs)
        ]

    async def run(self, seconds: float, *, workers: int = 1) -> None:
        """Run executor, recorder and workers for some seconds."""

        async def stop() -> None:
            await asyncio.sleep(seconds)
            raise TimeoutError

        try:
            async with asyncio.TaskGroup() as tasks:
                self.executor.start(tasks)
                tasks.create_task(self.recorder.run())
                for _ in range(workers):
                    tasks.create_task(self.worker.run())
                tasks.create_task(stop())
        except* TimeoutError:
            pass
