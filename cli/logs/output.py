"""What the user asks of ``framework logs``, and how the lines of the Tasks are written."""

import re
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from cli.exitcodes import CliError, ExitCode
from cli.logs.containeroutput import OutputLines
from cli.options import ClusterChoice
from cli.terminal import print_error
from framework.api import constants
from framework.api.text import make_printable
from framework.kube.errors import ApiError, KubeError

_TASK = re.compile(r"(?P<role>[a-z0-9]{1,63})(/(?P<index>0|[1-9][0-9]{0,4}))?\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """Options and arguments of ``framework logs``."""

    name: str
    task: str | None = None
    container: str | None = None
    follow: bool = False
    previous: bool = False
    tail_lines: int | None = None
    cluster: ClusterChoice = field(default_factory=ClusterChoice)
    directory: str | None = None
    raw: bool = False
    """Write the bytes unchanged, with control characters."""

    def split_task(self) -> tuple[str | None, str | None]:
        """Return role and index of the requested Task; None stands for all.

        Raises:
            CliError: the Task is not written as ROLE or ROLE/INDEX.
        """
        if self.task is None:
            return None, None
        found = _TASK.match(self.task)
        if found is None:
            raise CliError(
                ExitCode.USAGE, f"{self.task!r} is not a Task: write it as worker or worker/0"
            )
        return found["role"], found["index"]

    def build_labels(self) -> dict[str, str]:
        """Build the labels of the requested Pods.

        Raises:
            CliError: the Task is not written as ROLE or ROLE/INDEX.
        """
        role, index = self.split_task()
        labels = {
            constants.FRAMEWORK_NAME: self.name,
            constants.TASKROLE_NAME: role,
            constants.TASK_INDEX: index,
        }
        return {key: value for key, value in labels.items() if value is not None}


def name_task(labels: Mapping[str, str]) -> str:
    """Name a Task by the labels of its Pod: ``worker/0``."""
    return f"{labels.get(constants.TASKROLE_NAME)}/{labels.get(constants.TASK_INDEX)}"


class _CountedChunks:
    """Counts the bytes of a log."""

    def __init__(self, chunks: AsyncGenerator[bytes]) -> None:
        self._chunks = chunks
        self.size_bytes = 0

    async def read(self) -> AsyncGenerator[bytes]:
        """Give the chunks."""
        async with aclosing(self._chunks):
            async for chunk in self._chunks:
                self.size_bytes += len(chunk)
                yield chunk


class LogPrinter:
    """Writes whole lines, so that the lines of several Tasks are not mixed."""

    def __init__(self, options: LogOptions, *, has_prefix: bool) -> None:
        """With ``has_prefix`` name the Task in each line."""
        self._has_prefix = has_prefix
        self._is_raw = options.raw
        self._wants_lines = options.tail_lines != 0

    async def print_chunks(self, title: str, chunks: AsyncGenerator[bytes]) -> None:
        """Print a log as it comes, each line with the Task in front if there are several.

        A note on standard error says that a log is empty: no output is not an answer.
        """
        counted = _CountedChunks(chunks)
        await self._print(title, counted.read())
        if self._wants_lines and not counted.size_bytes:
            print_error(f"note: {title}: its log is empty: the container has printed nothing")

    async def _print(self, title: str, chunks: AsyncGenerator[bytes]) -> None:
        prefix = f"[{make_printable(title)}] " if self._has_prefix else ""
        async with aclosing(chunks):
            if self._is_raw:
                await self._print_raw(prefix.encode(), chunks)
                return
            lines = OutputLines()
            async for chunk in chunks:
                self._write_lines(prefix, lines.feed(chunk))
            self._write_lines(prefix, lines.finish())

    async def _print_raw(self, prefix: bytes, chunks: AsyncGenerator[bytes]) -> None:
        rest = b""
        async for chunk in chunks:
            *lines, rest = (rest + chunk).split(b"\n")
            self._write(b"".join(prefix + line + b"\n" for line in lines))
        if rest:
            self._write(prefix + rest + b"\n")

    def _write_lines(self, prefix: str, lines: Sequence[str]) -> None:
        self._write("".join(f"{prefix}{line}\n" for line in lines).encode())

    def complain(self, title: str, error: KubeError, reason: str = "") -> None:
        """Print why the log of a Task cannot be read; ``reason`` says why there is none."""
        message = error.message if isinstance(error, ApiError) else str(error)
        print_error(f"error: {title}: {message}{f': {reason}' if reason else ''}")

    def _write(self, raw: bytes) -> None:
        sys.stdout.buffer.write(raw)
        sys.stdout.buffer.flush()
