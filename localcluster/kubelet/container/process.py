"""One container's process tree, seen from the kubelet.

It starts ``launcher`` and waits for it without threads and without the loop's child watcher, whose
default in Python 3.11 is a thread per child.
"""

import asyncio
import contextlib
import logging
import marshal
import os
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from localcluster.descriptors import INITIAL_SOFT_LIMIT
from localcluster.kubelet.container import launcher
from localcluster.kubelet.container.privileges import Privileges
from localcluster.stdio import StartError, Stdio

logger = logging.getLogger(__name__)

_IMPORT_ROOT = Path(__file__).parents[3]
_BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from localcluster.kubelet.container.launcher import main; main()"
)
_KILL_TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Namespaces:
    """What a container gets of its own."""

    private_root: bool
    pid: bool
    user: bool


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """All the launcher has to know."""

    argv: list[str]
    """The command with its arguments."""
    env: dict[str, str]
    """The whole environment."""
    cwd: str
    """The working directory."""
    namespaces: Namespaces
    """Which namespaces to make."""
    log: Path | None = None
    """None: the output goes to the descriptors given to ``ContainerProcess``."""
    root: Path = Path("/nonexistent")
    """Empty directory on which the private root is built."""
    hostname: str = "localhost"
    """Of the UTS namespace."""
    mounts: list[tuple[str, str, bool]] = field(default_factory=list)
    """Source, target, and whether it is read-only."""
    paths: dict[str, str] = field(default_factory=dict)
    """Container path -> host path where there is no private root; already replaced in the spec."""
    network: tuple[tuple[int, int], ...] = ()
    """Open namespaces that make the Pod's network, and what each is (CLONE_NEWNET, ...)."""
    privileges: Privileges = field(default_factory=Privileges)
    """Users, groups and capabilities."""
    passages: tuple[str, ...] = ()
    """Host paths that the container's user must reach."""
    join: int = 0
    """Process of the container whose namespaces to join; 0 makes new ones."""

    def marshal(self, report: int, stdio: Stdio) -> bytes:
        """Write the form that ``launcher`` reads; JSON would double its start-up time."""
        return marshal.dumps(
            {
                "argv": self.argv,
                "env": self.env,
                "cwd": self.cwd,
                "private_root": self.namespaces.private_root,
                "pid_namespace": self.namespaces.pid,
                "user_namespace": self.namespaces.user,
                "network": list(self.network),
                "log": None if self.log is None else str(self.log),
                "root": str(self.root),
                "hostname": self.hostname[:63],
                "mounts": self.mounts,
                "join": self.join,
                "keeps_input": stdio.stdin != subprocess.DEVNULL,
                "terminal": stdio.terminal,
                "parent": os.getpid(),
                "report": report,
                "open_files": INITIAL_SOFT_LIMIT,
                "passages": list(self.passages),
                **asdict(self.privileges),
            }
        )


class ContainerProcess:
    """A started launcher; ``started`` and ``wait`` return what happened to the command."""

    def __init__(self, spec: LaunchSpec, stdio: Stdio | None = None) -> None:
        """Start the launcher, in the loop's thread.

        The thread must outlive it: the launcher asks for a signal at its parent's death, and the
        kernel takes the thread that started it for its parent.

        Args:
            spec: what to run.
            stdio: stdin, and where stdout and stderr go when the spec names no log; by default
                /dev/null.
        """
        self._loop = asyncio.get_running_loop()
        self._report_parts: list[bytes] = []
        self._reported: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[int] = self._loop.create_future()
        self._report, report_write = os.pipe()
        self._popen = self._spawn(spec, report_write, stdio or Stdio())
        os.set_blocking(self._report, False)
        self._loop.add_reader(self._report, self._read_report)
        self._pidfd = os.pidfd_open(self._popen.pid)
        self._loop.add_reader(self._pidfd, self._collect)
        self.init_pid = 0

    @staticmethod
    def _spawn(spec: LaunchSpec, report: int, stdio: Stdio) -> "subprocess.Popen[bytes]":
        # Not through argv, which every user of the machine can read; not through a file to clean.
        memory = os.memfd_create("launch-spec")
        own = [memory, report]
        try:
            os.write(memory, spec.marshal(report, stdio))
            os.lseek(memory, 0, os.SEEK_SET)
            return subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _BOOT, str(_IMPORT_ROOT), str(memory)],
                stdin=stdio.stdin,
                stdout=stdio.stdout,
                stderr=stdio.stderr,
                pass_fds=own + [descriptor for descriptor, _ in spec.network],
                start_new_session=True,
                cwd="/",
            )
        finally:
            for descriptor in own:
                os.close(descriptor)

    def _read_report(self) -> None:
        chunk = os.read(self._report, 65536)
        if chunk:
            self._report_parts.append(chunk)
            return
        self._loop.remove_reader(self._report)
        os.close(self._report)
        if not self._reported.done():
            self._reported.set_result(None)

    def _collect(self) -> None:
        code = self._popen.poll()
        if code is None:
            return
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        if not self._ended.done():
            self._ended.set_result(_map_exit(code))

    async def started(self) -> None:
        """Wait until the command runs.

        Raises:
            StartError: it does not, and never will.
        """
        await asyncio.shield(self._reported)
        errors = []
        for message in _parse_report(b"".join(self._report_parts)):
            self.init_pid = message.get("pid", self.init_pid)
            if "error" in message:
                errors.append(str(message["error"]))
        if errors:
            raise StartError(errors[0])
        if not self.init_pid:
            code = await self.wait()
            raise StartError(f"the container's launcher ended with exit code {code}")

    async def wait(self) -> int:
        """Wait for the end of the whole tree and return the command's exit code."""
        return await asyncio.shield(self._ended)

    @property
    def has_ended(self) -> bool:
        """Return whether nothing of the container runs any more."""
        return self._ended.done()

    def terminate(self) -> None:
        """Ask the command to end (SIGTERM)."""
        self._send(launcher.STOP_SIGNAL)

    async def kill(self) -> int:
        """Kill the whole tree and wait for its end."""
        self._send(launcher.KILL_SIGNAL)
        try:
            async with asyncio.timeout(_KILL_TIMEOUT_SECONDS):
                return await self.wait()
        except TimeoutError:
            logger.warning("launcher does not end, killing it", extra={"pid": self._popen.pid})
            self._send(signal.SIGKILL)
        return await self.wait()

    def _send(self, number: int) -> None:
        if not self._ended.done():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)


def _map_exit(code: int) -> int:
    """Return the exit code for the launcher's, negative if a signal ended it."""
    if code == -launcher.KILL_SIGNAL:
        # It was killed before it could take signals over; nothing of the container ran yet.
        return 128 + signal.SIGKILL
    return code if code >= 0 else 128 - code


def _parse_report(raw: bytes) -> list[dict[str, Any]]:
    """Take the messages apart that supervisor, init and command wrote one after another."""
    messages = []
    while raw:
        message = marshal.loads(raw)  # noqa: S302 our own launcher's
        messages.append(message)
        raw = raw[len(marshal.dumps(message)) :]
    return messages
