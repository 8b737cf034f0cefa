"""``framework-controller``: joins the parts and runs until it is told to stop.

Exit codes: 0 after SIGTERM or SIGINT, 1 when a part failed for good or the Lease was lost, 2 for
bad arguments or a bad configuration.
"""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, replace
from typing import NoReturn

import click

from controller.config.config_file import ControllerConfig, load_config
from controller.core.decision import SnapshotTrigger
from controller.core.settings import Limits, Settings
from controller.execute.executor import Executor
from controller.execute.writer import Writer
from controller.gate.crd_check import CrdError, CrdGuard, check_crd
from controller.gate.leader import (
    DEFAULT_LEASE_NAME,
    LeaderElector,
    LeadershipLostError,
    LeaseTimes,
)
from controller.gate.write_gate import JointWriteGate
from controller.queues.workqueue import WorkQueue
from controller.reconcile.memory import MemoryLedger, find_limit_bytes, read_used_bytes
from controller.reconcile.worker import Worker
from controller.report.events import EventRecorder
from controller.report.history_log import HistoryLog
from controller.report.reporter import Reporter
from controller.serve.health import HealthError, HealthServer
from controller.serve.metrics import Metrics
from controller.store.provenance import Signer
from controller.store.store import Store
from controller.watch.informer import Informers
from framework.api.constants import COMPONENT_NAME, COMPRESSION_MIN_BYTES
from framework.api.fielderrors import FieldErrors
from framework.clock import (
    BootClock,
    Clock,
    KeySource,
    Random,
    SystemClock,
    SystemKeys,
    SystemRandom,
    SystemUids,
)
from framework.kube.client import PAGE_SIZE, KubeClient
from framework.kube.config import KubeConfig, load_kube_config
from framework.kube.errors import KubeError
from framework.kube.kubeconfig import ConfigError
from framework.kube.resources import FRAMEWORKS
from framework.logs import LogFormat, configure_logging
from framework.version import VERSION

logger = logging.getLogger(__name__)

EXIT_FAILED = 1
EXIT_USAGE = 2
# docs/design/state-machines.md, "Start and stop of a controller".
_DRAIN_SECONDS = 5.0
_LAST_WRITES_SECONDS = 3.0
# Frameworks of one namespace that are decided and written at the same time, and of all.
NAMESPACE_WORKERS = 16
MAX_WORKERS = 4 * NAMESPACE_WORKERS
_TAKE_OVER_PAUSE_SECONDS = 0.2
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_EXPECTED_ERRORS = (CrdError, HealthError, ConfigError, LeadershipLostError)


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says beyond the config file."""

    namespace: str | None
    health_host: str
    health_port: int
    is_leader_elected: bool = False
    lease_namespace: str | None = None
    """None for the namespace this program runs in, or the kubeconfig's."""
    lease_name: str = DEFAULT_LEASE_NAME


@dataclass(frozen=True, slots=True)
class Election:
    """Which Lease to hold while acting, and through which client it is asked for."""

    client: KubeClient
    clock: BootClock
    namespace: str
    name: str
    identity: str
    times: LeaseTimes | None = None


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
        """Join the parts; nothing is read or sent yet. Without an ``election`` it always acts.

        ``keys``: what secrets are made of; None for the operating system's.
        """
        self.metrics = Metrics()
        self._client = client
        self._config = config
        self._options = options
        self._worker_number = min(config.worker_number, MAX_WORKERS)
        self._queue = WorkQueue(self._find_namespace_limit)
        self._store = Store(on_change=self._queue.add, clock=clock)
        self.metrics.follow_frameworks(self._store.__len__)
        self._guard = CrdGuard(client, on_recovery=self._retry_all)
        self._elector = None if election is None else self._build_elector(election)
        write_gate = JointWriteGate(self._guard, *([self._elector] if self._elector else []))
        self._recorder = EventRecorder(
            client, clock, COMPONENT_NAME, self.metrics, write_gate=write_gate
        )
        history = HistoryLog(select_triggers(config))
        self._informers = Informers(
            client,
            self._store,
            clock=clock,
            random=random,
            namespace=options.namespace,
            metrics=self.metrics,
            # Candidates see every deletion too: it is logged once.
            on_pod_deletion=lambda pod: (
                history.log_deleted_pod(pod) if write_gate.may_write() else None
            ),
            on_connection=self._retry_all,
        )
        keys = keys or SystemKeys()
        signer = Signer(keys)
        self._executor = Executor(
            client,
            self._store,
            clock=clock,
            metrics=self.metrics,
            on_answer=self._queue.add,
            write_gate=write_gate,
            keys=keys,
            signer=signer,
        )
        self._worker = Worker(
            store=self._store,
            queue=self._queue,
            writer=Writer(
                client,
                self._store,
                clock=clock,
                metrics=self.metrics,
                compression_min_bytes=COMPRESSION_MIN_BYTES
                if config.large_framework_compression
                else None,
                write_gate=write_gate,
                on_status_missing=self._guard.suspect,
            ),
            executor=self._executor,
            reporter=Reporter(self._recorder),
            history=history,
            settings=replace(build_settings(config), creator_key=signer.public_key),
            clock=clock,
            metrics=self.metrics,
            memory=build_memory(config),
            write_gate=write_gate,
        )

    def _find_namespace_limit(self, namespace: str) -> int:
        """Find how many workers a namespace may keep busy: each sends a request of its own."""
        limit = select_namespace_limit(self._worker_number)
        return min(limit, self._executor.get_window(namespace))

    async def run(self, stop: asyncio.Event) -> None:
        """Run until ``stop`` is set; then hand over in order.

        Raises:
            CrdError: the CRD is unfit at start.
            HealthError: the health endpoint cannot listen.
            LeadershipLostError: another controller leads now, alone or among others in a group.
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
        """Start nothing new, await what is in flight, write the last statuses."""
        logger.info("stopping")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                await asyncio.gather(self._worker.stop(), self._executor.drain(_DRAIN_SECONDS))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WRITES_SECONDS):
                await self._worker.write_rest()

    async def _run_loops(self) -> None:
        await check_crd(self._client, self._config.crd_established_check_timeout_seconds)
        if self._elector is not None:
            self._store.follow()
        else:
            self._store.expect_late_writes()
        async with asyncio.TaskGroup() as tasks:
            self._informers.start(tasks)
            tasks.create_task(self._guard.run(), name="crd-guard")
            # No decision before everything was listed: a missing Pod would look gone.
            await self._informers.wait_synced()
            if self._elector is not None:
                await self._take_lead(self._elector, tasks)
            self.metrics.set_leader(is_leader=True)
            logger.info("running", extra={"frameworks": len(self._store), "version": VERSION})
            self._executor.start(tasks)
            tasks.create_task(self._recorder.run(), name="events")
            for number in range(self._worker_number):
                tasks.create_task(self._worker.run(), name=f"worker-{number}")

    async def _take_lead(self, elector: LeaderElector, tasks: asyncio.TaskGroup) -> None:
        """Wait for the Lease, then learn what the leader before us wrote last."""
        await elector.acquire()
        tasks.create_task(elector.keep(), name="lease")
        while True:
            try:
                stored = await self._client.list(
                    FRAMEWORKS, self._options.namespace, limit=PAGE_SIZE
                )
            except KubeError as e:
                logger.warning("cannot take over yet", extra={"error": str(e)})
                await asyncio.sleep(_TAKE_OVER_PAUSE_SECONDS)
                continue
            self._store.take_over(stored["items"])
            return

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

    def _find_unready(self) -> list[str]:
        problems = self._informers.find_unready()
        return [self._guard.problem, *problems] if self._guard.problem else problems


def build_settings(config: ControllerConfig) -> Settings:
    """Select what decisions read of the configuration."""
    return Settings(
        code_rules=config.pod_failure_rules,
        min_conflict_delay_seconds=config.conflict_retry_delay_min_seconds,
        max_conflict_delay_seconds=config.conflict_retry_delay_max_seconds,
        quick_end_seconds=config.retry_backoff_threshold_seconds,
        max_pause_seconds=config.retry_backoff_max_seconds,
        completed_retain_seconds=config.framework_completed_retain_seconds,
        limits=Limits(
            max_roles=config.framework_max_task_roles,
            max_tasks=config.framework_max_tasks,
            max_object_bytes=config.framework_max_bytes,
            is_compressed=config.large_framework_compression,
        ),
    )


def build_memory(config: ControllerConfig) -> MemoryLedger:
    """Build the account of this process's memory; without a limit it keeps none."""
    limit = config.memory_limit_bytes
    if limit is None:
        limit = find_limit_bytes()
    return MemoryLedger(limit or None, config.memory_admission_percent, read_used_bytes)


def select_namespace_limit(worker_number: int) -> int:
    """Select how many workers one namespace may keep busy: a quarter is left to the others."""
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


async def run_controller(config: ControllerConfig, kube: KubeConfig, options: Options) -> None:
    """Run a controller against one API server until SIGTERM or SIGINT."""
    with _stop_signals() as stop:
        await _run_connected(config, kube, options, stop)
    logger.info("stopped")


@contextlib.contextmanager
def _stop_signals() -> Iterator[asyncio.Event]:
    """Give what SIGTERM and SIGINT set; after the block they do nothing any more.

    Not the loop's own handlers: it takes them away with itself, and a second signal while Python
    ends would belie the exit code.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _STOP_SIGNALS:
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop.set))
    try:
        yield stop
    finally:
        for number in _STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)


async def _run_connected(
    config: ControllerConfig, kube: KubeConfig, options: Options, stop: asyncio.Event
) -> None:
    clock = SystemClock()
    agent = f"{COMPONENT_NAME}/{VERSION}"
    client = KubeClient(
        kube,
        user_agent=agent,
        clock=clock,
        qps=config.kube_client_qps,
        burst=config.kube_client_burst,
    )
    lease_client = KubeClient(kube, user_agent=f"{agent} (lease)", clock=clock)
    async with client, lease_client:
        controller = Controller(
            client,
            config,
            options,
            clock=clock,
            random=SystemRandom(),
            election=build_election(lease_client, clock, kube, options),
        )
        await controller.run(stop)


def build_election(
    client: KubeClient, clock: BootClock, kube: KubeConfig, options: Options
) -> Election | None:
    """Build what the elector needs; None when this controller always acts."""
    if not options.is_leader_elected:
        return None
    return Election(
        client,
        clock,
        namespace=options.lease_namespace or kube.namespace,
        name=options.lease_name,
        # The UID, because names of hosts and numbers of processes come again.
        identity=f"{socket.gethostname()}_{os.getpid()}_{SystemUids().new_uid()}",
    )


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--config", "config_path", metavar="FILE", help="The original's config file.")
@click.option("--strict-config", is_flag=True, help="An unknown key is an error, not a warning.")
@click.option("--kubeconfig", metavar="FILE", help="Overrides kubeConfigFilePath.")
@click.option("--address", metavar="URL", help="Overrides kubeApiServerAddress.")
@click.option("--namespace", metavar="NAME", help="Watch one namespace only.")
@click.option(
    "--leader-elect/--no-leader-elect",
    default=False,
    show_default=True,
    help="Act only while holding a Lease, so that several controllers may run.",
)
@click.option("--leader-elect-namespace", metavar="NAME", help="Of the Lease; else the own one.")
@click.option("--leader-elect-name", default=DEFAULT_LEASE_NAME, show_default=True, metavar="NAME")
@click.option("--health-address", default="127.0.0.1", show_default=True, metavar="HOST")
@click.option("--health-port", default=8080, show_default=True, type=click.IntRange(0, 65535))
@click.option("--log-format", default="text", type=click.Choice([f.value for f in LogFormat]))
@click.option("--log-level", default="info", show_default=True)
@click.version_option(VERSION, message="%(version)s")
def main(  # noqa: PLR0913 one parameter per option
    config_path: str | None,
    kubeconfig: str | None,
    address: str | None,
    namespace: str | None,
    health_address: str,
    health_port: int,
    log_format: str,
    log_level: str,
    *,
    strict_config: bool,
    leader_elect: bool,
    leader_elect_namespace: str | None,
    leader_elect_name: str,
) -> None:
    """Run Frameworks on a Kubernetes cluster."""
    try:
        configure_logging(log_format, log_level)
        config = _load(config_path, is_strict=strict_config)
        address = address or config.kube_api_server_address
        kube = load_kube_config(address, kubeconfig or config.kube_config_file_path, os.environ)
    except (FieldErrors, ConfigError, ValueError) as e:
        _fail(e, EXIT_USAGE)
    options = Options(
        namespace,
        health_address,
        health_port,
        is_leader_elected=leader_elect,
        lease_namespace=leader_elect_namespace,
        lease_name=leader_elect_name,
    )
    _run_to_end(run_controller(config, kube, options))


def _run_to_end(program: Coroutine[None, None, None]) -> None:
    """Run on the fastest loop there is; exit with a line instead of a traceback if expected."""
    _tune_memory()
    try:
        with asyncio.Runner(loop_factory=_find_loop_factory()) as runner:
            runner.run(program)
    except _EXPECTED_ERRORS as e:
        _fail(e, EXIT_FAILED)
    except BaseExceptionGroup as group:
        known = group.subgroup(_EXPECTED_ERRORS)
        if known is None:
            raise
        for error in known.exceptions:
            logger.error("stopping", extra={"error": str(error)})
        sys.exit(EXIT_FAILED)


def _tune_memory() -> None:
    """Let Python look for cycles less often: ours hold little, and each look walks the store."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def _find_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # noqa: PLC0415 not everywhere installed
    except ImportError:
        return None
    return uvloop.new_event_loop


def _load(path: str | None, *, is_strict: bool) -> ControllerConfig:
    loaded = load_config(path, os.environ, strict=is_strict)
    for warning in loaded.warnings:
        logger.warning("configuration", extra={"file": loaded.source, "problem": str(warning)})
    return loaded.config


def _fail(error: Exception, code: int) -> NoReturn:
    if isinstance(error, FieldErrors):
        for fault in error.errors:
            click.echo(f"framework-controller: config: {fault}", err=True)
    else:
        click.echo(f"framework-controller: {error}", err=True)
    sys.exit(code)
