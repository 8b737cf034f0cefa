"""The stacks that faulthandler writes for a process: their file, and the frames of the main thread.

The file is in a folder in which every process of the Pod may write, and the agent may be root. So
only a plain file that belongs to the process's user and has no other name is emptied.
"""

import errno
import hashlib
import os
import re
import stat
from typing import List, NamedTuple

from rendezvous.core.hangs.progress import FRAME_LENGTH

_MAX_STACKS_BYTES = 64 * 1024
_MAX_LINES = 100
_FRAME = re.compile(r'  File "([^"]{0,500})", line (\d{1,9}) in (.{0,500})\Z')
# The outermost frame of a main thread ends in one of the first two. faulthandler writes the third
# after 100 frames of a thread, and after 100 threads.
_ENDS = (b" in <module>\n", b" in _run_module_as_main\n", b"...\n")
# From each end of a stack.
_COMPARED_FRAMES = 4


class Stacks(NamedTuple):
    """The stacks of a process."""

    lines: List[str]
    """The last lines that faulthandler wrote, at most 100: the main thread comes last.

    faulthandler stops after 100 threads, with the line ``...``; then the main thread is missing.
    """
    main: str
    """Hashes of the main thread's frames, as ``core.hangs`` compares them; "" if unknown."""


def get_size(path: str) -> int:
    """Return how many bytes a process has written; 0 if there is no file."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def is_whole(path: str) -> bool:
    """Return whether the last line of the stacks is one that faulthandler writes last.

    A process on a busy machine may stop for long while it writes. The last line of a program that
    embeds Python may be another one.
    """
    try:
        descriptor = _open_file(path, os.O_RDONLY)
    except OSError:
        return False
    with os.fdopen(descriptor, "rb") as file:
        longest = max(map(len, _ENDS))
        file.seek(max(0, os.fstat(descriptor).st_size - longest))
        return file.read(longest).endswith(_ENDS)


def empty_stacks(path: str, pid: int) -> bool:
    """Empty the file of a process's stacks; return whether the file belongs to its user."""
    try:
        descriptor = _open_file(path, os.O_WRONLY)
    except OSError:
        return False
    try:
        if os.fstat(descriptor).st_uid != os.stat(f"/proc/{pid}").st_uid:
            return False
        os.ftruncate(descriptor, 0)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def read_stacks(path: str) -> Stacks:
    """Read the stacks of a process; no lines if it has not written any."""
    try:
        descriptor = _open_file(path, os.O_RDONLY)
    except OSError:
        return Stacks([], "")
    with os.fdopen(descriptor, "rb") as file:
        size = os.fstat(descriptor).st_size
        file.seek(max(0, size - _MAX_STACKS_BYTES))
        content = file.read(_MAX_STACKS_BYTES)
    if size > _MAX_STACKS_BYTES:
        content = content.partition(b"\n")[2]
    lines = content.decode("utf-8", "replace").splitlines()
    return Stacks(lines[-_MAX_LINES:], _hash_main_thread(lines))


def _open_file(path: str, access: int) -> int:
    """Open a file that has no other name.

    Raises:
        OSError: It is a link, a pipe or a device, or has another name, too.
    """
    descriptor = os.open(path, access | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "no file of its own", path)


def _hash_main_thread(lines: List[str]) -> str:
    """Hash each frame of the main thread, the outermost first; faulthandler writes it last.

    Line numbers count only in the file of the program itself: in a library, a rank that waits may
    be anywhere in a loop.
    """
    if lines[-1:] == ["..."]:
        return ""
    heads = [i for i, line in enumerate(lines) if line.startswith(("Thread ", "Current thread "))]
    found = [_FRAME.match(line) for line in lines[heads[-1] + 1 :]] if heads else []
    frames = [match.groups() for match in found if match]
    if not frames:
        return ""
    program = frames[-1][0]
    if len(frames) > 2 * _COMPARED_FRAMES:
        frames = frames[:_COMPARED_FRAMES] + frames[-_COMPARED_FRAMES:]
    places = [
        f"{file}:{number if file == program else ''}:{function}"
        for file, number, function in reversed(frames)
    ]
    hashes = [hashlib.sha256(place.encode("utf-8", "replace")).hexdigest() for place in places]
    return "".join(each[:FRAME_LENGTH] for each in hashes)
