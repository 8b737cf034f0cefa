"""``framework logs``: what the containers of a Framework's Tasks print.

Called by ``cli.main``. Reads through the API server; logs of Pods that are gone are to be had only
from a local cluster, which keeps them in files.
"""

import asyncio
import re
import sys
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import click

from cli.display import silence
from cli.exitcodes import CliError, ExitCode
from cli.session import explained, find_cluster, open_client
from framework.api import constants
from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.config import KubeConfig
from framework.kube.errors import ApiError, BadRequestError, KubeError, NotFoundError
from framework.kube.resources import FRAMEWORKS, PODS, Object

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

    def build_labels(self) -> dict[str, str]:
        """Build the labels of the Pods that are meant.

        Raises:
            CliError: the Task is not written as ROLE or ROLE/INDEX.
        """
        labels = {constants.FRAMEWORK_NAME: self.name}
        if self.task is None:
            return labels
        found = _TASK.match(self.task)
        if found is None:
            raise CliError(
                ExitCode.USAGE, f"{self.task!r} is no Task: write it as worker or worker/0"
            )
        labels[constants.TASKROLE_NAME] = found["role"]
        if found["index"] is not None:
            labels[constants.TASK_INDEX] = found["index"]
        return labels


def print_logs(options: LogOptions) -> ExitCode:
    """Run ``framework logs``."""
    labels = options.build_labels()
    if options.directory is not None:
        return _run(_print_kept(options, labels, Path(options.directory)))
    return _run(_print_live(options, labels, find_cluster(options.kubeconfig)))


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
            if directory is not None:
                return await _print_kept(options, labels, directory)
            if not pods:
                raise await _explain_missing(client, options.name, namespace)
            printer = _Printer(has_prefix=len(pods) > 1)
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

    state = read_state(find_state_directory(None))
    is_local = state is not None and state.server == config.server
    return Path(state.directory) if state is not None and is_local else None


async def _explain_missing(client: KubeClient, name: str, namespace: str) -> CliError:
    """Build the error that says why there is nothing to print."""
    try:
        await client.get(FRAMEWORKS, namespace, name)
    except NotFoundError:
        return CliError(
            ExitCode.FAILED,
            f"no Framework {name!r} in namespace {namespace}: check the name and -n",
        )
    return CliError(
        ExitCode.FAILED,
        f"no such Task of {name} has a Pod now: Pods of Tasks that are over are deleted, "
        "and their logs with them",
    )


async def _print_pod(
    client: KubeClient, pod: Object, options: LogOptions, printer: "_Printer"
) -> bool:
    """Print one Pod's log; return False if it could not be had."""
    metadata = pod["metadata"]
    container = options.container or str(pod["spec"]["containers"][0]["name"])
    query = {
        "container": container,
        "follow": "true" if options.follow else None,
        "previous": "true" if options.previous else None,
        "tailLines": options.tail_lines,
    }
    stated = {key: value for key, value in query.items() if value is not None}
    path = f"{PODS.path(metadata['namespace'], metadata['name'], 'log')}?{urlencode(stated)}"
    title = _name_task(metadata.get("labels") or {})
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


async def _print_kept(options: LogOptions, labels: dict[str, str], directory: Path) -> ExitCode:
    """Print the logs a local cluster left in files."""
    from localcluster.kubelet.logs import LogStore

    store = LogStore(directory / "logs", SystemClock())
    kept = store.list_kept(options.namespace or "default", labels)
    if options.container is not None:
        kept = [log for log in kept if log.container == options.container]
    if not kept:
        raise CliError(
            ExitCode.FAILED,
            f"no such log of {options.name} in {directory}: check the name, -n and --directory",
        )
    printer = _Printer(has_prefix=len(kept) > 1)
    for log in kept:
        attempt = log.annotations.get(constants.TASK_ATTEMPT_ID, "0")
        title = f"{_name_task(log.labels)} {log.container}"
        title = f"{title} attempt {attempt}" if attempt != "0" else title
        chunks = store.stream(
            log.namespace, log.pod, log.container, tail_lines=options.tail_lines, uid=log.uid
        )
        await printer.print_chunks(title, chunks)
    return ExitCode.SUCCEEDED


def _sort_key(pod: Object) -> tuple[str, int]:
    labels = pod["metadata"].get("labels") or {}
    index = str(labels.get(constants.TASK_INDEX, ""))
    return str(labels.get(constants.TASKROLE_NAME)), int(index) if index.isdecimal() else -1


def _name_task(labels: Mapping[str, str]) -> str:
    return f"{labels.get(constants.TASKROLE_NAME)}/{labels.get(constants.TASK_INDEX)}"


class _Printer:
    """Writes whole lines, so that Tasks that print at the same time do not mix theirs."""

    def __init__(self, *, has_prefix: bool) -> None:
        self._has_prefix = has_prefix

    async def print_chunks(self, title: str, chunks: AsyncGenerator[bytes]) -> None:
        """Print a log as it comes, each line with the Task in front if there are several."""
        prefix = f"[{title}] ".encode() if self._has_prefix else b""
        rest = b""
        async with aclosing(chunks):
            async for chunk in chunks:
                *lines, rest = (rest + chunk).split(b"\n")
                self._write(b"".join(prefix + line + b"\n" for line in lines))
        if rest:
            self._write(prefix + rest + b"\n")

    def complain(self, title: str, error: KubeError) -> None:
        """Say why a Task's log cannot be had."""
        message = error.message if isinstance(error, ApiError) else str(error)
        click.echo(f"error: {title}: {message}", err=True)

    def _write(self, raw: bytes) -> None:
        sys.stdout.buffer.write(raw)
        sys.stdout.buffer.flush()
