"""An API server with the CRD of Frameworks, and the controller.

Both are started as processes, as users start them.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.support.servers.childprocess import ChildProcess
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkcrd import FRAMEWORKS, ROOT, wait_ready
from tests.support.waiting import wait_until


@contextlib.contextmanager
def start_controller(access: Access, folder: Path, *arguments: str) -> Iterator[ChildProcess]:
    """Run the controller until the block ends; without arguments, with its default config."""
    child = launch_controller(access, folder, *arguments)
    try:
        yield child
    finally:
        child.terminate()


def launch_controller(access: Access, folder: Path, *arguments: str) -> ChildProcess:
    """Start the controller; its log goes to ``controller.log``, appended."""
    command = [sys.executable, "-m", "controller"]
    command += ["--kubeconfig", access.kubeconfig, "--health-port", "0", *arguments]
    log = folder / "controller.log"
    return ChildProcess("controller", command, log=log, env=build_env())


@contextlib.contextmanager
def open_local_server(folder: Path) -> Iterator[Access]:
    """Run the local cluster's API server, without kubelet and controller."""
    kubeconfig = folder / "kubeconfig"
    command = [str(Path(sys.executable).with_name("framework")), "local", "up"]
    command += ["--no-kubelet", "--no-controller", "--kubeconfig", str(kubeconfig)]
    command += ["--directory", str(folder / "cluster")]
    child = ChildProcess("framework local up", command, log=folder / "local.log", env=build_env())
    try:
        _wait_for_file(kubeconfig, child)
        access = read_kubeconfig(kubeconfig)
        wait_ready(access.open_http(), FRAMEWORKS, child)
        yield access
    finally:
        child.terminate()


def read_kubeconfig(path: Path) -> Access:
    """Read a kubeconfig of one cluster and one user with a token."""
    content: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return Access(
        url=content["clusters"][0]["cluster"]["server"],
        token=content["users"][0]["user"]["token"],
        ca_file=content["clusters"][0]["cluster"].get("certificate-authority"),
        kubeconfig=str(path),
        kubectl=None,
    )


def build_env() -> dict[str, str]:
    """Build the environment of a program under test, without clusters of the caller's shell."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("KUBE", "FRAMEWORK"))}
    env["PYTHONPATH"] = str(ROOT)
    return env


def _wait_for_file(path: Path, child: ChildProcess) -> None:
    def is_there() -> bool:
        child.raise_if_ended()
        return path.exists()

    wait_until(is_there, child.tail)
