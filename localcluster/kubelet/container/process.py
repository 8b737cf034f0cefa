"""One container's process tree, seen from the kubelet: its input, its start and its end."""

import asyncio
import logging
import marshal
import os
import signal
import subprocess
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from localcluster.descriptors import INITIAL_SOFT_LIMIT
from localcluster.kubelet.container import launcher
from localcluster.kubelet.container.forkserver_process import ContainerSupervisor, ForkServerProcess
from localcluster.kubelet.container.security import Privileges
from localcluster.stdio import StartError, Stdio

logger = logging.getLogger(__name__)

_KILL_TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Namespaces:
    """The namespaces that a container gets."""

    private_root: bool
    pid: bool
    user: bool


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """The input of the launcher."""

    argv: list[str]
    """The command with its arguments."""
    env: dict[str, str]
    """The whole environment."""
    cwd: str
    """The working directory."""
    namespaces: Namespaces
    """The namespaces to create."""
    log: Path | None = None
    """File for the output; None: it goes to the descriptors of ``ContainerProcess``."""
    root: Path = Path("/nonexistent")
    """Empty directory on which the private root is built."""
    hostname: str = "localhost"
    """Host name in the UTS namespace."""
    mounts: list[tuple[str, str, bool]] = field(default_factory=list)
    """Source, target, and whether it is read-only."""
    paths: dict[str, str] = field(default_factory=dict)
    """Container path -> host path, if there is no private root; already replaced in the spec."""
    network: tuple[tuple[int, int], ...] = ()
    """Open namespaces of the Pod's network, each with its kind (CLONE_NEWNET, ...)."""
    privileges: Privileges = field(default_factory=Privileges)
    """Users, groups and capabilities."""
    passages: tuple[str, ...] = ()
    """Host paths that the container's user must reach."""
    join: int = 0
    """Process of the container whose namespaces to join; 0 creates new ones."""

    def marshal(self, stdio: Stdio) -> bytes:
        """Write the form that ``launcher`` reads."""
        return marshal.dumps(
            {
                "argv": self.argv,
                "env": self.env,
                "cwd": self.cwd,
                "private_root": self.namespaces.private_root,
                "pid_namespace": self.namespaces.pid,
                "user_namespace": self.namespaces.user,
                "network_flags": [flag for _, flag in self.network],
                "log": None if self.log is None else str(self.log),
                "root": str(self.root),
                "hostname": self.hostname[:63],
                "mounts": self.mounts,
                "join": self.join,
                "keeps_input": stdio.stdin != subprocess.DEVNULL,
                "terminal": stdio.terminal,
                "open_files": INITIAL_SOFT_LIMIT,
                "passages": list(self.passages),
                **asdict(self.privileges),
            }
        )


class ContainerProcess:
    """A started container; ``started`` and ``wait`` report the start and the end of its command."""

    def __init__(
        self, server: ForkServerProcess, spec: LaunchSpec, stdio: Stdio | None = None
    ) -> None:
        """Start it; by default its streams are /dev/null, or the log of the spec."""
        self._loop = asyncio.get_running_loop()
        self._report_parts: list[bytes] = []
        self._reported: asyncio.Future[None] = self._loop.create_future()
        self._report, report_write = os.pipe()
        try:
            self._supervisor = _start_supervisor(server, spec, report_write, stdio or Stdio())
        except BaseException:
            os.close(self._report)
            raise
        finally:
            os.close(report_write)
        os.set_blocking(self._report, False)
        self._loop.add_reader(self._report, self._read_report)
        self.init_pid = 0

    def _read_report(self) -> None:
        chunk = os.read(self._report, 65536)
        if chunk:
            self._report_parts.append(chunk)
            return
        self._loop.remove_reader(self._report)
        os.close(self._report)
        if not self._reported.done():
            self._reported.set_result(None)

    async def started(self) -> None:
        """Wait until the command runs.

        Raises:
            StartError: the command cannot run.
        """
        await asyncio.shield(self._reported)
        errors = []
        for message in _parse_report(b"".join(self._report_parts)):
            self.init_pid = message.get("pid", self.init_pid)
            if "error" in message:
                errors.append(StartError(str(message["error"]), message.get("code")))
        if errors:
            raise errors[0]
        if not self.init_pid:
            code = await self.wait()
            raise StartError(f"the container's launcher ended with exit code {code}")

    async def wait(self) -> int:
        """Wait for the end of the whole tree and return the command's exit code."""
        return await self._supervisor.wait()

    @property
    def has_ended(self) -> bool:
        """Return whether all processes of the container have ended."""
        return self._supervisor.has_ended

    def terminate(self) -> None:
        """Ask the command to end (SIGTERM)."""
        self._supervisor.signal(launcher.STOP_SIGNAL)

    async def kill(self) -> int:
        """Kill the whole tree and wait for its end."""
        self._supervisor.signal(launcher.KILL_SIGNAL)
        try:
            async with asyncio.timeout(_KILL_TIMEOUT_SECONDS):
                return await self.wait()
        except TimeoutError:
            logger.warning("supervisor does not end, killing it", extra={"init": self.init_pid})
            self._supervisor.signal(signal.SIGKILL)
        return await self.wait()


def _start_supervisor(
    server: ForkServerProcess, spec: LaunchSpec, report: int, stdio: Stdio
) -> ContainerSupervisor:
    # A file instead of a message: an environment may exceed the limit of a message.
    memory, null = os.memfd_create("launch-spec"), os.open(os.devnull, os.O_RDWR)
    try:
        os.write(memory, spec.marshal(stdio))
        os.lseek(memory, 0, os.SEEK_SET)
        stdin = null if stdio.stdin == subprocess.DEVNULL else stdio.stdin
        stdout = null if stdio.stdout == subprocess.DEVNULL else stdio.stdout
        stderr = {subprocess.DEVNULL: null, subprocess.STDOUT: stdout}.get(
            stdio.stderr, stdio.stderr
        )
        network = [descriptor for descriptor, _ in spec.network]
        return server.start([memory, stdin, stdout, stderr, report, *network])
    finally:
        os.close(memory)
        os.close(null)


def _parse_report(raw: bytes) -> list[dict[str, Any]]:
    """Split the messages that supervisor, init and command wrote in turn."""
    messages = []
    while raw:
        message = marshal.loads(raw)  # noqa: S302 our own launcher's
        messages.append(message)
        raw = raw[len(marshal.dumps(message)) :]
    return messages
