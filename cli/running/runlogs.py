"""Prints what the containers of a run print, while it runs: ``framework run --logs``.

1. ``see`` gets each Pod at each change. When its first container has started, its log is opened.
2. Each log is followed to its end; each of its lines is printed with the name of the Task.
3. ``finish`` waits for the lines of containers that have ended, for ``_FINISH_SECONDS`` at most.

At most ``_MAX_OPEN`` logs are open at a time, because each is a connection to the API server. The
logs of further Pods are not shown, and a line says so. On a cluster the log of a Pod is deleted
with the Pod, so the last lines of a container that ends at once may be lost; a local cluster keeps
them.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from urllib.parse import urlencode

from cli.logs.containeroutput import OutputLines
from cli.logs.output import name_task
from cli.running.display import Display
from cli.running.failures import KeptLogs
from framework.kube.client import KubeClient
from framework.kube.errors import KubeError
from framework.kube.resources import PODS, Object

_MAX_OPEN = 50
_FINISH_SECONDS = 2.0


class RunningLogs:
    """The logs of the Pods of a run."""

    def __init__(self, client: KubeClient, kept: KeptLogs | None, display: Display) -> None:
        """Read logs from ``kept``, which holds them longer than Pods live, else from ``client``."""
        self._client = client
        self._kept = kept
        self._display = display
        self._seen: set[str] = set()
        self._waiting: asyncio.Queue[Object] = asyncio.Queue()
        self._open: set[asyncio.Task[None]] = set()
        self._is_limit_reported = False

    def see(self, pod: Object) -> None:
        """Open the log of a Pod whose first container has started."""
        uid = str(pod["metadata"].get("uid"))
        if uid not in self._seen and _has_started(pod):
            self._seen.add(uid)
            self._waiting.put_nowait(pod)

    async def run(self) -> None:
        """Print until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                pod = await self._waiting.get()
                if len(self._open) < _MAX_OPEN:
                    self._start(tasks, pod)
                else:
                    self._report_limit()
                self._waiting.task_done()

    async def finish(self) -> None:
        """Wait until the logs of ended containers are printed; ``run`` must be running."""
        await self._waiting.join()
        if self._open:
            await asyncio.wait(self._open, timeout=_FINISH_SECONDS)

    def _start(self, tasks: asyncio.TaskGroup, pod: Object) -> None:
        task = tasks.create_task(self._print(pod), name=f"log-{pod['metadata']['name']}")
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    def _report_limit(self) -> None:
        if not self._is_limit_reported:
            self._is_limit_reported = True
            self._display.say(
                f"note: the output of {_MAX_OPEN} Pods is shown; `framework logs` prints the others"
            )

    async def _print(self, pod: Object) -> None:
        title = name_task(pod["metadata"].get("labels") or {})
        lines = OutputLines()
        try:
            async with aclosing(self._stream(pod)) as chunks:
                async for chunk in chunks:
                    self._show(title, lines.feed(chunk))
        except KubeError as e:
            self._display.say(f"note: {title} has no output to show: {e}")
        self._show(title, lines.finish())

    def _show(self, title: str, lines: list[str]) -> None:
        if lines:
            self._display.show_output(title, lines)

    def _stream(self, pod: Object) -> AsyncGenerator[bytes]:
        metadata = pod["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        container = str(pod["spec"]["containers"][0]["name"])
        if self._kept is not None:
            return self._kept.stream(namespace, name, container, follow=True, uid=metadata["uid"])
        query = urlencode({"container": container, "follow": "true"})
        return self._client.stream_raw(f"{PODS.path(namespace, name, 'log')}?{query}")


def _has_started(pod: Object) -> bool:
    first = pod["spec"]["containers"][0]["name"]
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        if status.get("name") == first:
            state = status.get("state") or {}
            return "running" in state or "terminated" in state
    return False
