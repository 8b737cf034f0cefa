"""The options of ``framework logs``, and the printer of its lines."""

import os
import re
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from cli.clusterchoice import ClusterChoice
from cli.coloring import AUTO, choose_color, paint, wants_color
from cli.exitcodes import CliError, ExitCode
from cli.loglines.containeroutput import OutputLines, RawLines
from cli.loglines.merging import merge_logs
from cli.loglines.query import LogQuery
from cli.loglines.timestamps import TimedLine, read_timed_lines
from cli.terminal import print_error
from cli.texts.taskwords import suggest_tasks
from framework.api import constants
from framework.api.text import make_printable
from framework.kube.errors import ApiError, KubeError
from framework.kube.resources import Object

MAX_REQUESTS = 50
_TASK = re.compile(r"(?P<role>[a-z0-9]{1,63})(/(?P<index>0|[1-9][0-9]{0,4}))?\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """Options and arguments of ``framework logs``."""

    name: str
    """Name of the Framework; "" with a selector."""
    selector: str | None = None
    """Labels of the Frameworks, instead of a name."""
    names: tuple[str, ...] = ()
    """The Frameworks that the selector selects, once they are known."""
    task: str | None = None
    """ROLE or ROLE/INDEX as the user wrote it; None for all Tasks."""
    query: LogQuery = field(default_factory=LogQuery)
    """Which containers and lines."""
    follow: bool = False
    """Go on until the Tasks are completed."""
    cluster: ClusterChoice = field(default_factory=ClusterChoice)
    """Cluster and namespace."""
    directory: str | None = None
    """Directory of a local cluster whose kept logs are read."""
    raw: bool = False
    """Write the bytes unchanged, with control characters."""
    has_prefix: bool | None = None
    """Name the Task in each line; None: if there are several logs."""
    max_requests: int = MAX_REQUESTS
    """The most logs that are read at a time."""
    color: str = AUTO
    """Value of ``--color``."""

    def split_task(self) -> tuple[str | None, str | None]:
        """Return role and index of the requested Task; None stands for all.

        Raises:
            CliError: the Task is not written as ROLE or ROLE/INDEX.
        """
        if self.task is None:
            return None, None
        found = _TASK.match(self.task)
        if found is None:
            raise CliError(ExitCode.USAGE, _explain_form(self.task))
        return found["role"], found["index"]

    def build_pod_selector(self) -> str:
        """Build the label selector of the requested Pods.

        Raises:
            CliError: the Task is not written as ROLE or ROLE/INDEX.
        """
        if self.selector is not None:
            return f"{constants.FRAMEWORK_NAME} in ({','.join(self.names)})"
        return ",".join(f"{key}={value}" for key, value in self.build_labels().items())

    def name_pod(self, pod: Object) -> str:
        """Name a Pod by its Task, and by its Framework if there may be several."""
        labels = pod["metadata"].get("labels") or {}
        task = name_task(labels)
        return f"{labels.get(constants.FRAMEWORK_NAME)}/{task}" if self.selector else task

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


def _explain_form(word: str) -> str:
    meant = suggest_tasks(word)
    task = meant.partition(" ")[0] or "worker/0"
    role = task.partition("/")[0]
    if " " in meant:
        return f"{word!r}: write {role} for all Tasks of the role, or one of them: {task}"
    return f"{word!r} is not a Task: write it as {role} or {task}"


def name_task(labels: Mapping[str, str]) -> str:
    """Name a Task by the labels of its Pod: ``worker/0``."""
    return f"{labels.get(constants.TASKROLE_NAME)}/{labels.get(constants.TASK_INDEX)}"


class _CountedChunks:
    """Counts the bytes of a log, and keeps the error that ends it."""

    def __init__(self, chunks: AsyncGenerator[bytes]) -> None:
        self._chunks = chunks
        self.size_bytes = 0
        self.error: KubeError | None = None

    async def read(self) -> AsyncGenerator[bytes]:
        """Yield the chunks up to the end or the error."""
        try:
            async with aclosing(self._chunks):
                async for chunk in self._chunks:
                    self.size_bytes += len(chunk)
                    yield chunk
        except KubeError as e:
            self.error = e


class LogPrinter:
    """Writes whole lines, so that the lines of several Tasks are not mixed."""

    def __init__(self, options: LogOptions, *, has_prefix: bool) -> None:
        """With ``has_prefix`` name the Task in each line, unless the options say otherwise."""
        self._has_prefix = (
            (has_prefix or None) if options.has_prefix is None else options.has_prefix
        )
        self._first_title: str | None = None
        self._is_raw = options.raw
        self._wants_lines = options.query.wants_all_times and options.query.tail_lines != 0
        self._shows_stamps = options.query.timestamps
        self._has_color = wants_color(options.color, sys.stdout, os.environ)

    def build_reader(self) -> OutputLines | RawLines:
        """Build the reader that splits the output of a container into lines."""
        return RawLines() if self._is_raw else OutputLines()

    async def print_chunks(self, title: str, chunks: AsyncGenerator[bytes]) -> KubeError | None:
        """Print a log as it comes, each line with the Task in front if there are several.

        A note on standard error says that a log is empty.

        Returns:
            Why the log could not be read to its end; None if it could.
        """
        counted = _CountedChunks(chunks)
        reader = self.build_reader()
        async with aclosing(counted.read()) as pieces:
            async for chunk in pieces:
                self.show_output(title, reader.feed(chunk))
        self._finish(title, counted, reader)
        return counted.error

    async def print_merged(
        self, logs: Sequence[tuple[str, AsyncGenerator[bytes]]]
    ) -> list[KubeError | None]:
        """Print several logs, whose lines begin with their times, in the order of these times.

        Returns:
            For each log why it could not be read to its end; None if it could.
        """
        counted = [_CountedChunks(chunks) for _, chunks in logs]
        readers = [self.build_reader() for _ in logs]
        merged = merge_logs([read_timed_lines(each.read()) for each in counted])
        async with aclosing(merged):
            async for number, line in merged:
                self._show_timed(logs[number][0], line, readers[number].feed(line.text))
        for (title, _), each, reader in zip(logs, counted, readers, strict=True):
            self._finish(title, each, reader)
        return [each.error for each in counted]

    def show_output(self, title: str, lines: Sequence[str]) -> None:
        """Print lines of a log."""
        if not lines:
            return
        # With -f, the Pod of another Task may come later.
        self._first_title = self._first_title or title
        prefix = self._build_prefix(title)
        self._write("".join(f"{prefix}{line}\n" for line in lines))

    def say(self, text: str) -> None:
        """Print a line between the lines of the logs, unless these are printed as they are."""
        if not self._is_raw:
            self._write(f"{make_printable(text)}\n")

    def remark(self, text: str) -> None:
        """Print a note on standard error, where no program reads a log."""
        print_error(text)

    def complain(self, title: str, error: KubeError, reason: str = "") -> None:
        """Print why the log of a Task cannot be read; ``reason`` says why there is none."""
        message = error.message if isinstance(error, ApiError) else str(error)
        print_error(f"error: {title}: {message}{f': {reason}' if reason else ''}")

    def _show_timed(self, title: str, line: TimedLine, texts: Sequence[str]) -> None:
        stamp = line.stamp.decode() if self._shows_stamps else ""
        self.show_output(title, [stamp + text for text in texts])

    def _finish(self, title: str, counted: _CountedChunks, reader: OutputLines | RawLines) -> None:
        self.show_output(title, reader.finish())
        if self._wants_lines and not counted.size_bytes and counted.error is None:
            print_error(f"note: {title}: its log is empty: the container has printed nothing")

    def _build_prefix(self, title: str) -> str:
        if self._has_prefix is None:
            is_named = title != self._first_title
            self._has_prefix = is_named or None
        if not self._has_prefix:
            return ""
        prefix = f"[{make_printable(title)}]"
        return f"{paint(prefix, choose_color(title)) if self._has_color else prefix} "

    def _write(self, text: str) -> None:
        # A raw line has its bytes as surrogates.
        sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
        sys.stdout.buffer.flush()


async def print_in_order(
    printer: LogPrinter,
    logs: Sequence[tuple[str, AsyncGenerator[bytes]]],
    max_requests: int,
) -> list[KubeError | None]:
    """Print logs merged by the times of their lines, or one after the other if they are too many.

    Args:
        printer: writes the lines.
        logs: titles and contents; of several that are not too many, with times in front.
        max_requests: so many are merged.

    Returns:
        For each log why it could not be read to its end; None if it could.
    """
    if 1 < len(logs) <= max_requests:
        return await printer.print_merged(logs)
    if len(logs) > max_requests:
        print_error(
            f"note: {len(logs)} logs are printed one after the other, because more than "
            f"{max_requests} are not merged; --max-log-requests N merges more"
        )
    return [await printer.print_chunks(title, chunks) for title, chunks in logs]
