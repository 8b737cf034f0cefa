"""The private root of a container: the host's entries, and the Pod's volumes at their mountPath.

It works in a fresh mount namespace, as bubblewrap does: a tmpfs becomes the root, the host's
top-level entries are bound into it, and every directory that lacks a mount point becomes a tmpfs
directory with the host's entries bound into it, so nothing is made on the host. No pathlib and no
``typing`` here: start-up time is a target.
"""
# ruff: noqa: PTH101, PTH102, PTH103, PTH112, PTH115, PTH116, PTH120, PTH211  pathlib starts slowly

import errno
import os
import re
import stat

from localcluster import syscalls

_OLD = "/oldroot"
_NEW = "/newroot"
# Containers do not need these devices, and each would cost a mount.
_SKIPPED_DEVICES = re.compile(r"(tty.+|loop.+|ram.+|vcs.*|nbd.+|hvc.+|console)\Z")
_KERNEL_FLAGS = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
_REMOUNT_KEPT = _KERNEL_FLAGS

# Writable even with a read-only root, like in every container runtime.
_ALWAYS_WRITABLE = ("/dev/shm", "/proc")  # noqa: S108 the kernel's
# Other users may pass through, but not list the directory.
_WAY_MODE = 0o711

Tree = dict[str, "Tree"]


def enter_private_root(
    base: str,
    mounts: "list[tuple[str, str, bool]]",
    directories: "list[str]",
    *,
    fresh_proc: bool,
    fresh_sys: bool,
    passages: "list[str]",
    read_only: bool,
) -> None:
    """Make this process's mount namespace the container's and move into it.

    Args:
        base: an empty directory of the host; nothing appears in it outside this namespace.
        mounts: (source on the host, target in the container, read-only), in any order.
        directories: must exist in the container.
        fresh_proc: this process is in a new PID namespace, so ``/proc`` must be its own.
        fresh_sys: it is in a Pod's network namespace, whose devices ``/sys`` should list.
        passages: host paths that a user without rights must reach. A directory on the way that
            others may not enter is replaced by one that contains only the way.
        read_only: whether everything except the writable mounts is read-only.
    """
    resolved = sorted(
        (_resolve(target), os.path.realpath(source), is_read_only)
        for source, target, is_read_only in mounts
    )
    wanted = _build_tree([t for t, _, _ in resolved] + [_resolve(path) for path in directories])
    ways = _build_tree([os.path.realpath(passage) for passage in passages])
    _turn_to_tmpfs(base)
    os.mkdir(_NEW)
    skipped = [name for name, is_fresh in (("proc", fresh_proc), ("sys", fresh_sys)) if is_fresh]
    _assemble(_OLD, _NEW, wanted, ways, skipped=frozenset(skipped))
    if fresh_proc:
        os.mkdir(_NEW + "/proc")
        syscalls.mount("proc", _NEW + "/proc", kind="proc", flags=_KERNEL_FLAGS)
    if fresh_sys:
        _mount_sys(_NEW + "/sys")
    for target, source, is_read_only in resolved:
        _mount_volume(_OLD + source, _NEW + target, read_only=is_read_only)
    if read_only:
        for directory in directories:
            os.makedirs(_NEW + directory, exist_ok=True)
        writable = [target for target, _, is_read_only in resolved if not is_read_only]
        _write_protect(writable)
    _leave_host()


def _write_protect(writable: "list[str]") -> None:
    """Make the assembled root read-only, except the writable paths."""
    # Only a mount point can be read-only.
    _bind(_NEW, _NEW)
    syscalls.set_read_only(_NEW, is_read_only=True)
    for target in (*_ALWAYS_WRITABLE, *writable):
        if os.path.ismount(_NEW + target):
            syscalls.set_read_only(_NEW + target, is_read_only=False)


def _mount_sys(target: str) -> None:
    os.mkdir(target)
    try:
        syscalls.mount("sysfs", target, kind="sysfs", flags=_KERNEL_FLAGS | syscalls.MS_RDONLY)
    except OSError:
        # The kernel refuses a new sysfs if this process is in a container that hides parts of /sys.
        # The /sys of the host replaces it, although it lists the devices of another network.
        _bind(_OLD + "/sys", target)
        return
    groups = "/fs/cgroup"
    if os.path.isdir(target + groups):
        _bind(_OLD + "/sys" + groups, target + groups)


def _resolve(target: str) -> str:
    """Follow the host's symbolic links: ``/var/run/x`` is mounted at ``/run/x``."""
    path = os.path.realpath(target)
    if path == "/":
        raise OSError(errno.EINVAL, "a volume cannot be mounted at /")
    return path


def _build_tree(paths: "list[str]") -> Tree:
    """Build the tree of the names in these paths: a name in a path -> the names below it."""
    tree: Tree = {}
    for path in paths:
        node = tree
        for part in path.strip("/").split("/"):
            node = node.setdefault(part, {})
    return tree


def _turn_to_tmpfs(base: str) -> None:
    """Make an empty tmpfs the root; the host's root is below ``/oldroot``."""
    # Later mounts of the host still appear here; mounts here never appear on the host.
    syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_SLAVE)
    flags = syscalls.MS_NOSUID | syscalls.MS_NODEV
    syscalls.mount("tmpfs", base, kind="tmpfs", flags=flags, options="mode=0755")
    os.mkdir(base + _OLD)
    syscalls.pivot_root(base, base + _OLD)
    os.chdir("/")


def _assemble(
    host: str, new: str, wanted: Tree, ways: Tree, skipped: "frozenset[str]" = frozenset()
) -> None:
    """Fill directory ``new`` with binds of the entries of ``host``, and with the wanted paths."""
    devices = host == _OLD + "/dev"
    for entry in _list_entries(host):
        if entry.name in skipped or (devices and _SKIPPED_DEVICES.match(entry.name)):
            continue
        try:
            deeper = wanted.get(entry.name, {}), ways.get(entry.name, {})
            _add_entry(entry, new + "/" + entry.name, *deeper)
        except OSError:
            # A dead FUSE mount, or an entry that was just removed, is left out.
            if entry.name in wanted:
                raise
    for name, below in wanted.items():
        if not os.path.lexists(new + "/" + name):
            _make_directories(new + "/" + name, below)


def _list_entries(host: str) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(host) as entries:
            return list(entries)
    except PermissionError:
        # A directory of another user: the container sees only the Pod's volumes in it.
        return []


def _add_entry(entry: "os.DirEntry[str]", target: str, wanted: Tree, ways: Tree) -> None:
    if entry.is_symlink():
        os.symlink(os.readlink(entry.path), target)
    elif not entry.is_dir(follow_symlinks=False):
        _touch(target)
        _bind(entry.path, target)
    elif ways and not _is_open(entry.path):
        os.mkdir(target)
        hidden = {other.name for other in _list_entries(entry.path)} - set(ways) - set(wanted)
        _assemble(entry.path, target, wanted, ways, skipped=frozenset(hidden))
        os.chmod(target, _WAY_MODE)
    elif _lacks(entry.path, wanted) or _is_blocked(entry.path, ways):
        os.mkdir(target)
        _assemble(entry.path, target, wanted, ways)
        os.chmod(target, entry.stat().st_mode & 0o7777)
    else:
        os.mkdir(target)
        _bind(entry.path, target)


def _is_blocked(host: str, ways: Tree) -> bool:
    """Return whether others may not enter a directory on one of the ways below this one."""
    return any(
        below and (not _is_open(host + "/" + name) or _is_blocked(host + "/" + name, below))
        for name, below in ways.items()
    )


def _is_open(directory: str) -> bool:
    return bool(os.stat(directory).st_mode & stat.S_IXOTH)


def _lacks(host: str, wanted: Tree) -> bool:
    """Return whether a wanted path below this directory is missing on the host."""
    for name, below in wanted.items():
        path = host + "/" + name
        if not os.path.lexists(path) or (below and _lacks(path, below)):
            return True
    return False


def _make_directories(path: str, below: Tree) -> None:
    # A leaf is created later: its volume's source decides if it is a file or a directory.
    if below:
        os.mkdir(path)
        for name, deeper in below.items():
            _make_directories(path + "/" + name, deeper)


def _mount_volume(source: str, target: str, *, read_only: bool) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    elif not os.path.lexists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        _touch(target)
    _bind(source, target)
    if read_only:
        # A user namespace must repeat the flags that its parent's mount has.
        kept = os.statvfs(target).f_flag & _REMOUNT_KEPT
        flags = syscalls.MS_BIND | syscalls.MS_REMOUNT | syscalls.MS_RDONLY | kept
        syscalls.mount("none", target, flags=flags)


def _touch(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def _bind(source: str, target: str) -> None:
    syscalls.mount(source, target, flags=syscalls.MS_BIND | syscalls.MS_REC)


def _leave_host() -> None:
    """Unmount the root of the host; the assembled root stays."""
    # pivot_root needs a mount point.
    _bind(_NEW, _NEW)
    os.chdir(_NEW)
    syscalls.unmount_lazily(_OLD)
    syscalls.pivot_root(".", ".")
    syscalls.unmount_lazily(".")
    os.chdir("/")
