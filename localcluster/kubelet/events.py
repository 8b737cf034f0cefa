"""Writes Events about the kubelet's work on a Pod.

Best effort: an Event that cannot be written is dropped, and no container waits for one.
"""

import asyncio
import logging
from enum import StrEnum
from typing import NoReturn

from framework.api.wire import format_time
from framework.clock import Clock
from framework.kube.client import KubeClient
from framework.kube.errors import KubeError
from framework.kube.resources import EVENTS, Object

logger = logging.getLogger(__name__)

_QUEUE_LIMIT = 1000
_MESSAGE_LIMIT = 1024


class EventReason(StrEnum):
    """Reasons, as the scheduler and the kubelet spell them."""

    SCHEDULED = "Scheduled"
    FAILED_SCHEDULING = "FailedScheduling"
    STARTED = "Started"
    KILLING = "Killing"
    BACK_OFF = "BackOff"
    FAILED = "Failed"
    FAILED_MOUNT = "FailedMount"
    FAILED_POST_START_HOOK = "FailedPostStartHook"
    FAILED_PRE_STOP_HOOK = "FailedPreStopHook"
    UNHEALTHY = "Unhealthy"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    PATHS_REPLACED = "PathsReplaced"
    SECURITY_CONTEXT_IGNORED = "SecurityContextIgnored"


_WARNINGS = frozenset(EventReason) - {
    EventReason.SCHEDULED,
    EventReason.STARTED,
    EventReason.KILLING,
}


class EventRecorder:
    """Writes Events one after another, in the background."""

    def __init__(self, client: KubeClient, clock: Clock, node_name: str) -> None:
        """Record for this node."""
        self._client = client
        self._clock = clock
        self._node_name = node_name
        self._queue: asyncio.Queue[Object] = asyncio.Queue(_QUEUE_LIMIT)
        self._count = 0

    def record(self, pod: Object, reason: EventReason, message: str, field_path: str = "") -> None:
        """Queue an Event about a Pod, or about the container at a path in it."""
        event = self._build(pod, reason, message, field_path)
        try:
            self._queue.put_nowait(event)
        except asyncio.QueueFull:
            logger.debug("event dropped", extra={"reason": reason})

    async def run(self) -> NoReturn:
        """Write the queued Events until cancelled."""
        while True:
            event = await self._queue.get()
            try:
                await self._client.create(EVENTS, event["metadata"]["namespace"], event)
            except KubeError as e:
                logger.debug("event not written", extra={"error": str(e)})

    def _build(self, pod: Object, reason: EventReason, message: str, field_path: str) -> Object:
        metadata = pod["metadata"]
        now = self._clock.now()
        self._count += 1
        involved = {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
            "resourceVersion": metadata.get("resourceVersion", ""),
        }
        if field_path:
            involved["fieldPath"] = field_path
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                # Cut to the length limit of names.
                "name": f"{metadata['name'][:200]}.{int(now.timestamp() * 1e6):x}{self._count:x}",
                "namespace": metadata["namespace"],
            },
            "involvedObject": involved,
            "reason": reason.value,
            "message": message[:_MESSAGE_LIMIT],
            "type": "Warning" if reason in _WARNINGS else "Normal",
            "source": {"component": "kubelet", "host": self._node_name},
            "reportingComponent": "kubelet",
            "reportingInstance": self._node_name,
            "firstTimestamp": format_time(now),
            "lastTimestamp": format_time(now),
            "count": 1,
        }
