"""Descriptors for a command in a container, and the error if it cannot start.

The kubelet takes both from here, and the API server, which serves ``kubectl exec``.
"""

import subprocess
from typing import NamedTuple


class StartError(Exception):
    """The command could not be started; the text is for the container's status."""


class Stdio(NamedTuple):
    """Open descriptors for a command; the caller closes them."""

    stdin: int = subprocess.DEVNULL
    stdout: int = subprocess.DEVNULL
    stderr: int = subprocess.STDOUT
    terminal: bool = False
    """Whether all three are a terminal that controls the command's session."""
