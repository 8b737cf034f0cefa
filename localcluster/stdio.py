"""Descriptors for a command in a container, the error if it cannot start, and connections to Pods.

The kubelet uses them, and the API server for ``kubectl exec`` and ``port-forward``.
"""

import asyncio
import subprocess
from typing import NamedTuple, TypeAlias

Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class StartError(Exception):
    """The command could not be started; the text is for the container's status."""

    def __init__(self, message: str, exit_code: int | None = None) -> None:
        """Create the error, with the exit code of a shell that cannot run the program.

        It is 127 if there is no such program, 126 if it cannot be executed, None for other reasons.
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
