"""``framework local up|down|status``: a Kubernetes on this machine."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from cli.exitcodes import CliError, ExitCode
from cli.invocation import build_command, build_export
from cli.local.cluster import LOG_FILE, UpOptions, open_local_cluster, published
from cli.local.state import ClusterState, find_last_run, find_state_directory, read_state
from cli.terminal import print_line
from cli.waiting import Interrupt
from framework.api.constants import KUBECONFIG_ENV
from localcluster.private_files import is_in_use

# Long: a start takes more than half a minute on a busy machine. A process that fails ends the wait.
_START_SECONDS = 120.0
_STOP_SECONDS = 120.0
_POLL_SECONDS = 0.05


def start_cluster(options: UpOptions) -> ExitCode:
    """Run ``framework local up``."""
    directory = find_state_directory(options.directory)
    running = read_state(directory)
    if running is not None:
        export = build_export(KUBECONFIG_ENV, running.kubeconfig)
        raise CliError(ExitCode.USAGE, _explain_running(running, options), f"to use it: {export}")
    if options.detach:
        return _start_detached(options, directory)
    try:
        return asyncio.run(_keep_cluster(options, directory))
    except asyncio.CancelledError:
        return ExitCode.INTERRUPTED


def _explain_running(running: ClusterState, options: UpOptions) -> str:
    """Explain that a cluster runs already; name --directory only if it was given."""
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
    if state is None and is_in_use(place):
        raise CliError(ExitCode.FAILED, f"{_explain_use(place)}: Ctrl-C there ends it")
    if state is None:
        print_line("no local cluster runs")
        return ExitCode.SUCCEEDED
    os.kill(state.pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    # The cluster removes its state file first, and ends its Pods after that.
    while read_state(place) is not None or is_in_use(place):
        if time.monotonic() > deadline:
            raise CliError(
                ExitCode.FAILED,
                f"process {state.pid} does not end after {_STOP_SECONDS:.0f} s: "
                f"read {state.directory}/{LOG_FILE}, then kill it",
            )
        time.sleep(_POLL_SECONDS)
    print_line("stopped")
    return ExitCode.SUCCEEDED


def show_cluster(directory: str | None) -> ExitCode:
    """Run ``framework local status``."""
    place = find_state_directory(directory)
    state = read_state(place)
    if directory is None and state is None and not is_in_use(place):
        last = find_last_run()
        place = last if last is not None and is_in_use(last) else place
    if state is None and is_in_use(place):
        print_line(_explain_use(place))
        kubeconfig = place / "kubeconfig"
        if not kubeconfig.exists():
            return ExitCode.FAILED
        print_line(build_export(KUBECONFIG_ENV, str(kubeconfig)))
        return ExitCode.SUCCEEDED
    if state is None:
        start = build_command("local", "up", "--detach")
        print_line(f"no local cluster runs; start one with `{start}`")
        return ExitCode.FAILED
    _print_state(state)
    return ExitCode.SUCCEEDED


def _explain_use(directory: Path) -> str:
    """Explain what uses a directory that has no state file."""
    return f"a `framework run --local` runs in {directory}, or a cluster starts or ends there"


def _print_state(state: ClusterState) -> None:
    print_line(f"local cluster at {state.server}, process {state.pid}, since {state.started_at}")
    if state.note:
        print_line(f"note: {state.note}")
    print_line(f"logs and state: {state.directory}")
    print_line(build_export(KUBECONFIG_ENV, state.kubeconfig))


async def _keep_cluster(options: UpOptions, directory: Path) -> ExitCode:
    """Keep a cluster until a signal."""
    interrupt = Interrupt(stops_on_hangup=True)
    with interrupt.caught():
        async with open_local_cluster(directory, options=options) as cluster:
            note = await cluster.ready()
            with published(cluster, note) as state:
                _print_state(state)
                print_line("Ctrl-C stops it")
                await interrupt.requested.wait()
    return interrupt.exit_code


def _start_detached(options: UpOptions, directory: Path) -> ExitCode:
    """Start this same command in the background and wait until its cluster answers."""
    command = [sys.executable, "-P", "-m", "cli.main", "local", "up"]
    command += ["--port", str(options.port), "--isolation", options.isolation]
    command += ["--network", options.network, "--gpus", str(options.gpus)]
    command += ["--directory", str(directory)]
    if options.kubeconfig:
        command += ["--kubeconfig", str(Path(options.kubeconfig).absolute())]
    command += [] if options.with_kubelet else ["--no-kubelet"]
    command += [] if options.with_controller else ["--no-controller"]
    # This process reads the errors of its start; later errors go to its own log.
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
                f"read {directory}/{LOG_FILE}",
            )
        time.sleep(_POLL_SECONDS)
    _print_state(state)
    print_line(f"to stop it: {_build_down(options)}")
    return ExitCode.SUCCEEDED
