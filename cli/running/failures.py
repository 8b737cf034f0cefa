"""Keeps the last log lines of Pods that failed: Kubernetes deletes the log with the Pod."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from urllib.parse import urlencode

from cli.loglines.containeroutput import split_output
from cli.loglines.query import KeptLogs, LogQuery, LogSource
from cli.texts.torchreport import REPORT_LINES, strip_report
from framework.api import constants
from framework.api.naming import TaskKey
from framework.kube.client import KubeClient
from framework.kube.errors import KubeError
from framework.kube.resources import PODS, Object

logger = logging.getLogger(__name__)

SHOWN_LINES = 15
"""Number of lines shown of the end of a log."""
_READ_LINES = SHOWN_LINES + REPORT_LINES
_TIMEOUT_SECONDS = 5.0
_FINISH_SECONDS = 10.0


class FailureLogs:
    """The last lines of each Task's last failed Pod."""

    def __init__(self, client: KubeClient, kept: KeptLogs | None = None) -> None:
        """Read logs from ``kept``, which holds them longer than Pods live, else from ``client``."""
        self._client = client
        self._kept = kept
        self._waiting: asyncio.Queue[Object] = asyncio.Queue()
        self._lines: dict[tuple[str, TaskKey], tuple[str, list[str]]] = {}

    def add(self, pod: Object) -> None:
        """Queue a failed Pod; ``run`` reads its log."""
        self._waiting.put_nowait(pod)

    def get(self, framework: str, key: TaskKey) -> tuple[str, Sequence[str]] | None:
        """Return the failed container and its last lines; None if they could not be read."""
        return self._lines.get((framework, key))

    async def run(self) -> None:
        """Read logs until cancelled."""
        while True:
            pod = await self._waiting.get()
            try:
                await self._keep(pod)
            finally:
                self._waiting.task_done()

    async def finish(self) -> None:
        """Wait until the logs of the Pods added so far are read; ``run`` must be running."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_FINISH_SECONDS):
                await self._waiting.join()

    async def _keep(self, pod: Object) -> None:
        container = find_failed_container(pod)
        key = _read_key(pod)
        if container is None or key is None:
            return
        try:
            lines = await self._read(pod, container)
        except KubeError as e:
            # The Pod was deleted before, or the user may not read logs.
            extra = {"pod": pod["metadata"]["name"], "error": str(e)}
            logger.debug("log of a failed Pod not read", extra=extra)
            return
        self._lines[key] = (container, lines)

    async def _read(self, pod: Object, container: str) -> list[str]:
        metadata = pod["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        if self._kept is not None:
            source = LogSource(namespace, name, container, metadata["uid"])
            pieces = self._kept.stream(source, LogQuery(tail_lines=_READ_LINES))
            return split_tail(b"".join([piece async for piece in pieces]))
        path = PODS.path(namespace, name, "log")
        query = urlencode({"container": container, "tailLines": _READ_LINES})
        raw = await self._client.get_raw(f"{path}?{query}", timeout_seconds=_TIMEOUT_SECONDS)
        return split_tail(raw)


def split_tail(raw: bytes) -> list[str]:
    """Split the end of an output into the lines to show, without a report of torchrun."""
    return strip_report(split_output(raw))[-SHOWN_LINES:]


def find_failed_container(pod: Object) -> str | None:
    """Find the container that failed last; None if none did."""
    status = pod.get("status") or {}
    failed: list[tuple[str, str]] = []
    for kind in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(kind) or ():
            ended = (container.get("state") or {}).get("terminated")
            if ended and ended.get("exitCode"):
                failed.append((str(ended.get("finishedAt") or ""), str(container.get("name"))))
    return max(failed)[1] if failed else None


def _read_key(pod: Object) -> tuple[str, TaskKey] | None:
    labels: Mapping[str, str] = pod["metadata"].get("labels") or {}
    role, index = labels.get(constants.TASKROLE_NAME), labels.get(constants.TASK_INDEX)
    if role is None or index is None or not index.isdecimal():
        return None
    return labels.get(constants.FRAMEWORK_NAME, ""), TaskKey(role, int(index))
