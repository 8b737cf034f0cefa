"""Prints the output of the containers of Pods while they run: ``run --logs`` and ``logs -f``.

1. ``observe`` gets each Pod at each change. When a chosen container has started, its log is opened,
   and again after each restart.
2. Each log is followed to its end; each of its lines is printed with the name of the Task. A line
   says that the output of a further attempt of a Task begins.
3. ``finish`` waits for the lines of containers that have ended.

At most ``max_open`` logs are open at a time, because each is a connection to the API server. The
logs of further Pods are not shown, and a line says so. On a cluster the log of a Pod is deleted
with the Pod, so the last lines of a container that ends at once may be lost; a local cluster keeps
them.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import NamedTuple, Protocol

from cli.loglines.containeroutput import OutputLines
from cli.loglines.output import name_task
from cli.loglines.query import KeptLogs, LogQuery, LogSource, find_status
from framework.api import constants
from framework.kube.client import KubeClient
from framework.kube.errors import KubeError
from framework.kube.resources import Object

MAX_OPEN = 50
FINISH_SECONDS = 2.0
ALL_ENDED_SECONDS = 30.0
"""Limit after the end of all containers: their logs end too, but later on a busy machine."""


class OutputSink(Protocol):
    """Where lines are printed."""

    def show_output(self, title: str, lines: Sequence[str]) -> None:
        """Print lines that a container of a Task has printed."""
        ...

    def say(self, text: str) -> None:
        """Print a line between them."""
        ...

    def remark(self, text: str) -> None:
        """Print a note on standard error."""
        ...


class LineReader(Protocol):
    """Splits the output of a container into lines."""

    def feed(self, chunk: bytes) -> list[str]:
        """Add bytes of the output; return the lines that they complete."""
        ...

    def finish(self) -> list[str]:
        """Return the last line, if it has no end."""
        ...


class _Log(NamedTuple):
    """One run of a container."""

    pod: Object
    container: str
    title: str


def _name_task(pod: Object) -> str:
    return name_task(pod["metadata"].get("labels") or {})


class RunningLogs:
    """The logs of the Pods of a run."""

    def __init__(
        self,
        client: KubeClient,
        kept: KeptLogs | None,
        sink: OutputSink,
        *,
        query: LogQuery | None = None,
        max_open: int = MAX_OPEN,
        build_reader: Callable[[], LineReader] = OutputLines,
        name_pod: Callable[[Object], str] = _name_task,
    ) -> None:
        """Read logs from ``kept``, which holds them longer than Pods live, else from ``client``.

        Args:
            client: an open client.
            kept: the logs of a local cluster in this process.
            sink: prints the lines.
            query: which containers and lines; the first container and all lines if None.
            max_open: the most logs that are open at a time.
            build_reader: builds the splitter of a container's output into lines.
            name_pod: returns the name of a Pod in front of its lines.
        """
        self._client = client
        self._kept = kept
        self._sink = sink
        self._query = query or LogQuery()
        self._max_open = max_open
        self._build_reader = build_reader
        self._name_pod = name_pod
        self._seen: set[tuple[str, str, object]] = set()
        self._pods: dict[str, str] = {}
        self._waiting: asyncio.Queue[_Log] = asyncio.Queue()
        self._open: set[asyncio.Task[None]] = set()
        self._is_limit_reported = False
        self.has_faults = False
        """Whether a log could not be read to its end."""

    def observe(self, pod: Object) -> None:
        """Open the logs of the containers of a Pod that have started."""
        containers = self._query.choose_containers(pod)
        task = self._name_pod(pod)
        for container in containers:
            status = find_status(pod, container)
            run = (str(pod["metadata"].get("uid")), container, status.get("restartCount") or 0)
            if run not in self._seen and _has_started(status):
                self._seen.add(run)
                title = f"{task} {container}" if len(containers) > 1 else task
                self._waiting.put_nowait(_Log(pod, container, title))

    @property
    def is_idle(self) -> bool:
        """Return whether no log is open."""
        return not self._open and self._waiting.empty()

    async def run(self) -> None:
        """Print until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                log = await self._waiting.get()
                if len(self._open) < self._max_open:
                    self._start(tasks, log)
                else:
                    self._report_limit()
                self._waiting.task_done()

    async def finish(self, timeout_seconds: float | None = FINISH_SECONDS) -> None:
        """Wait until the logs of ended containers are printed; ``run`` must be running."""
        await self._waiting.join()
        if self._open:
            await asyncio.wait(self._open, timeout=timeout_seconds)

    def _start(self, tasks: asyncio.TaskGroup, log: _Log) -> None:
        self._announce_attempt(log.pod)
        task = tasks.create_task(self._print(log), name=f"log-{log.pod['metadata']['name']}")
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    def _announce_attempt(self, pod: Object) -> None:
        """Print that the output of another Pod of a Task begins."""
        metadata = pod["metadata"]
        task, uid = self._name_pod(pod), str(metadata.get("uid"))
        before = self._pods.get(task)
        self._pods[task] = uid
        if before is not None and before != uid:
            annotations = metadata.get("annotations") or {}
            attempt = annotations.get(constants.TASK_ATTEMPT_ID, "?")
            framework = annotations.get(constants.FRAMEWORK_ATTEMPT_ID, "0")
            of = f" of framework-attempt {framework}" if framework != "0" else ""
            self._sink.say(f"--- {task} attempt {attempt}{of} ---")

    def _report_limit(self) -> None:
        if not self._is_limit_reported:
            self._is_limit_reported = True
            self._sink.remark(
                f"note: the output of {self._max_open} Pods is shown; "
                "`framework logs` prints the others"
            )

    async def _print(self, log: _Log) -> None:
        reader = self._build_reader()
        try:
            async with aclosing(self._stream(log)) as chunks:
                async for chunk in chunks:
                    self._show(log.title, reader.feed(chunk))
        except KubeError as e:
            self.has_faults = True
            self._sink.remark(f"note: {log.title} has no output to show: {e}")
        self._show(log.title, reader.finish())

    def _show(self, title: str, lines: list[str]) -> None:
        if lines:
            self._sink.show_output(title, lines)

    def _stream(self, log: _Log) -> AsyncGenerator[bytes]:
        if self._kept is not None:
            metadata = log.pod["metadata"]
            namespace, name, uid = (metadata[key] for key in ("namespace", "name", "uid"))
            return self._kept.stream(LogSource(namespace, name, log.container, uid), follow=True)
        return self._client.stream_raw(self._query.build_path(log.pod, log.container, follow=True))


def _has_started(status: object) -> bool:
    state = status.get("state") if isinstance(status, dict) else None
    return isinstance(state, dict) and ("running" in state or "terminated" in state)
