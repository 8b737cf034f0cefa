"""``framework-controller``: joins the parts and runs until it is told to stop.

Exit codes: 0 after SIGTERM or SIGINT, 1 when a part failed for good, 2 for bad arguments or a bad
configuration.
"""

import asyncio
import logging
import os
import signal
import sys
from dataclasses import dataclass
from typing import NoReturn

import click

from controller.config import ControllerConfig, load_config
from controller.core.decision import SnapshotTrigger
from controller.core.settings import Settings
from controller.crd_check import CrdError, check_crd
from controller.events import EventRecorder
from controller.executor import Executor
from controller.health import HealthError, HealthServer
from controller.history_log import HistoryLog
from controller.informer import Informers
from controller.metrics import Metrics
from controller.reporter import Reporter
from controller.store import Store
from controller.worker import Worker
from controller.workqueue import WorkQueue
from controller.writer import Writer
from framework.api.constants import COMPONENT_NAME, COMPRESSION_MIN_BYTES
from framework.api.fielderrors import FieldErrors
from framework.clock import Clock, Random, SystemClock, SystemRandom
from framework.kube.client import KubeClient
from framework.kube.config import KubeConfig, load_kube_config
from framework.kube.kubeconfig import ConfigError
from framework.logs import LogFormat, configure_logging
from framework.version import VERSION

logger = logging.getLogger(__name__)

EXIT_FAILED = 1
EXIT_USAGE = 2
# DESIGN: what is in flight at SIGTERM is awaited for so long.
_DRAIN_SECONDS = 5.0
_MAX_WORKERS = 64


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says beyond the config file."""

    namespace: str | None
    health_host: str
    health_port: int


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
    ) -> None:
        """Join the parts; nothing is read or sent yet."""
        self.metrics = Metrics()
        self._client = client
        self._config = config
        self._options = options
        self._queue = WorkQueue()
        self._store = Store(on_change=self._queue.add)
        self._recorder = EventRecorder(client, clock, COMPONENT_NAME, self.metrics)
        self._informers = Informers(
            client,
            self._store,
            clock=clock,
            random=random,
            namespace=options.namespace,
        )
        self._executor = Executor(
            client,
            self._store,
            clock=clock,
            metrics=self.metrics,
            on_answer=self._queue.add,
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
            ),
            executor=self._executor,
            reporter=Reporter(self._recorder),
            history=HistoryLog(select_triggers(config)),
            settings=build_settings(config),
            clock=clock,
            metrics=self.metrics,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Run until ``stop`` is set; then send nothing new and await what is in flight."""
        health = HealthServer(
            self._options.health_host,
            self._options.health_port,
            find_unready=self._informers.find_unready,
            metrics=self.metrics,
        )
        async with health, asyncio.TaskGroup() as requests:
            await check_crd(self._client, self._config.crd_established_check_timeout_seconds)
            self._executor.start(requests)
            loops = asyncio.create_task(self._run_loops(), name="controller-loops")
            stopped = asyncio.create_task(stop.wait(), name="controller-stop")
            done, _ = await asyncio.wait({loops, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if loops in done:
                stopped.cancel()
                await loops
            loops.cancel()
            await self._executor.drain(_DRAIN_SECONDS)
            await asyncio.gather(loops, return_exceptions=True)

    async def _run_loops(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            self._informers.start(tasks)
            tasks.create_task(self._recorder.run(), name="events")
            # No decision before everything was listed: a missing Pod would look gone.
            await self._informers.wait_synced()
            logger.info("running", extra={"frameworks": len(self._store), "version": VERSION})
            for number in range(min(self._config.worker_number, _MAX_WORKERS)):
                tasks.create_task(self._worker.run(), name=f"worker-{number}")


def build_settings(config: ControllerConfig) -> Settings:
    """Select what decisions read of the configuration."""
    return Settings(
        code_rules=config.pod_failure_rules,
        min_conflict_delay_seconds=config.conflict_retry_delay_min_seconds,
        max_conflict_delay_seconds=config.conflict_retry_delay_max_seconds,
        completed_retain_seconds=config.framework_completed_retain_seconds,
    )


def select_triggers(config: ControllerConfig) -> frozenset[SnapshotTrigger]:
    """Select which object snapshots are logged."""
    switches = config.log_object_snapshot
    chosen = {
        SnapshotTrigger.FRAMEWORK_RETRY: switches.on_framework_retry,
        SnapshotTrigger.FRAMEWORK_DELETION: switches.on_framework_deletion,
        SnapshotTrigger.TASK_RETRY: switches.on_task_retry,
        SnapshotTrigger.TASK_DELETION: switches.on_task_deletion,
    }
    return frozenset(trigger for trigger, is_on in chosen.items() if is_on)


async def run_controller(config: ControllerConfig, kube: KubeConfig, options: Options) -> None:
    """Run a controller against one API server until SIGTERM or SIGINT."""
    clock = SystemClock()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    client = KubeClient(
        kube,
        user_agent=f"{COMPONENT_NAME}/{VERSION}",
        clock=clock,
        qps=config.kube_client_qps,
        burst=config.kube_client_burst,
    )
    async with client:
        controller = Controller(client, config, options, clock=clock, random=SystemRandom())
        await controller.run(stop)
    logger.info("stopped")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--config", "config_path", metavar="FILE", help="The original's config file.")
@click.option("--strict-config", is_flag=True, help="An unknown key is an error, not a warning.")
@click.option("--kubeconfig", metavar="FILE", help="Overrides kubeConfigFilePath.")
@click.option("--address", metavar="URL", help="Overrides kubeApiServerAddress.")
@click.option("--namespace", metavar="NAME", help="Watch one namespace only.")
@click.option("--health-address", default="127.0.0.1", show_default=True, metavar="HOST")
@click.option("--health-port", default=8080, show_default=True, type=click.IntRange(0, 65535))
@click.option("--log-format", default="text", type=click.Choice([f.value for f in LogFormat]))
@click.option("--log-level", default="info", show_default=True)
@click.version_option(VERSION)
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
) -> None:
    """Run Frameworks on a Kubernetes cluster."""
    try:
        configure_logging(log_format, log_level)
        config = _load(config_path, is_strict=strict_config)
        address = address or config.kube_api_server_address
        kube = load_kube_config(address, kubeconfig or config.kube_config_file_path, os.environ)
    except (FieldErrors, ConfigError, ValueError) as e:
        _fail(e, EXIT_USAGE)
    try:
        asyncio.run(run_controller(config, kube, Options(namespace, health_address, health_port)))
    except (CrdError, HealthError, ConfigError) as e:
        _fail(e, EXIT_FAILED)
    except BaseExceptionGroup as group:
        known = group.subgroup((CrdError, HealthError, ConfigError))
        if known is None:
            raise
        for error in known.exceptions:
            logger.error("stopping", extra={"error": str(error)})
        sys.exit(EXIT_FAILED)


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
