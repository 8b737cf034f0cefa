"""The files in the volume by which the wrapper shows a sidecar whether its command runs.

``.running`` is locked as long as the wrapper runs, because the kernel may kill it, for example when
memory is short. The wrapper writes ``.ended`` when its command has ended.
"""

import contextlib
import enum
import fcntl
import os

ENDED_FILE = ".ended"
RUNNING_FILE = ".running"


class WrapperState(enum.Enum):
    """The state of the wrapper, as its files show it."""

    UNSEEN = "unseen"  # it has not started
    RUNNING = "running"
    ENDED = "ended"


class WrapperFiles:
    """The files in one volume."""

    def __init__(self, directory: str) -> None:
        """Use the files in ``directory``."""
        self._ended_path = os.path.join(directory, ENDED_FILE)
        self._running_path = os.path.join(directory, RUNNING_FILE)
        # The descriptor of the locked file.
        self._running_file = -1

    def mark_running(self) -> None:
        """Hold a lock until this process ends, also if it is killed."""
        temporary = f"{self._running_path}.{os.urandom(6).hex()}.tmp"
        with contextlib.suppress(OSError):
            flags = os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            self._running_file = os.open(temporary, flags, 0o444)
            os.fchmod(self._running_file, 0o444)  # independent of the umask
            fcntl.flock(self._running_file, fcntl.LOCK_EX)
            os.rename(temporary, self._running_path)
        with contextlib.suppress(OSError):
            os.unlink(self._ended_path)

    def mark_ended(self) -> None:
        """Write the file that shows the end.

        Raises:
            OSError: It cannot be written.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        os.close(os.open(self._ended_path, flags, 0o444))

    def read_state(self) -> WrapperState:
        """Read the state of the wrapper.

        Raises:
            OSError: A file cannot be read now.
        """
        if os.path.exists(self._ended_path):
            return WrapperState.ENDED
        try:
            descriptor = os.open(self._running_path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return WrapperState.UNSEEN
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return WrapperState.RUNNING
        finally:
            os.close(descriptor)
        return WrapperState.ENDED
