"""Directories and files that no other user of this machine may change.

The kubeconfig holds the token; the state file names a process that ``framework local down`` ends;
logs and volumes are written as long as the cluster runs. A user with write permission for the
directory could redirect these writes, so such a directory is refused.

    ExposedError    other users may change the path; the message has the remedy
"""

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

from framework.agent.files import write_atomically

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700
# Another user who keeps a shared lock cannot delay the start for longer than 5 s.
_CLAIM_TRIES = 500
_CLAIM_PAUSE_SECONDS = 0.01


class ExposedError(Exception):
    """Other users may change a directory."""


def make_private_directory(path: Path) -> None:
    """Make a directory for this user alone, or check an existing one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Parents may be readable for all users; mkdir(parents=True) would give them this mode, too.
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=PRIVATE_DIRECTORY)
    check_private_directory(path)


def check_private_directory(path: Path) -> None:
    """Check that no other user may make, remove or replace files in a directory.

    A group may write only if it is this user's own, as the usual umask 002 has it.
    """
    found = path.stat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    if found.st_uid != os.geteuid():
        raise ExposedError(
            f"{path} belongs to another user (UID {found.st_uid}), who could change what is "
            "written there; give a directory of your own"
        )
    is_foreign_group = found.st_gid not in {0, os.getegid()}
    is_open_to_group = is_foreign_group and bool(found.st_mode & stat.S_IWGRP)
    if found.st_mode & stat.S_IWOTH or is_open_to_group:
        raise ExposedError(
            f"other users may write into {path}; run `chmod go-w {path}`, "
            "or give a directory of your own"
        )


def write_private_file(path: Path, text: str) -> None:
    """Write a file that only this user may read, in one step; a link at its name is replaced.

    The directory may be a shared one if it is sticky, such as /tmp, because others cannot replace
    this user's files there.
    """
    parent = path.parent.stat()
    if parent.st_mode & stat.S_IWOTH and not parent.st_mode & stat.S_ISVTX:
        raise ExposedError(
            f"every user may replace files in {path.parent}; name a file in a directory of your own"
        )
    write_atomically(str(path), text.encode(), PRIVATE_FILE)


def read_regular_file(path: Path, limit: int) -> bytes:
    """Read at most ``limit`` bytes of a regular file.

    A link is not followed, and a FIFO of another user does not block the call.

    Raises:
        OSError: the file does not exist, or is not a regular file.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is not a regular file")
        return file.read(limit)


def claim(descriptor: int, pause: Callable[[float], object] = time.sleep) -> bool:
    """Lock an open file or directory; return False if another process has locked it.

    A process that only looks whether it is locked has a shared lock for a moment: that is no claim.
    """
    for _ in range(_CLAIM_TRIES):
        if _try_lock(descriptor, fcntl.LOCK_EX):
            return True
        if not _try_lock(descriptor, fcntl.LOCK_SH):
            return False
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        pause(_CLAIM_PAUSE_SECONDS)
    return False


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_in_use(directory: Path) -> bool:
    """Return whether a cluster of any user runs in a directory."""
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        return not _try_lock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)
