"""Files that other containers read: complete or not there at all.

Called by the barrier and the rendezvous writer. What is written is decided elsewhere.
"""

import contextlib
import os


def write_atomically(path: str, content: bytes, mode: int) -> None:
    """Write a file so that a reader sees the old content or the new one, never a part.

    Raises:
        OSError: The directory is not writable, full, or gone. Nothing is left behind.
    """
    PreparedFile(path, mode).fill(content)


class PreparedFile:
    """A new file beside ``path``, which takes its place when it has its content.

    To make a file costs more than to fill a small one, so who has time before makes it ahead.
    It is not forced to the disk: a kill loses nothing, and after a power failure the kubelet runs
    the init containers anew. ``O_EXCL`` and ``rename`` follow no link at either name, so a link
    planted in a shared volume is replaced and its target is left alone.
    """

    def __init__(self, path: str, mode: int) -> None:
        """Make it, empty, with exactly this mode whatever the umask is.

        Raises:
            OSError: The directory is not writable, full, or gone. Nothing is left behind.
        """
        self._path = path
        self._temporary = f"{path}.{os.urandom(6).hex()}.tmp"
        self._descriptor = -1
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._descriptor = os.open(self._temporary, flags, 0o600)
            os.fchmod(self._descriptor, mode)
        except BaseException:
            self.discard()
            raise

    def fill(self, content: bytes) -> None:
        """Write the content and take the place, once.

        Raises:
            OSError: The volume is full, or the file is gone. Nothing is left behind.
        """
        try:
            _write_all(self._descriptor, content)
            self._close()
            os.rename(self._temporary, self._path)
        except BaseException:
            # Also on SIGTERM's exception: no half file stays in the volume.
            self.discard()
            raise
        self._temporary = ""

    def discard(self) -> None:
        """Remove it, if it has not taken its place."""
        self._close()
        if self._temporary:
            with contextlib.suppress(OSError):
                os.unlink(self._temporary)
            self._temporary = ""

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _write_all(descriptor: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]
