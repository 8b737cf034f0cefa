"""Keeps a child process running: starts it again, with growing pauses, each time it ends.

The child ends with this process.

    ChildFailedError    the child ends again and again
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from framework.clock import Clock
from framework.kube.backoff import Backoff

logger = logging.getLogger(__name__)

_STOP_SECONDS = 10.0
# A child that ran for so long has no fault in its set-up.
_HEALTHY_SECONDS = 10.0
_MAX_QUICK_ENDS = 6
_TAIL_BYTES = 4000
_TAIL_LINES = 5


class ChildFailedError(Exception):
    """The child ends right after each start; the message has the end of its log."""


class Supervisor:
    """One child and its log file.

    Attributes:
        pid: of the running child; None if no child runs.
        starts: number of starts.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log_path: Path,
        env: Mapping[str, str],
        clock: Clock,
        backoff: Backoff | None = None,
    ) -> None:
        """Prepare; ``run`` starts it.

        The name is for logs and errors. The command begins with an absolute path, its output is
        appended to ``log_path``, and ``env`` is its whole environment. ``backoff`` has the pauses
        between an end and the next start; by default they grow from 0.1 s.
        """
        self.pid: int | None = None
        self.starts = 0
        self._name = name
        wrapper = (sys.executable, "-P", "-m", "localcluster.parent_death", str(os.getpid()))
        self._command = (*wrapper, *command)
        self._log_path = log_path
        self._env = dict(env)
        self._clock = clock
        self._backoff = backoff or Backoff(0.1, 2.0, 5.0)

    async def run(self) -> None:
        """Run the child until cancelled; then end it and wait for its end."""
        quick_ends = 0
        while True:
            started = self._clock.monotonic()
            code = await self._run_once()
            if self._clock.monotonic() - started >= _HEALTHY_SECONDS:
                self._backoff.reset()
                quick_ends = 0
            quick_ends += 1
            if quick_ends >= _MAX_QUICK_ENDS:
                raise ChildFailedError(
                    f"the {self._name} ended {quick_ends} times right after its start, "
                    f"at last with {_name_end(code)}; its log is {self._log_path}:\n"
                    f"{self._read_tail()}"
                )
            delay_seconds = self._backoff.next_bound_seconds()
            logger.warning(
                "child ended and is restarted",
                extra={"child": self._name, "end": _name_end(code), "delay_seconds": delay_seconds},
            )
            await asyncio.sleep(delay_seconds)

    async def _run_once(self) -> int:
        with self._log_path.open("ab") as log:
            child = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._env,
                # Ctrl-C must reach only this process, which ends its parts in order.
                start_new_session=True,
            )
        self.pid = child.pid
        self.starts += 1
        logger.info("child started", extra={"child": self._name, "child_pid": child.pid})
        try:
            return await child.wait()
        finally:
            self.pid = None
            if child.returncode is None:
                await self._end(child)

    async def _end(self, child: asyncio.subprocess.Process) -> None:
        """End the child by SIGTERM, and by SIGKILL if it does not end."""
        child.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await child.wait()
        except TimeoutError:
            logger.warning("child killed: still running after SIGTERM", extra={"child": self._name})
            child.kill()
            await child.wait()

    def _read_tail(self) -> str:
        try:
            lines = self._log_path.read_bytes()[-_TAIL_BYTES:].splitlines()[-_TAIL_LINES:]
        except OSError:
            return ""
        return b"\n".join(lines).decode("utf-8", "replace")


def _name_end(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
