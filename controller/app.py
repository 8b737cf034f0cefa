"""``framework-controller``: the command line, and the run until a signal stops it.

Exit codes: 0 after SIGTERM or SIGINT, 1 when a part failed permanently or the Lease was lost, 2 for
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
from typing import NoReturn

import click

from controller.config.config_file import (
    KIND_NAMES,
    ControllerConfig,
    find_kind_problem,
    load_config,
)
from controller.controller import Controller, Election, Options
from controller.gate.crd_check import CrdError
from controller.gate.leader import (
    DEFAULT_LEASE_NAME,
    LeadershipLostError,
)
from controller.reconcile.allocator import return_large_blocks
from controller.serve.health import HealthError
from framework.api.constants import COMPONENT_NAME
from framework.api.fielderrors import FieldErrors
from framework.clock import (
    BootClock,
    SystemClock,
    SystemRandom,
    SystemUids,
)
from framework.kube.client import KubeClient
from framework.kube.config import KubeConfig, load_kube_config
from framework.kube.kubeconfig import ConfigError
from framework.logs import LogFormat, configure_logging
from framework.version import VERSION

logger = logging.getLogger(__name__)

EXIT_FAILED = 1
EXIT_USAGE = 2
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_EXPECTED_ERRORS = (CrdError, HealthError, ConfigError, LeadershipLostError)


async def run_controller(config: ControllerConfig, kube: KubeConfig, options: Options) -> None:
    """Run a controller against one API server until SIGTERM or SIGINT."""
    with _stop_signals() as stop:
        await _run_connected(config, kube, options, stop)
    logger.info("stopped")


@contextlib.contextmanager
def _stop_signals() -> Iterator[asyncio.Event]:
    """Yield an event that SIGTERM and SIGINT set; after the block, both signals are ignored.

    The handlers of the event loop are not used. They are removed with the loop, so that a second
    signal while Python ends would change the exit code.
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
    """Build the settings of the election; None if this controller acts without a Lease."""
    if not options.is_leader_elected:
        return None
    return Election(
        client,
        clock,
        namespace=options.lease_namespace or kube.namespace,
        name=options.lease_name,
        # With a UID, because host names and process ids are used again.
        identity=f"{socket.gethostname()}_{os.getpid()}_{SystemUids().new_uid()}",
    )


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--config",
    "config_path",
    metavar="FILE",
    help="Config file, in the format of microsoft/frameworkcontroller.",
)
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
@click.option(
    "--leader-elect-namespace",
    metavar="NAME",
    help="Namespace of the Lease; default: that of the controller.",
)
@click.option("--leader-elect-name", default=DEFAULT_LEASE_NAME, show_default=True, metavar="NAME")
@click.option(
    "--kinds",
    metavar="NAMES",
    help=f"Other kinds of jobs to run, of {','.join(KIND_NAMES)}; overrides `kinds` of the config "
    "file.",
)
@click.option(
    "--watch-nodes/--no-watch-nodes",
    default=None,
    help="Watch nodes, so that Tasks leave before their nodes go; overrides `watchNodes` of the "
    "config file.",
)
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
    kinds: str | None,
    watch_nodes: bool | None,
) -> None:
    """Run Frameworks on a Kubernetes cluster."""
    selected = _parse_kinds(kinds)
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
        kinds=selected,
        watches_nodes=watch_nodes,
    )
    _run_to_end(run_controller(config, kube, options))


def _parse_kinds(text: str | None) -> tuple[str, ...] | None:
    """Parse the names of kinds; end the program if one is unknown."""
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    problem = find_kind_problem(names)
    if problem:
        _fail(ValueError(f"--kinds: {problem}"), EXIT_USAGE)
    return names


def _run_to_end(program: Coroutine[None, None, None]) -> None:
    """Run on the fastest event loop installed; report an expected error without a traceback."""
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
    """Return freed memory to the system, and let Python collect cycles less often.

    Our cycles hold little memory, and each collection walks the store.
    """
    return_large_blocks()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def _find_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # noqa: PLC0415 not installed everywhere
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
