"""Atomic writes of files that other containers read."""

import contextlib
import os


def write_atomically(path: str, content: bytes, mode: int) -> None:
    """Write a file so that a reader sees the old content or the new one, never a part.

    Raises:
        OSError: The directory is not writable, full, or missing. No temporary file remains.
    """
    PreparedFile(path, mode).fill(content)


class PreparedFile:
    """A temporary file beside ``path`` that replaces it when it has its content.

    To create a file takes longer than to write a small content. An agent that waits creates the
    file before the wait. There is no fsync: a kill loses nothing, and after a power failure the
    kubelet runs the init containers again. ``O_EXCL`` and ``rename`` do not follow links, so a link
    that another container placed in the volume is replaced and its target does not change.
    """

    def __init__(self, path: str, mode: int) -> None:
        """Create the temporary file with exactly this mode, independent of the umask.

        Raises:
            OSError: The directory is not writable, full, or missing. No temporary file remains.
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
        """Write the content and rename the file to ``path``. Call it once.

        Raises:
            OSError: The volume is full, or the file is missing. No temporary file remains.
        """
        try:
            _write_all(self._descriptor, content)
            self._close()
            os.rename(self._temporary, self._path)
        except BaseException:
            # Also for the exception of SIGTERM.
            self.discard()
            raise
        self._temporary = ""

    def discard(self) -> None:
        """Remove the temporary file, unless it was renamed already."""
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
