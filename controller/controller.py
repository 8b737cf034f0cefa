"""One controller: joins its parts, and runs them from the first list to the last write.

1. Wait until the CRD is installed and usable, start the list-watches, and wait until all of them
   have listed.
2. With leader election, wait for the Lease, then read all Frameworks live: the watch may not have
   shown the last writes of the former leader yet.
3. Start the executor, the Event recorder and the workers.
4. When stopped, begin no decision, wait for the requests in flight, write the last statuses, and
   release the Lease.

Invariant: nothing is decided before everything is listed. A Pod that is not listed yet would look
like a Pod that is gone.

Rules: docs/design/state-machines.md, "Start and stop of a controller".
"""

import asyncio
import contextlib
import logging
from dataclasses import dataclass, replace

from controller.config.config_file import ControllerConfig
from controller.core.decision import SnapshotTrigger
from controller.core.settings import FrameworkLimits, Settings
from controller.execute.executor import Executor
from controller.execute.writer import Writer
from controller.gate.crd_check import CrdGuard, check_crd
from controller.gate.leader import (
    DEFAULT_LEASE_NAME,
    LeaderElector,
    LeaseTimes,
)
from controller.gate.write_gate import JointWriteGate
from controller.kinds.reconciler import KINDS, JobReconciler
from controller.queues.workqueue import WorkQueue
from controller.reconcile.memory import MemoryLedger, find_limit_bytes, read_used_bytes
from controller.reconcile.worker import Worker
from controller.report.events import EventRecorder
from controller.report.history_log import HistoryLog
from controller.report.reporter import Reporter
from controller.runtime import Runtime
from controller.serve.health import HealthServer
from controller.serve.metrics import Metrics
from controller.store.provenance import Signer
from controller.store.store import Store
from controller.watch.informer import Informers
from controller.watch.nodes import NodeWatch
from framework.api.constants import COMPONENT_NAME, COMPRESSION_MIN_BYTES
from framework.clock import (
    BootClock,
    Clock,
    KeySource,
    Random,
    SystemKeys,
)
from framework.kube.client import PAGE_SIZE, KubeClient
from framework.kube.errors import KubeError
from framework.kube.resources import FRAMEWORKS, Object
from framework.version import VERSION

logger = logging.getLogger(__name__)

_DRAIN_SECONDS = 5.0
_LAST_WRITES_SECONDS = 3.0
# Frameworks of one namespace that are decided and written at the same time, and of all.
NAMESPACE_WORKERS = 16
MAX_WORKERS = 4 * NAMESPACE_WORKERS
_TAKE_OVER_PAUSE_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of the command line that the config file does not have, or that override it."""

    namespace: str | None
    """The only namespace to watch; None for all."""
    health_host: str
    """Address of the port of probes and scrapes."""
    health_port: int
    """0 for any free port."""
    is_leader_elected: bool = False
    """Whether to act only while holding a Lease."""
    lease_namespace: str | None = None
    """None for the namespace that this program runs in, or that of the kubeconfig."""
    lease_name: str = DEFAULT_LEASE_NAME
    """Name of the Lease."""
    kinds: tuple[str, ...] | None = None
    """Other kinds of jobs to run; None for those of the config file."""
    watches_nodes: bool | None = None
    """Whether to watch nodes; None: as the config file says."""


@dataclass(frozen=True, slots=True)
class Election:
    """The Lease to hold while acting, and the client that requests it."""

    client: KubeClient
    """Sends the requests for the Lease, and nothing else."""
    clock: BootClock
    """A clock that continues while the process is stopped or the machine sleeps."""
    namespace: str
    """Namespace of the Lease."""
    name: str
    """Name of the Lease."""
    identity: str
    """Identity of this process; no other process has the same."""
    times: LeaseTimes | None = None
    """None for the default durations."""


class Controller:
    """One controller: its parts, joined."""

    def __init__(
        self,
        client: KubeClient,
        config: ControllerConfig,
        options: Options,
        *,
        clock: Clock,
        random: Random,
        keys: KeySource | None = None,
        election: Election | None = None,
    ) -> None:
        """Join the parts; nothing is read or sent yet.

        Args:
            client: sends all requests, except those for the Lease.
            config: the settings of the config file.
            options: the settings of the command line.
            clock: the clock of all parts.
            random: draws the random part of delays.
            keys: the source of secrets; None for that of the operating system.
            election: the Lease to hold; None to act without one.
        """
        self.metrics = Metrics()
        self._client = client
        self._config = config
        self._options = options
        self._worker_number = min(config.worker_number, MAX_WORKERS)
        self._guard = CrdGuard(client, on_recovery=self._retry_all)
        self._elector = None if election is None else self._build_elector(election)
        write_gate = JointWriteGate(self._guard, *([self._elector] if self._elector else []))
        runtime = Runtime(client, clock, random, self.metrics, write_gate)
        self._runtime = runtime
        self._keys = keys or SystemKeys()
        self._memory = build_memory(config)
        self._history = HistoryLog(select_triggers(config))
        self._recorder = EventRecorder(runtime, COMPONENT_NAME)
        self._queue = WorkQueue(self._find_namespace_limit)
        self._store = Store(on_change=self._queue.add, clock=clock)
        self.metrics.follow_frameworks(self._store.__len__)
        self._informers = self._build_informers()
        self._nodes = self._build_nodes()
        signer = Signer(self._keys)
        self._executor = Executor(
            runtime, self._store, on_answer=self._queue.add, keys=self._keys, signer=signer
        )
        self._worker = self._build_worker(signer.public_key)
        names = config.kinds if options.kinds is None else options.kinds
        self._jobs = [self._build_jobs(name) for name in sorted(set(names))]

    def _build_informers(self) -> Informers:
        return Informers(
            self._runtime,
            self._store,
            namespace=self._options.namespace,
            on_pod_deletion=self._log_deleted_pod,
            on_connection=self._retry_all,
            kept_json=self._memory.other_json,
        )

    def _log_deleted_pod(self, pod: Object) -> None:
        # Candidates see each deletion, too; only the leader logs it.
        if self._runtime.write_gate.may_write():
            self._history.log_deleted_pod(pod)

    def _build_nodes(self) -> NodeWatch | None:
        chosen, config = self._options.watches_nodes, self._config.nodes
        if not (config.is_watched if chosen is None else chosen):
            return None
        return NodeWatch(self._runtime, self._store, config, self._queue.add)

    def _build_worker(self, creator_key: str) -> Worker:
        is_compressed = self._config.large_framework_compression
        writer = Writer(
            self._runtime,
            self._store,
            compression_min_bytes=COMPRESSION_MIN_BYTES if is_compressed else None,
            on_status_missing=self._guard.suspect,
        )
        return Worker(
            self._runtime,
            store=self._store,
            queue=self._queue,
            writer=writer,
            executor=self._executor,
            reporter=Reporter(self._recorder),
            history=self._history,
            settings=replace(build_settings(self._config), creator_key=creator_key),
            memory=self._memory,
            nodes=None if self._nodes is None else self._nodes.notices,
        )

    def _build_jobs(self, name: str) -> JobReconciler:
        return JobReconciler(
            self._runtime,
            KINDS[name],
            namespace=self._options.namespace,
            keys=self._keys,
            recorder=self._recorder,
            kept_json=self._memory.other_json,
        )

    def _find_namespace_limit(self, namespace: str) -> int:
        """Find how many workers a namespace may keep busy.

        Not more than the executor may send requests, because each worker sends a request, too.
        """
        limit = select_namespace_limit(self._worker_number)
        return min(limit, self._executor.get_window(namespace))

    async def run(self, stop: asyncio.Event) -> None:
        """Run until ``stop`` is set; then release everything in order.

        Raises:
            CrdError: the CRD is missing or not usable at the start.
            HealthError: the health endpoint cannot listen.
            LeadershipLostError: the Lease is lost. It may be raised inside an ExceptionGroup.
        """
        health = HealthServer(
            self._options.health_host,
            self._options.health_port,
            find_unready=self._find_unready,
            metrics=self.metrics,
        )
        async with health:
            loops = asyncio.create_task(self._run_loops(), name="controller-loops")
            stopped = asyncio.create_task(stop.wait(), name="controller-stop")
            try:
                await asyncio.wait({loops, stopped}, return_when=asyncio.FIRST_COMPLETED)
                if not loops.done():
                    await self._finish_work()
            finally:
                stopped.cancel()
                loops.cancel()
                await asyncio.wait({loops, stopped})
            if not loops.cancelled():
                loops.result()
            if self._elector is not None:
                await self._elector.release()

    async def _finish_work(self) -> None:
        """Start nothing new, await the requests in flight, write the last statuses."""
        logger.info("stopping")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                await asyncio.gather(self._worker.stop(), self._executor.drain(_DRAIN_SECONDS))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WRITES_SECONDS):
                await self._worker.write_rest()

    async def _run_loops(self) -> None:
        await check_crd(
            self._client,
            self._config.crd_established_check_timeout_seconds,
            self._config.crd_established_check_interval_seconds,
        )
        if self._elector is not None:
            self._store.trust.follow()
        else:
            self._store.trust.expect_late_writes()
        async with asyncio.TaskGroup() as tasks:
            self._informers.start(tasks)
            if self._nodes is not None:
                self._nodes.start(tasks)
            for jobs in self._jobs:
                jobs.start_watches(tasks)
            tasks.create_task(self._guard.run(), name="crd-guard")
            # Decide nothing before everything is listed: a Pod not listed yet would look deleted.
            await self._informers.wait_synced()
            if self._elector is not None:
                await self._take_lead(self._elector, tasks)
            self.metrics.set_leader(is_leader=True)
            logger.info("running", extra={"frameworks": len(self._store), "version": VERSION})
            self._executor.start(tasks)
            tasks.create_task(self._recorder.run(), name="events")
            for number in range(self._worker_number):
                tasks.create_task(self._worker.run(), name=f"worker-{number}")
            for number, jobs in enumerate(self._jobs):
                tasks.create_task(jobs.run(), name=f"jobs-{number}")

    async def _take_lead(self, elector: LeaderElector, tasks: asyncio.TaskGroup) -> None:
        """Wait for the Lease, then read the last writes of the former leader."""
        await elector.acquire()
        tasks.create_task(elector.keep(), name="lease")
        while True:
            try:
                await self._read_stored()
            except KubeError as e:
                logger.warning("cannot take over yet", extra={"error": str(e)})
                await asyncio.sleep(_TAKE_OVER_PAUSE_SECONDS)
                continue
            return

    async def _read_stored(self) -> None:
        """Compare the store with the API server, page by page."""
        confirmed: set[str] = set()
        pages = self._client.list_pages(
            FRAMEWORKS, self._options.namespace, limit=PAGE_SIZE, is_deferred=True
        )
        async with contextlib.aclosing(pages):
            async for page, is_restart in pages:
                if is_restart:
                    confirmed.clear()
                confirmed |= self._store.take_over.confirm(page.pop("items"))
        self._store.take_over.finish(confirmed)

    def _build_elector(self, election: Election) -> LeaderElector:
        return LeaderElector(
            election.client,
            election.clock,
            namespace=election.namespace,
            name=election.name,
            identity=election.identity,
            times=election.times,
            on_change=self._record_leadership,
        )

    def _record_leadership(self, is_leader: bool) -> None:  # noqa: FBT001 a callback's one argument
        self.metrics.set_leader(is_leader=is_leader)
        if is_leader:
            self._retry_all()

    def _retry_all(self) -> None:
        self._worker.retry_all()
        for jobs in self._jobs:
            jobs.retry_all()

    def _find_unready(self) -> list[str]:
        problems = self._informers.find_unready()
        for jobs in self._jobs:
            problems += jobs.find_unready()
        return [self._guard.problem, *problems] if self._guard.problem else problems


def build_settings(config: ControllerConfig) -> Settings:
    """Select the part of the configuration that decisions read."""
    return Settings(
        code_rules=config.pod_failure_rules,
        min_conflict_delay_seconds=config.conflict_retry_delay_min_seconds,
        max_conflict_delay_seconds=config.conflict_retry_delay_max_seconds,
        quick_end_seconds=config.retry_backoff_threshold_seconds,
        max_pause_seconds=config.retry_backoff_max_seconds,
        completed_retain_seconds=config.framework_completed_retain_seconds,
        limits=FrameworkLimits(
            max_roles=config.framework_max_task_roles,
            max_tasks=config.framework_max_tasks,
            max_object_bytes=config.framework_max_bytes,
            is_compressed=config.large_framework_compression,
        ),
    )


def build_memory(config: ControllerConfig) -> MemoryLedger:
    """Build the ledger of this process's memory; without a limit, it records nothing."""
    limit = config.memory_limit_bytes
    if limit is None:
        limit = find_limit_bytes()
    return MemoryLedger(limit or None, config.memory_admission_percent, read_used_bytes)


def select_namespace_limit(worker_number: int) -> int:
    """Select how many workers one namespace may keep busy; a quarter is left to the others."""
    return min(NAMESPACE_WORKERS, worker_number - worker_number // 4)


def select_triggers(config: ControllerConfig) -> frozenset[SnapshotTrigger]:
    """Select which object snapshots are logged."""
    switches = config.log_object_snapshot
    chosen = {
        SnapshotTrigger.FRAMEWORK_RETRY: switches.on_framework_retry,
        SnapshotTrigger.FRAMEWORK_DELETION: switches.on_framework_deletion,
        SnapshotTrigger.TASK_RETRY: switches.on_task_retry,
        SnapshotTrigger.TASK_DELETION: switches.on_task_deletion,
        SnapshotTrigger.POD_DELETION: switches.on_pod_deletion,
    }
    return frozenset(trigger for trigger, is_on in chosen.items() if is_on)
