"""Starts ``forkserver`` and sends it requests."""

import asyncio
import logging
import signal
from collections.abc import Sequence

from localcluster.child_program import ChildProgram, Request, RequestError

logger = logging.getLogger(__name__)

_KILLED = 128 + signal.SIGKILL


class ContainerSupervisor:
    """A supervisor, from the request that starts it."""

    def __init__(self, program: ChildProgram, request: Request) -> None:
        """Take over the request that starts it."""
        self._program = program
        self._request = request

    @property
    def has_ended(self) -> bool:
        """Return whether the supervisor has ended."""
        return self._request.answered.done()

    async def wait(self) -> int:
        """Wait for the end of the supervisor; return its exit code in the form of a shell."""
        try:
            code: int = (await asyncio.shield(self._request.answered)).value
        except RequestError:
            # The fork server was killed, and all supervisors with it.
            return _KILLED
        return code if code >= 0 else 128 - code

    def signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        self._program.notify("signal", self._request.number, int(number))


class ForkServerProcess:
    """The fork server. It starts with the first container, and again if it was killed.

    Use it in one thread, which must outlive it.
    """

    def __init__(self) -> None:
        """Prepare; nothing is started yet."""
        self._program: ChildProgram | None = None

    @property
    def pid(self) -> int | None:
        """The process; None if it is not started."""
        return None if self._program is None else self._program.pid

    def start(self, descriptors: Sequence[int]) -> ContainerSupervisor:
        """Start a supervisor with the open files of ``launcher.run_supervisor``."""
        if self._program is not None and self._program.has_ended:
            logger.warning("fork server ended, starting it again")
            self._program.kill()
            self._program = None
        if self._program is None:
            self._program = ChildProgram("localcluster.kubelet.container.forkserver")
        return ContainerSupervisor(
            self._program, self._program.request("start", descriptors=descriptors)
        )

    async def stop(self) -> None:
        """End it, and all containers with it."""
        if self._program is not None:
            await self._program.stop()
            self._program = None
