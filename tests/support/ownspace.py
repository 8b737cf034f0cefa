"""Runs a command in network, mount and process namespaces of its own.

Called by ``tests.support.realnode``. Whatever the command leaves behind (containers, shims, mounts,
bridges, firewall rules) ends with it, however it ends: the kernel takes a namespace down with its
first process. Control groups are the exception: those made meanwhile are removed.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.kubebinaries import MissingPrerequisiteError

_INSIDE_ENV = "FRAMEWORKBARRIER_OWN_SPACE"
_CGROUPS = Path("/sys/fs/cgroup")
# Those that a kubelet and containerd make at the top.
_CGROUP_NAMES = ("kubepods", "k8s.io", "system.slice/kubelet")


def is_inside() -> bool:
    """Tell whether this process runs in such namespaces already."""
    return os.environ.get(_INSIDE_ENV) == "1"


def run_inside(command: Sequence[str]) -> int:
    """Run a command in new namespaces; give its exit code.

    Raises:
        MissingPrerequisiteError: this machine does not let us.
    """
    if os.geteuid() != 0:
        raise MissingPrerequisiteError("a node needs root")
    if shutil.which("unshare") is None:
        raise MissingPrerequisiteError("unshare not found: install the package util-linux")
    if any(_find_cgroups()):
        raise MissingPrerequisiteError("this machine is a Kubernetes node itself (kubepods exists)")
    unshare = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    init = [sys.executable, "-m", "tests.support.ownspace", *command]
    try:
        return subprocess.run(
            [*unshare, *init], env={**os.environ, _INSIDE_ENV: "1"}, check=False
        ).returncode
    finally:
        for folder in _find_cgroups():
            folder.rmdir()


def _find_cgroups() -> list[Path]:
    """List the control groups of containers, the innermost first."""
    tops = [top / name for top in (_CGROUPS, *_CGROUPS.glob("*")) for name in _CGROUP_NAMES]
    found = [folder for top in tops if top.is_dir() for folder in (top, *top.rglob("*/"))]
    return sorted(found, key=lambda folder: len(folder.parts), reverse=True)


def be_init(command: Sequence[str]) -> int:
    """Run a command as the first process of its namespace does: reap what others orphan."""
    child = subprocess.Popen(command)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _frame: child.send_signal(received))
    while True:
        pid, status = os.wait()
        if pid == child.pid:
            code = os.waitstatus_to_exitcode(status)
            child.returncode = code
            return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(be_init(sys.argv[1:]))
