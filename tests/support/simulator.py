"""A seeded life of a cluster with the real controller in it, in virtual time.

Called by tests/simulation. Everything runs in one event loop whose time is virtual: the whole shell
of the controller on a ``StorageClient``, and beside it everybody of ``simulatorcluster`` and the
network of ``simulatornetwork``. Equal seed, equal life: every draw comes from one generator.
``Simulation.trace`` tells what happened, in order.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NoReturn

from controller.app import Controller, Options
from controller.config import ControllerConfig
from framework.api import codec
from framework.api.naming import build_configmap_name
from framework.api.pods import parse_pod
from framework.kube.errors import GoneError, UnreachableError
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS
from localcluster.apiserver.model.options import DeleteOptions
from tests.support.auditor import Auditor
from tests.support.builders import FRAMEWORK, NAMESPACE
from tests.support.simulatorcluster import Cluster
from tests.support.simulatornetwork import FaultyNetwork
from tests.support.simulatorrest import list_unreached
from tests.support.storageclient import Request, StorageClient

TRACE_LINES = 120
MAX_PER_SECOND = 30
SETTLE_SECONDS = 600
# Longer than anything waits by itself: a backoff is at most 30 s, a retry's delay 20 s.
PATIENCE_SECONDS = 40
QUIET_SECONDS = 60
_CONFIG = ControllerConfig(
    conflict_retry_delay_min_seconds=5, conflict_retry_delay_max_seconds=20, worker_number=2
)


class Simulation(Cluster):
    """One life. ``run`` fails with the trace if anything happened that must not."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.seed = seed
        self.network = FaultyNetwork(self.draw, self.note)
        self.network.on_crash = self.crash
        self.auditor = Auditor(self.storage)
        self.auditor.open()
        self.client: StorageClient | None = None
        self._controller: asyncio.Task[None] | None = None
        self._ended: list[asyncio.Task[None]] = []
        self._sent: dict[str, deque[float]] = {}

    # --- the controller

    def start(self) -> None:
        """Start the controller; it knows nothing."""
        if self._controller is not None:
            return
        self.note("controller starts")
        client = self.client = StorageClient(self.storage, self.network)
        self.network.on_send = self._judge
        controller = Controller(
            client,
            _CONFIG,
            Options(NAMESPACE, "127.0.0.1", 0),
            clock=self.clock,
            random=self.draw,
        )
        self._controller = asyncio.create_task(controller._run_loops(), name="controller")

    def crash(self) -> None:
        """Kill the controller: what it sent goes its way, what it knew is lost."""
        if self._controller is None or self.client is None:
            return
        self.note("controller is killed")
        self.client.is_dead = True
        for request in self.client.pending:
            if request.resource == PODS and request.verb == "create":
                self._note_late(request)
        self._controller.cancel()
        self._ended.append(self._controller)
        self._controller = None

    def _judge(self, request: Request) -> None:
        if self.client is None or self.client.is_dead:
            return
        faults = len(self.auditor.faults)
        self._check_pace(request)
        self.auditor.check_request(request)
        for fault in self.auditor.faults[faults:]:
            self.note(f"!! {fault}")

    def _check_pace(self, request: Request) -> None:
        """I11: nothing is asked for again and again in one second."""
        now = asyncio.get_running_loop().time()
        times = self._sent.setdefault(f"{request}", deque(maxlen=MAX_PER_SECOND))
        if len(times) == MAX_PER_SECOND and now - times[0] < 1.0:
            self.auditor.fail(f"I11: {request} {MAX_PER_SECOND} times within a second")
        times.append(now)

    def _note_late(self, request: Request) -> None:
        pod = parse_pod(request.body)
        self.auditor.late.add(f"{pod.task_uid}/{pod.task_attempt_id}")

    # --- the life

    async def run(self, steps: int) -> None:
        """Live through faults, then without them to a rest."""
        try:
            await self._live(steps)
            await self._settle()
        finally:
            self.crash()
            await asyncio.gather(*self._ended, return_exceptions=True)

    async def _live(self, steps: int) -> None:
        self.start()
        self.create_framework()
        self.network.rate = self.draw.choice((0.0, 0.02, 0.1, 0.3))
        for _ in range(steps):
            step = self.draw.choices(_STEPS, _WEIGHTS)[0]
            step(self)
            await asyncio.sleep(self.draw.choice((0.0, 0.001, 0.01, 0.1, 0.5, 2.0)))
            self.check()

    async def _settle(self) -> None:
        """Faults off: what is asked for must be reached, and stay."""
        self.note("faults off")
        network = self.network
        network.rate, network.crash_after = 0.0, None
        network.held.clear()
        network.broken.clear()
        await asyncio.sleep(0.001)  # a crash may be due just now
        self.start()
        for name in sorted(self.squatters):
            self._attempt(partial(self._delete, PODS, name, DeleteOptions(grace_seconds=0)))
        for pod in self.storage.list(self._type(PODS), NAMESPACE).items:
            if pod["metadata"].get("finalizers"):
                self._set_finalizers(pod["metadata"]["name"], None)
        last, since = -1, 0
        for second in range(SETTLE_SECONDS):
            self.advance_kubelets(all_pods=True)
            self.storage.collect_garbage()
            if self.storage.resource_version != last:
                last, since = self.storage.resource_version, second
            if second - since > PATIENCE_SECONDS:
                break
            await asyncio.sleep(1.0)
            self.check()
        quiet = self.storage.resource_version
        self.note("must rest")
        await asyncio.sleep(QUIET_SECONDS)
        self.check()
        if self.storage.resource_version != quiet:
            self._fail("I11: writes while all rests")
        self.check_rest()

    def check(self) -> None:
        """Fail with the trace if anything happened that must not."""
        if self._controller is not None and self._controller.done():
            error = None if self._controller.cancelled() else self._controller.exception()
            self.auditor.fail(f"the controller ended: {error!r}")
        if self.auditor.faults:
            self._fail(self.auditor.faults[0])

    def check_rest(self) -> None:
        """Fail with the trace if what is asked for is not reached."""
        wire = self._find(FRAMEWORKS, FRAMEWORK)
        framework = None if wire is None else codec.decode_framework(wire)
        configmap = self._find(CONFIGMAPS, build_configmap_name(FRAMEWORK))
        for fault in list_unreached(framework, configmap, self.auditor):
            self._fail(fault)

    def _fail(self, text: str) -> NoReturn:
        tail = "\n".join(self.trace[-TRACE_LINES:])
        raise AssertionError(f"seed {self.seed}: {text}\n{tail}\nseed {self.seed}: {text}")

    # --- faults

    def crash_at_a_write(self) -> None:
        self.network.crash_after = self.draw.randrange(1, 6)

    def hold_watch(self) -> None:
        """One resource's watch is behind the others."""
        resource = self.draw.choice(("pods", "configmaps", "frameworks"))
        seconds = self.draw.choice((0.5, 3.0, 8.0))
        self.note(f"watch of {resource} is held for {seconds} s")
        self.network.held[resource] = asyncio.get_running_loop().time() + seconds

    def break_watch(self) -> None:
        """One resource's watch breaks: it resumes, or must list anew."""
        resource = self.draw.choice(("pods", "configmaps", "frameworks"))
        error: Exception = UnreachableError("reset", method="WATCH", path=resource)
        if self.draw.random() < 0.5:
            error = GoneError(
                status=410,
                reason="Expired",
                message="too old",
                body=None,
                retry_after_seconds=None,
                method="WATCH",
                path=resource,
            )
        self.network.broken[resource] = error

    def change_rate(self) -> None:
        self.network.rate = self.draw.choice((0.0, 0.0, 0.05, 0.3))


_Step = Callable[[Simulation], None]
_TABLE: tuple[tuple[_Step, int], ...] = (
    (Simulation.advance_kubelets, 40),
    (Simulation.collect_garbage, 12),
    (Simulation.edit_framework, 4),
    (Simulation.start_or_stop, 1),
    (Simulation.create_framework, 2),
    (Simulation.delete_framework, 1),
    (Simulation.delete_configmap, 1),
    (Simulation.kill_pod, 3),
    (Simulation.strip_label, 1),
    (Simulation.squat, 1),
    (Simulation.hold_pod, 1),
    (Simulation.crash, 1),
    (Simulation.crash_at_a_write, 3),
    (Simulation.start, 8),
    (Simulation.hold_watch, 3),
    (Simulation.break_watch, 3),
    (Simulation.change_rate, 1),
)
_STEPS = tuple(step for step, _ in _TABLE)
_WEIGHTS = tuple(weight for _, weight in _TABLE)
