"""The system calls behind a container and its network that Python 3.11 does not offer.

Called by ``kubelet.rootfs`` and ``kubelet.launcher`` in the container's own processes, and by
``network.hub`` in its own. Linux; errors are OSError with what was tried.
"""

import ctypes
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_SLAVE = 0x80000
_MNT_DETACH = 2

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, attempt: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{attempt}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Move this process (for CLONE_NEWPID: its children) into new namespaces."""
    _check(_libc.unshare(flags), f"unshare {flags:#x}")


def set_namespace(descriptor: int, flag: int) -> None:
    """Join the namespace behind an open ``/proc/PID/ns`` file."""
    _check(_libc.setns(descriptor, flag), f"setns {flag:#x}")


def make_user_namespace(flags: int = 0) -> None:
    """Move into a user namespace of its own, where this user is the same, and all of ``flags``."""
    user, group = os.geteuid(), os.getegid()
    unshare(CLONE_NEWUSER | flags)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{user} {user} 1")
    _write("/proc/self/gid_map", f"{group} {group} 1")


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def mount(
    source: str, target: str, *, kind: str | None = None, flags: int = 0, options: str = ""
) -> None:
    """Mount, bind or change a mount, as the flags say."""
    result = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        None if kind is None else kind.encode(),
        ctypes.c_ulong(flags),
        options.encode(),
    )
    _check(result, f"mount {source} at {target}")


def unmount_lazily(target: str) -> None:
    """Take a mount and all below it away from view."""
    _check(_libc.umount2(os.fsencode(target), _MNT_DETACH), f"unmount {target}")


def pivot_root(new: str, old: str) -> None:
    """Make ``new`` the root and move the present root to ``old``."""
    _check(_libc.pivot_root(os.fsencode(new), os.fsencode(old)), f"pivot_root {new}")


def set_hostname(name: str) -> None:
    """Name the machine, within this UTS namespace."""
    raw = name.encode()
    _check(_libc.sethostname(raw, ctypes.c_size_t(len(raw))), f"sethostname {name}")


def set_parent_death_signal(number: int) -> None:
    """Ask for a signal when the parent dies."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0), "prctl PR_SET_PDEATHSIG")


def adopt_orphans() -> None:
    """Become the parent of every descendant whose parent dies."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl PR_SET_CHILD_SUBREAPER")
