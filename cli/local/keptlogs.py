"""Reads and prints the logs that a local cluster keeps in files.

They stay when the Pod is deleted and when the cluster has ended.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

from cli.exitcodes import CliError, ExitCode
from cli.loglines.output import LogOptions, LogPrinter, name_task, print_in_order
from cli.loglines.query import LogQuery, LogSource
from cli.texts.missing import explain_container, explain_framework, explain_task
from framework.api import constants
from framework.clock import SystemClock
from framework.kube.errors import KubeError
from localcluster.apiserver.model.errors import StatusError
from localcluster.apiserver.model.options import ContainerLog, LogReadOptions
from localcluster.kubelet.logs import KeptLog, LogStore

# A Task index is an int32.
_MAX_DIGITS = 10
_WHOLE = LogQuery()


class LocalLogs:
    """The kept logs of a local cluster; errors are those of a client of the API."""

    def __init__(self, store: LogStore) -> None:
        """Read from ``store``."""
        self._store = store

    async def stream(
        self, source: LogSource, query: LogQuery = _WHOLE, *, follow: bool = False
    ) -> AsyncGenerator[bytes]:
        """Yield a log in pieces; with ``follow`` until the container has ended.

        Args:
            source: the container.
            query: the lines; its choice of containers does not matter here.
            follow: continue until the container ends.

        Raises:
            KubeError: there is no such log, because the container never started.
        """
        options = LogReadOptions(
            follow=follow,
            previous=query.previous,
            timestamps=query.timestamps,
            tail_lines=query.tail_lines,
            since_seconds=query.since_seconds,
            since_time=query.since_time,
        )
        pieces = self._store.stream(ContainerLog(*source), options)
        try:
            async with aclosing(pieces):
                async for piece in pieces:
                    yield piece
        except StatusError as e:
            raise KubeError(str(e)) from e


def open_logs(directory: Path) -> LocalLogs:
    """Open the logs of a local cluster."""
    return LocalLogs(LogStore(directory / "logs", SystemClock()))


def list_kept(directory: Path, namespace: str, labels: Mapping[str, str]) -> list[KeptLog]:
    """List the logs of the Pods that have all of these labels."""
    return LogStore(directory / "logs", SystemClock()).list_kept(namespace, labels)


async def print_kept(options: LogOptions, labels: dict[str, str], directory: Path) -> ExitCode:
    """Print the logs a local cluster left in files."""
    kept = _select_kept(options, labels, directory)
    store = open_logs(directory)
    merges = 1 < len(kept) <= options.max_requests
    query = replace(options.query, timestamps=options.query.timestamps or merges)
    sources = (LogSource(log.namespace, log.pod, log.container, log.uid) for log in kept)
    streams = (store.stream(source, query) for source in sources)
    logs = list(zip(_name_all(kept), streams, strict=True))
    printer = LogPrinter(options, has_prefix=len(kept) > 1)
    errors = await print_in_order(printer, logs, options.max_requests)
    for (title, _), error in zip(logs, errors, strict=True):
        if error is not None:
            printer.complain(title, error)
    return ExitCode.FAILED if any(errors) else ExitCode.SUCCEEDED


def _select_kept(options: LogOptions, labels: Mapping[str, str], directory: Path) -> list[KeptLog]:
    """Find the kept logs that the options select.

    Raises:
        CliError: there are none; the message says which part of the request does not exist.
    """
    namespace = options.cluster.namespace or "default"
    if not (directory / "logs").is_dir():
        problem = "has no logs" if directory.is_dir() else "does not exist"
        raise CliError(
            ExitCode.FAILED,
            f"--directory: {directory} {problem}: give the one that `run --local` named",
        )
    found = list_kept(directory, namespace, labels)
    if not found:
        raise CliError(ExitCode.FAILED, _explain_not_kept(options, namespace, directory))
    container = options.query.container
    if options.query.all_containers:
        return found
    if container is None:
        return [log for log in found if log.is_first] or found
    kept = [log for log in found if log.container == container]
    if not kept:
        containers = sorted({log.container for log in found})
        title = options.task or options.name
        raise CliError(ExitCode.FAILED, explain_container(title, container, containers))
    return kept


def _explain_not_kept(options: LogOptions, namespace: str, directory: Path) -> str:
    every = [log.labels for log in list_kept(directory, namespace, {})]
    names = [each.get(constants.FRAMEWORK_NAME, "") for each in every]
    role, index = options.split_task()
    if options.name not in names or role is None:
        where = f"in {directory} (namespace {namespace})"
        return explain_framework(options.name, where, names)
    known: dict[str, list[int]] = {}
    for each in every:
        if each.get(constants.FRAMEWORK_NAME) == options.name:
            tasks = known.setdefault(each.get(constants.TASKROLE_NAME, ""), [])
            stated = each.get(constants.TASK_INDEX, "0")
            # A Pod of a user may have any label.
            tasks += [int(stated)] if stated.isdecimal() and len(stated) <= _MAX_DIGITS else []
    return explain_task(options.name, role, index, known) or f"no log of {options.task} is kept"


def _name_all(kept: Sequence[KeptLog]) -> list[str]:
    """Name logs so that each has its own name.

    A Task that was scaled down and up again, or whose Framework was replaced, begins again at
    attempt 0 with another Pod: the Pod's start time distinguishes them, or its UID.
    """
    attempts = {log.annotations.get(constants.FRAMEWORK_ATTEMPT_ID) for log in kept}
    titles = [_name_kept(log, with_framework_attempt=len(attempts) > 1) for log in kept]
    starts = [f" since {log.started_at:%H:%M:%S} UTC" for log in kept]
    for endings in (starts, [f", Pod {log.uid}" for log in kept]):
        counts = Counter(titles)
        pairs = zip(titles, endings, strict=True)
        titles = [title + ending * (counts[title] > 1) for title, ending in pairs]
    return titles


def _name_kept(log: KeptLog, *, with_framework_attempt: bool) -> str:
    title = f"{name_task(log.labels)} {log.container}"
    if with_framework_attempt:
        title += f" framework-attempt {log.annotations.get(constants.FRAMEWORK_ATTEMPT_ID, '?')}"
    attempt = log.annotations.get(constants.TASK_ATTEMPT_ID, "0")
    return f"{title} attempt {attempt}" if attempt != "0" else title
