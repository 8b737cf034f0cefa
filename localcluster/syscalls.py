"""System calls for containers and their network that Python 3.11 does not offer. Linux.

An OSError names the operation.
"""

import ctypes
import errno
import os
import signal
import sys

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
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4

# The same number on every architecture, as for all new system calls.
_SYS_MOUNT_SETATTR = 442
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_MOUNT_ATTR_RDONLY = 0x1

# linux/capability.h: version 3 has two words of 32 bits for each of three sets.
_CAPABILITY_VERSION = 0x20080522

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
    """Move into a new user namespace, with the same user, and the namespaces of ``flags``."""
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
    """Mount, bind or change a mount, by the flags."""
    result = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        None if kind is None else kind.encode(),
        ctypes.c_ulong(flags),
        options.encode(),
    )
    _check(result, f"mount {source} at {target}")


def unmount_lazily(target: str) -> None:
    """Detach a mount and all mounts below it."""
    _check(_libc.umount2(os.fsencode(target), _MNT_DETACH), f"unmount {target}")


def pivot_root(new: str, old: str) -> None:
    """Make ``new`` the root and move the present root to ``old``."""
    _check(_libc.pivot_root(os.fsencode(new), os.fsencode(old)), f"pivot_root {new}")


def set_hostname(name: str) -> None:
    """Set the host name in this UTS namespace."""
    raw = name.encode()
    _check(_libc.sethostname(raw, ctypes.c_size_t(len(raw))), f"sethostname {name}")


def set_parent_death_signal(number: int) -> None:
    """Request a signal when the parent dies."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0), "prctl PR_SET_PDEATHSIG")


def end_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its parent dies; exit if the parent is already dead.

    A later user namespace clears this.
    """
    set_parent_death_signal(signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose parent dies."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl PR_SET_CHILD_SUBREAPER")


def forbid_new_privileges() -> None:
    """Disable set-user-ID and file capabilities for all programs that this process executes."""
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl PR_SET_NO_NEW_PRIVS")


def drop_capabilities(numbers: "list[int]") -> None:
    """Drop capabilities for good, also for programs that this process executes."""
    for number in numbers:
        result = _libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)
        # EINVAL: the kernel is older than the capability and has none to drop.
        if result != 0 and ctypes.get_errno() != errno.EINVAL:
            _check(result, f"prctl PR_CAPBSET_DROP {number}")
    _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    _clear_inheritable()


def _clear_inheritable() -> None:
    """Empty the inheritable set: exec would add it to the permitted capabilities."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()
    _check(_libc.capget(header, sets), "capget")
    sets[2] = sets[5] = 0
    _check(_libc.capset(header, sets), "capset")


def has_mount_attributes() -> bool:
    """Return whether this kernel has ``mount_setattr``."""
    result = _libc.syscall(_SYS_MOUNT_SETATTR, -1, b"", 0, None, ctypes.c_size_t(0))
    return bool(result == 0 or ctypes.get_errno() not in {errno.ENOSYS, errno.EPERM})


def set_read_only(target: str, *, is_read_only: bool) -> None:
    """Make a mount and all below it read-only, or the mount alone writable again.

    Mounts below it stay read-only: the host may have a reason for that.
    """
    attributes = (ctypes.c_uint64 * 4)()
    attributes[0 if is_read_only else 1] = _MOUNT_ATTR_RDONLY
    result = _libc.syscall(
        _SYS_MOUNT_SETATTR,
        _AT_FDCWD,
        os.fsencode(target),
        _AT_RECURSIVE if is_read_only else 0,
        attributes,
        ctypes.c_size_t(ctypes.sizeof(attributes)),
    )
    _check(result, f"mount_setattr {target}")
