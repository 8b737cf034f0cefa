"""Runs a command in network, mount and process namespaces of its own.

Everything that the command leaves (containers, shims, mounts, bridges, firewall rules) ends with
it, after any end: the kernel removes a namespace with its first process. Files under /run, /var and
/etc go to a memory file system. The folder and the control groups of the command are removed at the
end, or by the next command if this one was killed: both have names of their own, and only the
holder of the folder's lock reads them.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.machine.prerequisites import MissingPrerequisiteError
from tests.support.machine.processes import die_with_parent

# Below the top, so that it is never the group of a real node on this machine.
CGROUP = "frameworkbarrier-node"
_INSIDE_ENV = "FRAMEWORKBARRIER_NAMESPACES"
_CGROUPS = Path("/sys/fs/cgroup")
# Folders to which the programs of a node always write.
_SHADOWED = ("/run", "/var", "/etc")
_UNSHARE = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
_EMPTY_SECONDS = 240.0
# The folder's name inside: short, because names of sockets have at most 108 characters.
_TEMPORARY = Path("/run/space")


def is_inside() -> bool:
    """Return whether this process runs in such namespaces already."""
    return _INSIDE_ENV in os.environ


def run_inside(command: Sequence[str], home: Path, cgroup: str = CGROUP) -> int:
    """Run a command in new namespaces, its temporary files below `home`; return its exit code.

    Raises:
        MissingPrerequisiteError: this machine forbids it, or another one runs.
    """
    if os.geteuid() != 0:
        raise MissingPrerequisiteError("a node needs root")
    if shutil.which("unshare") is None:
        raise MissingPrerequisiteError("unshare not found: install the package util-linux")
    probe = subprocess.run([*_UNSHARE, "true"], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        raise MissingPrerequisiteError(f"no namespaces can be made here: {probe.stderr.strip()}")
    init = [sys.executable, "-m", "tests.support.machine.linuxnamespaces", *command]
    with _claim(home, cgroup) as folder:
        # It ends with this process, after any end, and the namespaces end with it.
        return subprocess.run(
            [*_UNSHARE, *init],
            env={**os.environ, _INSIDE_ENV: str(folder)},
            check=False,
            preexec_fn=die_with_parent,
        ).returncode


@contextmanager
def _claim(home: Path, cgroup: str) -> Iterator[Path]:
    """Make an empty folder for this process alone, and empty control groups; remove both."""
    home.mkdir(parents=True, exist_ok=True)
    folder = home / "space"
    with (home / "space.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise MissingPrerequisiteError("a node of these tests runs already") from None
        _remove(folder, cgroup)
        (folder / "tmp").mkdir(parents=True)
        try:
            for top in _list_hierarchies():
                (top / cgroup).mkdir()
        except OSError as e:
            raise MissingPrerequisiteError(f"no control groups can be made here: {e}") from e
        try:
            yield folder
        finally:
            _remove(folder, cgroup)


def _remove(folder: Path, cgroup: str) -> None:
    """Remove the parts of a space, of this process or of a killed one."""
    for group in find_cgroups(cgroup):
        _wait_until_empty(group)
        group.rmdir()
    shutil.rmtree(folder, ignore_errors=True)


def _wait_until_empty(group: Path) -> None:
    """Wait for the kernel: the members ended with their namespace and are not reaped yet."""
    deadline = time.monotonic() + _EMPTY_SECONDS
    while time.monotonic() < deadline and (group / "cgroup.procs").read_text().strip():
        time.sleep(0.1)


def _list_hierarchies() -> list[Path]:
    """List the folders of control groups: one, or with version 1 one for each controller."""
    tops = [_CGROUPS, *_CGROUPS.glob("*")]
    return [
        top
        for top in tops
        if not top.is_symlink() and os.path.ismount(top) and (top / "cgroup.procs").exists()
    ]


def find_cgroups(cgroup: str = CGROUP) -> list[Path]:
    """List the control groups of a space, the innermost first."""
    tops = [top / cgroup for top in _list_hierarchies()]
    found = [folder for top in tops if top.is_dir() for folder in (top, *top.rglob("*/"))]
    return sorted(found, key=lambda folder: len(folder.parts), reverse=True)


def be_init(command: Sequence[str]) -> int:
    """Run a command as the first process of its namespace, which reaps orphans."""
    folder = Path(os.environ[_INSIDE_ENV])
    _shadow(folder / "shadow")
    _TEMPORARY.mkdir()
    _mount("--bind", str(folder / "tmp"), str(_TEMPORARY))
    child = subprocess.Popen(command, env={**os.environ, "TMPDIR": str(_TEMPORARY)})
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _frame: child.send_signal(received))
    while True:
        pid, status = os.wait()
        if pid == child.pid:
            code = os.waitstatus_to_exitcode(status)
            child.returncode = code
            return code if code >= 0 else 128 - code


def _shadow(folder: Path) -> None:
    """Mount overlays, so that writes into some folders of the machine are visible only here."""
    folder.mkdir()
    _mount("-t", "tmpfs", "tmpfs", str(folder))
    for name in _SHADOWED:
        upper, work = folder / f"upper{name}", folder / f"work{name}"
        upper.mkdir(parents=True)
        work.mkdir(parents=True)
        _mount("-t", "overlay", "overlay", "-o", f"lowerdir={name},upperdir={upper},workdir={work}",
               name)  # fmt: skip


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


if __name__ == "__main__":
    sys.exit(be_init(sys.argv[1:]))
