"""Runs a command as an ordinary user, on a host that forbids namespaces or on one that allows them.

The kernel makes no user namespace for a process whose root was changed. So a changed root, to which
all of the machine is bound, replaces a host that forbids them. Files that the tests need from a
private home (a Python built there, a checkout) are bound over an empty directory that all users may
enter. Mounts are private: they end with the command.
"""

import os
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.servers.frameworkcrd import ROOT

NOBODY = 65534
_BECOME = (
    f"setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups --no-new-privs --bounding-set=-all"
)
_TOOLS = ("unshare", "mount", "chroot", "setpriv")


def find_obstacle() -> str | None:
    """Return why this machine cannot run a command as another user; None if it can."""
    if os.geteuid() != 0:
        return "only root can become another user"
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        return f"install {', '.join(missing)} (util-linux, coreutils)"
    trial = ["unshare", "--mount", "--propagation", "private", "true"]
    if subprocess.run(trial, check=False, capture_output=True).returncode != 0:
        return "root may not make a mount namespace here"
    return None


def wrap(command: Sequence[str], new_root: Path) -> list[str]:
    """Build the command that runs ``command`` as nobody; ``new_root`` is an empty directory."""
    root = shlex.quote(f"{new_root}/root")
    enter = f"mkdir {root} && mount --rbind / {root}\nexec chroot {root} {_BECOME}"
    return _build(_cover_private_homes(new_root), enter, command)


def wrap_with_namespaces(command: Sequence[str], stage: Path) -> list[str]:
    """Build the command that runs ``command`` as nobody, with the right to make user namespaces.

    ``stage`` is an empty directory.
    """
    return _build(_cover_private_homes(stage), f"exec {_BECOME}", command)


def _build(lines: list[str], enter: str, command: Sequence[str]) -> list[str]:
    script = "\n".join([*lines, f'{enter} -- "$@"'])
    return ["unshare", "--mount", "--propagation", "private", "sh", "-euc", script, "sh", *command]


def _cover_private_homes(stage: Path) -> list[str]:
    """Cover each private directory, and bind the needed files into it."""
    lines, covered = [f"mount -t tmpfs tmpfs {shlex.quote(str(stage))}"], set()
    for number, needed in enumerate((ROOT, Path(sys.base_prefix))):
        private = _find_private_ancestor(needed)
        if private is None:
            continue
        # Bind it elsewhere first, because the cover of the private directory hides it, too.
        aside = shlex.quote(f"{stage}/{number}")
        lines += [f"mkdir {aside}", f"mount --bind {shlex.quote(str(needed))} {aside}"]
        if private not in covered:
            covered.add(private)
            lines.append(f"mount -t tmpfs -o mode=755 tmpfs {shlex.quote(str(private))}")
        target = shlex.quote(str(needed))
        lines.append(f"mkdir -p {target} && mount --bind {aside} {target}")
    return lines


def _find_private_ancestor(path: Path) -> Path | None:
    """Find the first directory on the way to ``path`` that others may not enter."""
    for directory in reversed((path, *path.parents)):
        if not directory.stat().st_mode & stat.S_IXOTH:
            return directory
    return None
