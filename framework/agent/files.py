"""Files that other containers read: complete or not there at all.

Called by the barrier and the rendezvous writer. What is written is decided elsewhere.
"""

import contextlib
import os


def write_atomically(path: str, content: bytes, mode: int) -> None:
    """Write a file so that a reader sees the old content or the new one, never a part.

    The content goes to a new file beside ``path`` and is renamed. It is not forced to the disk: a
    kill loses nothing, and after a power failure the kubelet runs the init containers anew.
    ``O_EXCL`` and ``rename`` follow no link at either name, so a link planted in a shared volume is
    replaced and its target is left alone.

    Raises:
        OSError: The directory is not writable, full, or gone. Nothing is left behind.
    """
    temporary = f"{path}.{os.urandom(6).hex()}.tmp"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, 0o600)
        try:
            _write_all(descriptor, content)
            os.fchmod(descriptor, mode)  # exactly this mode, whatever the umask is
        finally:
            os.close(descriptor)
        os.rename(temporary, path)
    except BaseException:
        # Also on SIGTERM's exception: no half file stays in the volume.
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _write_all(descriptor: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]
