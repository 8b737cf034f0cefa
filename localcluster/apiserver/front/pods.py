"""The interface of the kubelet for ``pods/exec`` and ``pods/portforward``."""

import asyncio
from collections.abc import Sequence
from typing import Protocol, TypeAlias

from localcluster.stdio import Stdio

Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class RunningPods(Protocol):
    """Runs commands in the containers of Pods, and connects to their programs."""

    async def run_command(self, uid: str, container: str, argv: Sequence[str], stdio: Stdio) -> int:
        """Run a command in a container of the Pod with this UID and return its exit code.

        A cancelled call leaves nothing running.

        Raises:
            StartError: the container does not run, or it has no such program.
        """
        ...

    async def connect(self, uid: str, port: int) -> Streams:
        """Connect to a port of the Pod with this UID.

        Raises:
            OSError: nothing listens there, or the Pod does not run.
        """
        ...
