"""``framework local up|down|status``: a Kubernetes on this machine.

Called by ``cli.main`` and, for ``run --local``, by ``cli.run``. A cluster that runs has a state
file with its process in it; a lock held by that process says whether the file is true.
"""

import asyncio
import fcntl
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cli.exitcodes import CliError, ExitCode
from cli.invocation import build_command, build_export
from cli.terminal import print_line
from cli.waiting import Interrupt
from framework.clock import SystemClock, SystemRandom, SystemUids
from framework.logs import configure_logging
from localcluster.cluster import (
    ClusterOptions,
    LocalCluster,
    LocalClusterError,
    PartFailedError,
    is_claimed,
)
from localcluster.kubelet.sandbox import Isolation
from localcluster.network.choice import NetworkChoice
from localcluster.private_files import (
    ExposedError,
    check_private_directory,
    make_private_directory,
    write_private_file,
)

logger = logging.getLogger(__name__)

_STATE_FILE = "state.json"
_LOCK_FILE = "lock"
_LOG_FILE = "cluster.log"
_START_SECONDS = 30.0
_STOP_SECONDS = 30.0
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """What the user asked for."""

    detach: bool = False
    kubeconfig: str | None = None
    with_kubelet: bool = True
    with_controller: bool = True
    port: int = 0
    isolation: str = "auto"
    network: str = "auto"
    directory: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """What a running cluster says about itself."""

    pid: int
    server: str
    kubeconfig: str
    directory: str
    started_at: str
    note: str = ""
    """What will not work on this host."""


def find_state_directory(directory: str | None) -> Path:
    """Find where the state of this user's cluster is."""
    if directory:
        return Path(directory).absolute()
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        return Path(runtime) / "frameworkbarrier"
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "frameworkbarrier"


def read_state(directory: Path) -> ClusterState | None:
    """Read the state of the cluster that runs there; None if none does.

    Raises:
        CliError: another user could have written it.
    """
    try:
        check_private_directory(directory)
        with (directory / _LOCK_FILE).open("rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                # Its owner lives.
                stored: dict[str, Any] = json.loads((directory / _STATE_FILE).read_bytes())
                return ClusterState(**stored)
    except ExposedError as e:
        raise CliError(ExitCode.USAGE, f"--directory: {e}") from e
    except (OSError, ValueError, TypeError):
        # None was ever here, or it is about to write its state.
        return None
    return None


def start_cluster(options: UpOptions) -> ExitCode:
    """Run ``framework local up``."""
    directory = find_state_directory(options.directory)
    running = read_state(directory)
    if running is not None:
        raise CliError(ExitCode.USAGE, _explain_running(running, options))
    if options.detach:
        return _start_detached(options, directory)
    try:
        return asyncio.run(_keep_cluster(options, directory))
    except asyncio.CancelledError:
        return ExitCode.INTERRUPTED


def _explain_running(running: ClusterState, options: UpOptions) -> str:
    """Say that there is one; of --directory only to those who gave it."""
    text = (
        f"a local cluster runs already (process {running.pid}, {running.directory}): "
        f"use it, stop it with `{_build_down(options)}`, or"
    )
    if options.directory is None:
        return f"{text} start another with --directory DIR"
    return f"--directory: {text} name another"


def _build_down(options: UpOptions) -> str:
    named = [] if options.directory is None else ["--directory", options.directory]
    return build_command("local", "down", *named)


def stop_cluster(directory: str | None) -> ExitCode:
    """Run ``framework local down``."""
    place = find_state_directory(directory)
    state = read_state(place)
    if state is None and is_claimed(place):
        raise CliError(ExitCode.FAILED, f"{_explain_claim(place)}: Ctrl-C there ends it")
    if state is None:
        print_line("no local cluster runs")
        return ExitCode.SUCCEEDED
    os.kill(state.pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    # It takes its state back first, and ends its Pods then.
    while read_state(place) is not None or is_claimed(place):
        if time.monotonic() > deadline:
            raise CliError(
                ExitCode.FAILED,
                f"process {state.pid} does not end after {_STOP_SECONDS:.0f} s: "
                f"look at {state.directory}/{_LOG_FILE}, then kill it",
            )
        time.sleep(_POLL_SECONDS)
    print_line("stopped")
    return ExitCode.SUCCEEDED


def show_cluster(directory: str | None) -> ExitCode:
    """Run ``framework local status``."""
    place = find_state_directory(directory)
    state = read_state(place)
    if state is None and is_claimed(place):
        print_line(_explain_claim(place))
        kubeconfig = place / "kubeconfig"
        if not kubeconfig.exists():
            return ExitCode.FAILED
        print_line(build_export("KUBECONFIG", str(kubeconfig)))
        return ExitCode.SUCCEEDED
    if state is None:
        start = build_command("local", "up", "--detach")
        print_line(f"no local cluster runs; start one with `{start}`")
        return ExitCode.FAILED
    _print_state(state)
    return ExitCode.SUCCEEDED


def _explain_claim(directory: Path) -> str:
    """Say what runs where no `local up` told of itself."""
    return f"a `framework run --local` runs in {directory}, or a cluster starts or ends there"


def _print_state(state: ClusterState) -> None:
    print_line(f"local cluster at {state.server}, process {state.pid}, since {state.started_at}")
    if state.note:
        print_line(f"note: {state.note}")
    print_line(f"logs and state: {state.directory}")
    print_line(build_export("KUBECONFIG", state.kubeconfig))


@asynccontextmanager
async def open_local_cluster(directory: Path, *, options: UpOptions) -> AsyncIterator[LocalCluster]:
    """Run a local cluster in this process; its own log goes to a file in its directory.

    Raises:
        CliError: it cannot start, or a part of it failed for good.
    """
    cluster = LocalCluster(
        ClusterOptions(
            directory=directory,
            port=options.port,
            with_kubelet=options.with_kubelet,
            with_controller=options.with_controller,
            kubeconfig_path=Path(options.kubeconfig) if options.kubeconfig else None,
            isolation=Isolation(options.isolation),
            network=NetworkChoice(options.network),
        ),
        clock=SystemClock(),
        uids=SystemUids(),
        random=SystemRandom(),
    )
    try:
        with _logging_to(directory), _failures_logged():
            async with cluster:
                yield cluster
    except LocalClusterError as e:
        raise CliError(ExitCode.USAGE, str(e)) from e
    except PartFailedError as e:
        raise CliError(ExitCode.UNREACHABLE, str(e)) from e


@contextmanager
def _failures_logged() -> Iterator[None]:
    """Leave the reason in the log: nobody reads the errors of a cluster in the background."""
    try:
        yield
    except PartFailedError as e:
        logger.error("the cluster ends", extra={"error": str(e)})
        raise


@contextmanager
def _logging_to(directory: Path) -> Iterator[None]:
    try:
        make_private_directory(directory)
        log = (directory / _LOG_FILE).open("a", encoding="utf-8")
    except ExposedError as e:
        raise LocalClusterError(f"--directory: {e}") from e
    except OSError as e:
        raise LocalClusterError(
            f"--directory: cannot write to {directory}: {e.strerror}; "
            "give a directory you may write to"
        ) from e
    with log:
        configure_logging(stream=log)
        try:
            yield
        finally:
            configure_logging(level="error")


async def _keep_cluster(options: UpOptions, directory: Path) -> ExitCode:
    """Keep a cluster until a signal."""
    interrupt = Interrupt(heeds_hangup=True)
    with interrupt.caught():
        async with open_local_cluster(directory, options=options) as cluster:
            note = await cluster.ready()
            with _published(cluster, note) as state:
                _print_state(state)
                print_line("Ctrl-C stops it")
                await interrupt.requested.wait()
    return interrupt.exit_code


@contextmanager
def _published(cluster: LocalCluster, note: str) -> Iterator[ClusterState]:
    """Tell other commands of this cluster for as long as the block runs."""
    state = ClusterState(
        pid=os.getpid(),
        server=cluster.kube_config.server,
        kubeconfig=str(cluster.kubeconfig_path),
        directory=str(cluster.directory),
        started_at=SystemClock().now().isoformat(timespec="seconds"),
        note=note,
    )
    with (cluster.directory / _LOCK_FILE).open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as e:
            raise LocalClusterError(
                f"--directory: another cluster has just started in {cluster.directory}"
            ) from e
        path = cluster.directory / _STATE_FILE
        write_private_file(path, json.dumps(asdict(state)))
        try:
            yield state
        finally:
            path.unlink(missing_ok=True)
            (cluster.directory / _LOCK_FILE).unlink(missing_ok=True)


def _start_detached(options: UpOptions, directory: Path) -> ExitCode:
    """Start this same command in the background and wait until its cluster answers."""
    command = [sys.executable, "-P", "-m", "cli.main", "local", "up"]
    command += ["--port", str(options.port), "--isolation", options.isolation]
    command += ["--network", options.network]
    command += ["--directory", str(directory)]
    if options.kubeconfig:
        command += ["--kubeconfig", str(Path(options.kubeconfig).absolute())]
    command += [] if options.with_kubelet else ["--no-kubelet"]
    command += [] if options.with_controller else ["--no-controller"]
    # Its errors come to us as long as we wait; what it logs later goes to its own file.
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    deadline = time.monotonic() + _START_SECONDS
    while (state := read_state(directory)) is None:
        if child.poll() is not None:
            _, errors = child.communicate()
            lines = [line.removeprefix("error: ") for line in errors.splitlines() if line]
            raise CliError(ExitCode(child.returncode), *lines)
        if time.monotonic() > deadline:
            child.terminate()
            raise CliError(
                ExitCode.FAILED,
                f"the cluster does not answer after {_START_SECONDS:.0f} s: "
                f"look at {directory}/{_LOG_FILE}",
            )
        time.sleep(_POLL_SECONDS)
    _print_state(state)
    print_line(f"to stop it: {_build_down(options)}")
    return ExitCode.SUCCEEDED
