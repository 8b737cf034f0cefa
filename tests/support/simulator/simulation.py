"""The run of a simulation: its steps, its faults, and its checks."""

import asyncio
import random
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NoReturn

from controller.config.config_file import ControllerConfig
from controller.config.nodes import NodesConfig
from framework.api import codec
from framework.api.naming import build_configmap_name
from framework.api.pods import parse_pod
from framework.kube.errors import GoneError, UnreachableError
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, LEASES, PODS, SECRETS
from localcluster.apiserver.model.options import DeleteOptions
from tests.support.builders import FRAMEWORK, NAMESPACE
from tests.support.fakes.storageclient import LoopClock, Request
from tests.support.simulator.auditor import Auditor
from tests.support.simulator.cluster import Cluster
from tests.support.simulator.final_state import list_unreached
from tests.support.simulator.network import FaultyNetwork
from tests.support.simulator.program import Program

TRACE_LINES = 120
MAX_PER_SECOND = 30
SETTLE_SECONDS = 600
# Longer than any wait of the controller: a back-off is at most 30 s, the delay of a retry 20 s.
IDLE_SECONDS = 40
QUIET_SECONDS = 60
# Longest time from a change of a Pod until a controller sees it, without and with faults.
NEWS_SECONDS = 1.0
LATE_NEWS_SECONDS = 30.0
ELECTED_SHARE = 0.15
# Share of the runs in which the gang runs before the first fault.
UP_SHARE = 0.4
UP_SECONDS = 7


class Simulation(Cluster):
    """One run. ``run`` fails with the trace if an invariant is violated."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.seed = seed
        self.is_elected = self.draw.random() < ELECTED_SHARE
        """Whether two controllers run, one of them as the leader."""
        self.config = _draw_config(self.draw)
        self.network = FaultyNetwork(self.draw, self.note)
        self.network.on_crash = self.crash
        self.network.on_send = self._check_request
        self.auditor = Auditor.of(self.storage, self.clock)
        self.auditor.orphaned = self.orphaned
        self.auditor.retain_seconds = self.config.framework_completed_retain_seconds
        ledger = self.auditor.ledger
        ledger.requested = self.requested
        ledger.cordoned = self.ever_cordoned
        ledger.is_time_steady = not self.is_clock_set
        self.auditor.epochs.is_time_steady = not self.is_clock_set
        self.auditor.trainings.is_time_steady = not self.is_clock_set
        ledger.late = self.auditor.epochs.named
        ledger.conflict_delay_seconds = (
            self.config.conflict_retry_delay_min_seconds,
            self.config.conflict_retry_delay_max_seconds,
        )
        self.network.on_refusal = ledger.note_refusal
        self.auditor.rosters.news_seconds = self._estimate_news_seconds
        self.auditor.open()
        self.programs: list[Program] = []
        self._disturbed_until = 0.0
        self._ended: list[asyncio.Task[None]] = []
        self._sent: dict[str, deque[float]] = {}
        self._writes = 0

    # --- the controllers

    def start(self) -> None:
        if len(self.programs) > int(self.is_elected):
            return
        name = f"controller-{len(self._ended) + len(self.programs)}"
        self.note(f"{name} starts")
        clock = LoopClock(self.clock.skew_seconds)
        self.clocks = [self.clock, *(program.clock for program in self.programs), clock]
        program = Program(
            name,
            self.storage,
            self.network,
            config=self.config,
            random=self.draw,
            clock=clock,
            is_elected=self.is_elected,
            on_end=self._note_end,
        )
        self.programs.append(program)

    def crash(self) -> None:
        if self.programs:
            self.draw.choice(self.programs).kill()

    def _note_end(self, program: Program) -> None:
        self.note(f"{program.name} ends")
        self.auditor.is_any_ended = True
        for request in program.client.pending:
            if request.resource == PODS and request.verb == "create":
                self._note_late(request)
        self.programs.remove(program)
        self._ended.append(program.task)
        if program.task.done() and (error := program.find_fault()) is not None:
            self.auditor.fail(f"{program.name} ended: {error!r}")

    async def _end_all(self) -> None:
        while self.programs:
            self.programs[0].kill()
        await asyncio.gather(*self._ended, return_exceptions=True)

    def _check_request(self, request: Request) -> None:
        if request.resource == LEASES:
            return
        faults = len(self.auditor.faults)
        self._writes += request.verb not in {"get", "list"}
        self._check_pace(request)
        self.auditor.check_request(request)
        for fault in self.auditor.faults[faults:]:
            self.note(f"!! {fault}")

    def _check_pace(self, request: Request) -> None:
        """Check I11: no request is repeated too often within a second."""
        now = asyncio.get_running_loop().time()
        times = self._sent.setdefault(f"{request}", deque(maxlen=MAX_PER_SECOND))
        if len(times) == MAX_PER_SECOND and now - times[0] < 1.0:
            self.auditor.fail(f"I11: {request} {MAX_PER_SECOND} times within a second")
        times.append(now)

    def _note_late(self, request: Request) -> None:
        pod = parse_pod(request.body)
        self.auditor.late.add(f"{pod.task_uid}/{pod.task_attempt_id}")

    # --- the run

    async def run(self, steps: int) -> None:
        """Run steps with faults, then without faults until nothing changes."""
        try:
            await self._run_steps(steps)
            await self._settle()
        finally:
            await self._end_all()

    async def _run_steps(self, steps: int) -> None:
        self.start()
        self.create_framework()
        if self.draw.random() < UP_SHARE:
            await self._start_gang()
        self.network.rate = self.draw.choice((0.0, 0.02, 0.1, 0.3))
        for _ in range(steps):
            step = self.draw.choices(_STEPS, _WEIGHTS)[0]
            step(self)
            await asyncio.sleep(self.draw.choice((0.0, 0.001, 0.01, 0.1, 0.5, 2.0)))
            self.check()

    async def _start_gang(self) -> None:
        """Run until the gang runs and its agents have acknowledged."""
        for _ in range(UP_SECONDS):
            self.advance_kubelets(all_pods=True)
            await asyncio.sleep(1.0)
            self.check()
        for pod in self._list_pods():
            self.acknowledge(pod)

    async def _settle(self) -> None:
        """Switch off the faults: the state of the spec must be reached, and stay."""
        self.note("faults off")
        network = self.network
        network.rate, network.crash_after = 0.0, None
        network.held.clear()
        network.broken.clear()
        for program in self.programs:
            program.link.stalled_until = 0.0
        await asyncio.sleep(0.001)  # a crash may be due now
        self.mend_clocks()
        self.start()
        self._restore_names()
        last, since = -1, 0
        for second in range(SETTLE_SECONDS):
            self.advance_kubelets(all_pods=True)
            self.advance_agents()
            self.storage.collect_garbage()
            if self._count_changes() != last:
                last, since = self._count_changes(), second
            if second - since > IDLE_SECONDS:
                break
            await asyncio.sleep(1.0)
            self.check()
        quiet = self._count_changes()
        self.note("must rest")
        await asyncio.sleep(QUIET_SECONDS)
        self.check()
        if self._count_changes() != quiet:
            self._fail("I11: writes while all rests")
        self.check_rest()

    def _count_changes(self) -> int:
        """Count the writes that were applied and those that the controllers sent."""
        return self.auditor.changes + self._writes

    def _restore_names(self) -> None:
        """Undo the actions of other clients: taken names, finalizers, objects without an owner.

        A gang key without an owner is left if a client deletes the ConfigMap and orphans it. The
        controller may neither read nor delete Secrets, so a user must delete it: the condition
        Blocked names it.
        """
        self.storage.collect_garbage()
        for name in sorted(self.foreign_pods):
            self._attempt(partial(self._delete, PODS, name, DeleteOptions(grace_seconds=0)))
        for resource in (CONFIGMAPS, PODS, SECRETS):
            for found in self.storage.list(self._type(resource), NAMESPACE).items:
                meta = found["metadata"]
                if meta.get("finalizers") and resource == PODS:
                    self._set_finalizers(meta["name"], None)
                if not meta.get("ownerReferences"):
                    options = DeleteOptions(uid=meta["uid"], grace_seconds=0)
                    self._attempt(partial(self._delete, resource, meta["name"], options))

    def check(self) -> None:
        """Fail with the trace if an invariant was violated."""
        if self.auditor.faults:
            self._fail(self.auditor.faults[0])

    def check_rest(self) -> None:
        """Fail with the trace if the final state is not the state of the spec."""
        wire = self._find(FRAMEWORKS, FRAMEWORK)
        framework = None if wire is None else codec.decode_framework(wire)
        configmap = self._find(CONFIGMAPS, build_configmap_name(FRAMEWORK))
        for fault in list_unreached(framework, configmap, self.auditor):
            self._fail(fault)

    def _fail(self, text: str) -> NoReturn:
        tail = "\n".join(self.trace[-TRACE_LINES:])
        raise AssertionError(f"seed {self.seed}: {text}\n{tail}\nseed {self.seed}: {text}")

    # --- faults

    def crash_anywhere(self) -> None:
        """Kill a controller after a drawn number of turns of the event loop."""
        loop, turns = asyncio.get_running_loop(), self.draw.randrange(1, 40)

        def turn(left: int) -> None:
            if left:
                loop.call_soon(turn, left - 1)
            else:
                self.crash()

        turn(turns)

    def stall(self) -> None:
        """Delay all requests and events of one controller, which may lose its Lease."""
        if self.programs:
            program, seconds = self.draw.choice(self.programs), self.draw.choice((2.0, 5.0, 9.0))
            self.note(f"{program.name} is stalled for {seconds} s")
            program.link.stalled_until = asyncio.get_running_loop().time() + seconds
            self._disturb()

    def crash_at_a_write(self) -> None:
        self.network.crash_after = self.draw.randrange(1, 6)

    def hold_watch(self) -> None:
        resource = self.draw.choice(("pods", "configmaps", "frameworks"))
        seconds = self.draw.choice((0.5, 3.0, 8.0))
        self.note(f"watch of {resource} is held for {seconds} s")
        self._disturb()
        self.network.held[resource] = asyncio.get_running_loop().time() + seconds

    def break_watch(self) -> None:
        """Break the watch of one resource: the controller resumes it, or lists again."""
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
        self._disturb()

    def _disturb(self) -> None:
        """Allow late events of Pods for a while."""
        self._disturbed_until = asyncio.get_running_loop().time() + LATE_NEWS_SECONDS

    def _estimate_news_seconds(self) -> float:
        is_disturbed = asyncio.get_running_loop().time() < self._disturbed_until
        return LATE_NEWS_SECONDS if is_disturbed or self.network.rate else NEWS_SECONDS

    def change_rate(self) -> None:
        self._disturb()
        self.network.rate = self.draw.choice((0.0, 0.0, 0.05, 0.3))


def _draw_config(draw: random.Random) -> ControllerConfig:
    config = ControllerConfig(
        conflict_retry_delay_min_seconds=5,
        conflict_retry_delay_max_seconds=20,
        worker_number=2,
        nodes=NodesConfig(is_watched=True),
    )
    is_short = draw.random() < 0.15
    return replace(config, framework_completed_retain_seconds=15) if is_short else config


_Step = Callable[[Simulation], None]
_TABLE: tuple[tuple[_Step, int], ...] = (
    (Simulation.advance_kubelets, 40),
    (Simulation.collect_garbage, 12),
    (Simulation.edit_framework, 4),
    (Simulation.start_or_stop, 1),
    (Simulation.suspend_or_resume, 2),
    (Simulation.create_framework, 2),
    (Simulation.request_retry, 2),
    (Simulation.delete_framework, 1),
    (Simulation.delete_configmap, 1),
    (Simulation.kill_pod, 3),
    (Simulation.evict_pod, 3),
    (Simulation.cordon_node, 3),
    (Simulation.remove_label, 1),
    (Simulation.remove_owner, 1),
    (Simulation.let_one_acknowledge, 10),
    (Simulation.fail_process, 12),
    (Simulation.advance_agents, 4),
    (Simulation.report_missing, 1),
    (Simulation.report_training, 6),
    (Simulation.set_clock, 2),
    (Simulation.take_pod_name, 1),
    (Simulation.add_finalizer, 1),
    (Simulation.crash, 1),
    (Simulation.crash_anywhere, 2),
    (Simulation.crash_at_a_write, 3),
    (Simulation.stall, 2),
    (Simulation.start, 8),
    (Simulation.hold_watch, 3),
    (Simulation.break_watch, 3),
    (Simulation.change_rate, 1),
)
_STEPS = tuple(step for step, _ in _TABLE)
_WEIGHTS = tuple(weight for _, weight in _TABLE)
