"""``framework logs``: what the containers of a Framework's Tasks print.

Called by ``cli.main``. Reads through the API server; logs of Pods that are gone are to be had only
from a local cluster, which keeps them in files.
"""

import asyncio
import re
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from cli.containeroutput import OutputLines
from cli.display import silence
from cli.exitcodes import CliError, ExitCode
from cli.invocation import build_command
from cli.logerrors import explain_container, explain_framework, explain_task
from cli.session import explained, find_cluster, open_client
from cli.terminal import print_error
from framework.api import constants
from framework.api.text import make_printable
from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.config import KubeConfig
from framework.kube.errors import ApiError, BadRequestError, KubeError, NotFoundError
from framework.kube.resources import FRAMEWORKS, PODS, Object
from localcluster.apiserver.model.errors import StatusError
from localcluster.kubelet.logs import KeptLog, LogStore

_TASK = re.compile(r"(?P<role>[a-z0-9]{1,63})(/(?P<index>0|[1-9][0-9]{0,4}))?\Z")
_RETRY_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """What the user asked for."""

    name: str
    task: str | None = None
    container: str | None = None
    follow: bool = False
    previous: bool = False
    tail_lines: int | None = None
    namespace: str | None = None
    kubeconfig: str | None = None
    directory: str | None = None
    raw: bool = False
    """Write the bytes as the container did, for a terminal to obey."""

    def split_task(self) -> tuple[str | None, str | None]:
        """Return role and index of the Task that is meant, None for all.

        Raises:
            CliError: the Task is not written as ROLE or ROLE/INDEX.
        """
        if self.task is None:
            return None, None
        found = _TASK.match(self.task)
        if found is None:
            raise CliError(
                ExitCode.USAGE, f"{self.task!r} is no Task: write it as worker or worker/0"
            )
        return found["role"], found["index"]

    def build_labels(self) -> dict[str, str]:
        """Build the labels of the Pods that are meant.

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


def print_logs(options: LogOptions) -> ExitCode:
    """Run ``framework logs``."""
    labels = options.build_labels()
    if options.directory is not None:
        return _run(_print_kept(options, labels, Path(options.directory)))
    config = None
    try:
        config = find_cluster(options.kubeconfig)
        return _run(_print_live(options, labels, config))
    except CliError as e:
        if config is not None and e.exit_code is not ExitCode.UNREACHABLE:
            raise
        raise CliError(e.exit_code, *e.lines, _explain_kept(options, labels)) from e


def _explain_kept(options: LogOptions, labels: Mapping[str, str]) -> str:
    """Say how to read what a local cluster that is down has kept."""
    from cli.local import find_state_directory

    default = find_state_directory(None)
    is_kept = bool(_list_kept(default, options.namespace or "default", labels))
    directory = str(default) if is_kept else "DIR"
    target = [options.name] if options.task is None else [options.name, options.task]
    namespace = ["-n", options.namespace] if options.namespace else []
    command = build_command("logs", *target, *namespace, "--directory", directory)
    return f"logs of a local cluster stay after its end; to read them: `{command}`"


def _run(printing: Coroutine[Any, Any, ExitCode]) -> ExitCode:
    """Print until the end, until Ctrl-C, or until nobody reads any more."""
    try:
        return asyncio.run(printing)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        pass
    except BaseExceptionGroup as group:
        if group.subgroup(BrokenPipeError) is None:
            raise
    silence(sys.stdout)
    return ExitCode.SUCCEEDED


async def _print_live(options: LogOptions, labels: dict[str, str], config: KubeConfig) -> ExitCode:
    namespace = options.namespace or config.namespace
    async with open_client(config) as client:
        with explained(config):
            pods = await _list_pods(client, namespace, labels)
            directory = None if pods else _find_local_directory(config)
            if directory is not None and _list_kept(directory, namespace, labels):
                return await _print_kept(options, labels, directory)
            if not pods:
                raise await _explain_missing(client, options, namespace, directory)
            printer = _Printer(has_prefix=len(pods) > 1, is_raw=options.raw)
            async with asyncio.TaskGroup() as tasks:
                printing = [
                    tasks.create_task(
                        _print_pod(client, pod, options, printer),
                        name=f"log-{pod['metadata']['name']}",
                    )
                    for pod in pods
                ]
    is_complete = all(task.result() for task in printing)
    return ExitCode.SUCCEEDED if is_complete else ExitCode.FAILED


async def _list_pods(
    client: KubeClient, namespace: str, labels: dict[str, str]
) -> Sequence[Object]:
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    listed = await client.list(PODS, namespace, label_selector=selector)
    return sorted(listed["items"], key=_sort_key)


def _find_local_directory(config: KubeConfig) -> Path | None:
    """Find the directory of the local cluster at this address; None if it is another cluster."""
    from cli.local import find_state_directory, read_state

    try:
        state = read_state(find_state_directory(None))
    except CliError:
        # Another user could have written it: nothing in it is believed, and nobody named it.
        return None
    is_local = state is not None and state.server == config.server
    return Path(state.directory) if state is not None and is_local else None


async def _explain_missing(
    client: KubeClient, options: LogOptions, namespace: str, directory: Path | None
) -> CliError:
    """Build the error that says why there is nothing to print.

    Args:
        client: of the cluster.
        options: of the command.
        namespace: of the Framework.
        directory: of the local cluster, which keeps logs; None on another cluster.
    """
    role, index = options.split_task()
    try:
        framework = await client.get(FRAMEWORKS, namespace, options.name)
    except NotFoundError:
        listed = (await client.list(FRAMEWORKS, namespace))["items"]
        names = [str(item["metadata"]["name"]) for item in listed]
        where = f"in namespace {namespace}"
        return CliError(ExitCode.FAILED, explain_framework(options.name, where, names))
    known = {
        str(wanted.get("name")): range(int(wanted.get("taskNumber") or 0))
        for wanted in (framework.get("spec") or {}).get("taskRoles") or ()
    }
    absence = None if role is None else explain_task(options.name, role, index, known)
    reason = (
        "now: Pods of Tasks that are over are deleted, and their logs with them"
        if directory is None
        else "now, and none of its containers has started: "
        f"`kubectl get events -n {namespace}` shows why"
    )
    return CliError(
        ExitCode.FAILED,
        absence or f"{options.name} has no Pod {f'of {options.task} ' if role else ''}{reason}",
    )


async def _print_pod(
    client: KubeClient, pod: Object, options: LogOptions, printer: "_Printer"
) -> bool:
    """Print one Pod's log; return False if it could not be had."""
    metadata = pod["metadata"]
    title = _name_task(metadata.get("labels") or {})
    known = _list_containers(pod)
    container = options.container or str(pod["spec"]["containers"][0]["name"])
    if container not in known:
        print_error(f"error: {explain_container(title, container, known)}")
        return False
    query = {
        "container": container,
        "follow": "true" if options.follow else None,
        "previous": "true" if options.previous else None,
        "tailLines": options.tail_lines,
    }
    stated = {key: value for key, value in query.items() if value is not None}
    path = f"{PODS.path(metadata['namespace'], metadata['name'], 'log')}?{urlencode(stated)}"
    while True:
        try:
            await printer.print_chunks(title, client.stream_raw(path))
            return True
        except BadRequestError as e:
            if not (options.follow and "waiting to start" in e.message):
                printer.complain(title, e)
                return False
            await asyncio.sleep(_RETRY_SECONDS)
        except KubeError as e:
            printer.complain(title, e)
            return False


def _list_containers(pod: Object) -> list[str]:
    kinds = ("containers", "initContainers")
    return [str(each["name"]) for kind in kinds for each in pod["spec"].get(kind) or ()]


def _list_kept(directory: Path, namespace: str, labels: Mapping[str, str]) -> list[KeptLog]:
    return LogStore(directory / "logs", SystemClock()).list_kept(namespace, labels)


async def _print_kept(options: LogOptions, labels: dict[str, str], directory: Path) -> ExitCode:
    """Print the logs a local cluster left in files."""
    kept = _select_kept(options, labels, directory)
    store = LogStore(directory / "logs", SystemClock())
    printer = _Printer(has_prefix=len(kept) > 1, is_raw=options.raw)
    is_complete = True
    for log, title in zip(kept, _name_all(kept), strict=True):
        chunks = store.stream(
            log.namespace,
            log.pod,
            log.container,
            tail_lines=options.tail_lines,
            previous=options.previous,
            uid=log.uid,
        )
        try:
            await printer.print_chunks(title, chunks)
        except StatusError as e:
            print_error(f"error: {title}: {e}")
            is_complete = False
    return ExitCode.SUCCEEDED if is_complete else ExitCode.FAILED


def _select_kept(options: LogOptions, labels: Mapping[str, str], directory: Path) -> list[KeptLog]:
    """Find the kept logs that are meant.

    Raises:
        CliError: there are none; it says which part of what was asked for is not there.
    """
    namespace = options.namespace or "default"
    if not (directory / "logs").is_dir():
        problem = "has no logs" if directory.is_dir() else "does not exist"
        raise CliError(
            ExitCode.FAILED,
            f"--directory: {directory} {problem}: give the one that `run --local` named",
        )
    found = _list_kept(directory, namespace, labels)
    if not found:
        raise CliError(ExitCode.FAILED, _explain_not_kept(options, namespace, directory))
    if options.container is None:
        return [log for log in found if log.is_first] or found
    kept = [log for log in found if log.container == options.container]
    if not kept:
        containers = sorted({log.container for log in found})
        title = options.task or options.name
        raise CliError(ExitCode.FAILED, explain_container(title, options.container, containers))
    return kept


def _explain_not_kept(options: LogOptions, namespace: str, directory: Path) -> str:
    every = [log.labels for log in _list_kept(directory, namespace, {})]
    names = [each.get(constants.FRAMEWORK_NAME, "") for each in every]
    role, index = options.split_task()
    if options.name not in names or role is None:
        where = f"in {directory} (namespace {namespace})"
        return explain_framework(options.name, where, names)
    known: dict[str, list[int]] = {}
    for each in every:
        if each.get(constants.FRAMEWORK_NAME) == options.name:
            tasks = known.setdefault(each.get(constants.TASKROLE_NAME, ""), [])
            tasks.append(int(each.get(constants.TASK_INDEX, "0")))
    return explain_task(options.name, role, index, known) or f"no log of {options.task} is kept"


def _sort_key(pod: Object) -> tuple[str, int]:
    labels = pod["metadata"].get("labels") or {}
    index = str(labels.get(constants.TASK_INDEX, ""))
    return str(labels.get(constants.TASKROLE_NAME)), int(index) if index.isdecimal() else -1


def _name_task(labels: Mapping[str, str]) -> str:
    return f"{labels.get(constants.TASKROLE_NAME)}/{labels.get(constants.TASK_INDEX)}"


def _name_all(kept: Sequence[KeptLog]) -> list[str]:
    """Name logs so that each has its own name.

    A Task that was scaled away and came back, or whose Framework was replaced, begins again at
    attempt 0 with another Pod: the Pod's start tells them apart, and its UID if that does not.
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
    title = f"{_name_task(log.labels)} {log.container}"
    if with_framework_attempt:
        title += f" framework-attempt {log.annotations.get(constants.FRAMEWORK_ATTEMPT_ID, '?')}"
    attempt = log.annotations.get(constants.TASK_ATTEMPT_ID, "0")
    return f"{title} attempt {attempt}" if attempt != "0" else title


class _Printer:
    """Writes whole lines, so that Tasks that print at the same time do not mix theirs."""

    def __init__(self, *, has_prefix: bool, is_raw: bool) -> None:
        self._has_prefix = has_prefix
        self._is_raw = is_raw

    async def print_chunks(self, title: str, chunks: AsyncGenerator[bytes]) -> None:
        """Print a log as it comes, each line with the Task in front if there are several."""
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

    def complain(self, title: str, error: KubeError) -> None:
        """Say why a Task's log cannot be had."""
        message = error.message if isinstance(error, ApiError) else str(error)
        print_error(f"error: {title}: {message}")

    def _write(self, raw: bytes) -> None:
        sys.stdout.buffer.write(raw)
        sys.stdout.buffer.flush()
