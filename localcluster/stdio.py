"""Descriptors for a command in a container, and the error if it cannot start.

The kubelet uses them, and the API server, which serves ``kubectl exec``.
"""

import subprocess
from typing import NamedTuple


class StartError(Exception):
    """The command could not be started; the text is for the container's status."""

    def __init__(self, message: str, exit_code: int | None = None) -> None:
        """Create the error, with the exit code of a shell that cannot run the program.

        Args:
            message: the reason.
            exit_code: 127 if there is no such program, 126 if it cannot be executed; None for
                another reason.
        """
        super().__init__(message)
        self.exit_code = exit_code


class Stdio(NamedTuple):
    """Open descriptors for a command; the caller closes them."""

    stdin: int = subprocess.DEVNULL
    stdout: int = subprocess.DEVNULL
    stderr: int = subprocess.STDOUT
    terminal: bool = False
    """Whether all three are a terminal that controls the command's session."""
