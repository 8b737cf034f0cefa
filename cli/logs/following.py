"""``framework logs -f``: the output of Tasks as it comes, also that of their later attempts.

1. The Pods are watched; ``cli.running.runlogs`` follows the log of each container that starts.
2. It ends when no log is open, and the Framework is Completed or all chosen Tasks succeeded. A user
   who may not watch the Framework gets the output of the Pods that are there.
"""

import asyncio
from collections.abc import Sequence

from cli.exitcodes import CliError, ExitCode
from cli.loglines.output import LogOptions, LogPrinter
from cli.loglines.query import list_containers
from cli.running.objectcache import ObjectCache
from cli.running.outage import GIVE_UP_SECONDS, Outage
from cli.running.runlogs import FINISH_SECONDS, RunningLogs
from cli.texts.missing import explain_container
from cli.waiting import wait_any
from framework.api.codec import decode_status
from framework.api.fielderrors import FieldErrors
from framework.api.states import FrameworkState, TaskState
from framework.api.types import TaskStatus
from framework.clock import SystemClock, SystemRandom
from framework.kube.client import KubeClient
from framework.kube.errors import ApiError
from framework.kube.listwatch import ListWatch
from framework.kube.resources import FRAMEWORKS, PODS, Object

_TICK_SECONDS = 1.0


async def follow_tasks(
    client: KubeClient, pods: Sequence[Object], options: LogOptions, namespace: str
) -> ExitCode:
    """Print the output of the chosen Tasks until they are Completed.

    Args:
        client: an open client.
        pods: those of the Tasks that exist now.
        options: of the command.
        namespace: of the Framework.

    Raises:
        CliError: there are too many logs, no such container, or the API server is unreachable.
    """
    _check(pods, options)
    printer = LogPrinter(options, has_prefix=len(pods) > 1)
    logs = RunningLogs(
        client,
        None,
        printer,
        query=options.query,
        max_open=options.max_requests,
        build_reader=printer.build_reader,
        name_pod=options.name_pod,
    )
    for pod in pods:
        logs.observe(pod)
    watched = _Watched(client, options, namespace, logs)
    async with asyncio.TaskGroup() as tasks:
        eternal = [tasks.create_task(logs.run(), name="logs"), *watched.start(tasks)]
        await watched.wait_until_over()
        await logs.finish(FINISH_SECONDS)
        for task in eternal:
            task.cancel()
    if watched.outage.is_over_limit:
        raise CliError(
            ExitCode.UNREACHABLE,
            f"the API server is unreachable for {GIVE_UP_SECONDS:.0f} s: "
            f"{watched.outage.last_error}",
        )
    return ExitCode.FAILED if logs.has_faults else ExitCode.SUCCEEDED


def _check(pods: Sequence[Object], options: LogOptions) -> None:
    count = sum(len(options.query.choose_containers(pod)) for pod in pods)
    if count > options.max_requests:
        raise CliError(
            ExitCode.USAGE,
            f"--follow: {count} logs would be open at a time, and {options.max_requests} may be: "
            f"choose a role or a Task, or allow more with --max-log-requests {count}",
        )
    for pod in pods:
        known, task = list_containers(pod), options.name_pod(pod)
        for container in options.query.choose_containers(pod):
            if container not in known:
                raise CliError(ExitCode.FAILED, explain_container(task, container, known))


class _Watched:
    """The Framework and its Pods, as far as the user may watch them."""

    def __init__(
        self, client: KubeClient, options: LogOptions, namespace: str, logs: RunningLogs
    ) -> None:
        self.outage = Outage()
        self._options = options
        self._logs = logs
        self._clock = SystemClock()
        self._changed = asyncio.Event()
        self._frameworks = ObjectCache(self._changed.set)
        labels = options.build_pod_selector()
        fields = f"metadata.name={options.name}" if options.selector is None else None
        self._watches = [
            ListWatch(
                client,
                resource,
                cache,
                clock=self._clock,
                random=SystemRandom(),
                namespace=namespace,
                field_selector=by_field,
                label_selector=by_label,
            )
            for resource, cache, by_field, by_label in (
                (FRAMEWORKS, self._frameworks, fields, options.selector),
                (PODS, ObjectCache(self._changed.set, logs.observe), None, labels),
            )
        ]

    def start(self, tasks: asyncio.TaskGroup) -> "list[asyncio.Task[None]]":
        """Start to watch; the tasks run until they are cancelled."""
        return [tasks.create_task(watch.run(), name="watch") for watch in self._watches]

    async def wait_until_over(self) -> None:
        """Wait until no more output comes, or the API server is unreachable for too long."""
        while not self.outage.is_over_limit:
            self._changed.clear()
            if self._logs.is_idle and self._is_over():
                return
            await wait_any(self._changed, timeout_seconds=_TICK_SECONDS)
            unreachable = next(
                (str(w.last_error) for w in self._watches if _is_unreachable(w)), None
            )
            self.outage.observe(unreachable, self._clock.monotonic())

    def _is_over(self) -> bool:
        known = self._frameworks.objects
        if known is None:
            return isinstance(self._watches[0].last_error, ApiError)
        names = self._options.names or (self._options.name,)
        chosen = [framework for name in names if (framework := known.get(name)) is not None]
        return all(is_over(framework, *self._options.split_task()) for framework in chosen)


def _is_unreachable(watch: ListWatch) -> bool:
    """Return whether the server is unreachable; a server that refuses a watch is reachable."""
    error = watch.last_error
    return not watch.is_connected and error is not None and not isinstance(error, ApiError)


def is_over(framework: Object, role: str | None, index: str | None) -> bool:
    """Return whether the chosen Tasks of a Framework will print nothing more.

    Args:
        framework: as stored.
        role: of the Tasks; None for all.
        index: of the Task; None for all of the role.
    """
    try:
        status = decode_status(framework.get("status"))
    except FieldErrors:
        return True
    if status is None:
        return False
    if status.state is FrameworkState.COMPLETED:
        return True
    chosen = [
        task
        for each, task in status.attempt_status.walk_tasks()
        if role in {None, each.name} and index in {None, str(task.index)}
    ]
    return bool(chosen) and all(map(_has_succeeded, chosen))


def _has_succeeded(task: TaskStatus) -> bool:
    """Return whether a Task succeeded. A failed Task may run again, with its Framework."""
    completion = task.attempt_status.completion_status
    is_completed = task.state is TaskState.COMPLETED
    return is_completed and completion is not None and completion.type.is_succeeded
