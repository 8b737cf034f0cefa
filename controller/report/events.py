"""Records core/v1 Events about Frameworks: best effort, without delay for decisions.

``emit`` only queues; ``run`` writes. Events of the same object, reason and message are one Event
object with a count. Its name is derived from them, so the count continues after a restart of the
controller.

Events wait in one queue per namespace. The namespaces take turns, each has at most one write in
flight, and they share the room of the queue. So the Events of one namespace neither displace nor
delay those of another.
"""

import asyncio
import hashlib
import logging
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime

from controller.core.decision import EventType
from controller.queues.workqueue import WorkQueue
from controller.runtime import Runtime
from framework.api.wire import format_time
from framework.kube.errors import AlreadyExistsError, KubeError, NotFoundError
from framework.kube.resources import EVENTS, Object

logger = logging.getLogger(__name__)

# Most Events that wait, shared evenly by the namespaces with waiting Events; at least a few each.
_QUEUE_LIMIT = 1000
_LEAST_QUEUE_LIMIT = 10
_WRITERS = 4
_REMEMBERED = 4096
# The server refuses an Event with a longer message.
_MESSAGE_LIMIT = 1024
_NAME_LIMIT = 253
_TIMEOUT_SECONDS = 10.0


@dataclass(slots=True)
class _Occurrence:
    """One Event object to be written, with its count since the last write."""

    name: str
    """Name of the Event object, derived from its object, reason and message."""
    namespace: str
    """Namespace of the Event object."""
    involved: Object
    """Reference to the object that it is about."""
    type: EventType
    """Normal or Warning."""
    reason: str
    """One CamelCase word."""
    message: str
    """The reason as a sentence."""
    first_at: datetime
    """Time of the first occurrence since the last write."""
    last_at: datetime
    """Time of the last occurrence."""
    count: int = field(default=1)
    """Number of occurrences since the last write."""


class EventRecorder:
    """Writes Events. ``run`` must be running for anything to be written."""

    def __init__(self, runtime: Runtime, component: str) -> None:
        """Write as the source ``component``, while the write gate is open."""
        self._client = runtime.client
        self._clock = runtime.clock
        self._component = component
        self._metrics = runtime.metrics
        self._write_gate = runtime.write_gate
        # By namespace, then by name: an Event that repeats before its write has one write.
        self._waiting: dict[str, OrderedDict[str, _Occurrence]] = {}
        # The turns of the namespaces with waiting Events. Its keys are namespaces.
        self._turns = WorkQueue()
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._counts: OrderedDict[str, int] = OrderedDict()

    def emit(self, involved: Object, event_type: EventType, reason: str, message: str) -> None:
        """Queue an Event and return at once; if too many wait, it is dropped.

        Args:
            involved: reference {apiVersion, kind, name, namespace, uid} to its object.
            event_type: Normal or Warning.
            reason: one CamelCase word.
            message: the reason as a sentence.
        """
        message = message if len(message) <= _MESSAGE_LIMIT else message[: _MESSAGE_LIMIT - 1] + "…"
        name = _build_name(involved, reason, message)
        namespace = str(involved.get("namespace") or "default")
        now = self._clock.now()
        waiting = self._waiting.setdefault(namespace, OrderedDict())
        known = waiting.get(name)
        if known is not None:
            known.count += 1
            known.last_at = now
            return
        if len(waiting) >= max(_LEAST_QUEUE_LIMIT, _QUEUE_LIMIT // len(self._waiting)):
            logger.debug("event dropped", extra={"event": name, "reason": reason})
            self._metrics.count_dropped_event()
            return
        waiting[name] = _Occurrence(
            name, namespace, involved, event_type, reason, message, now, now
        )
        self._is_idle.clear()
        self._turns.add(namespace)

    async def run(self) -> None:
        """Write the queued Events, for ever."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(_WRITERS):
                tasks.create_task(self._write_turns(), name=f"events-{number}")

    async def _write_turns(self) -> None:
        while True:
            namespace = await self._turns.get()
            waiting = self._waiting[namespace]
            _, occurrence = waiting.popitem(last=False)
            try:
                await self._record(occurrence)
            finally:
                self._turns.done(namespace)
                if waiting:
                    self._turns.add(namespace)
                else:
                    del self._waiting[namespace]
                if not self._waiting:
                    self._is_idle.set()

    async def flush(self) -> None:
        """Wait until nothing is queued; for the end of a program and for tests."""
        await self._is_idle.wait()

    async def _record(self, occurrence: _Occurrence) -> None:
        if not self._write_gate.may_write():
            return
        try:
            await self._write(occurrence)
        except KubeError as e:
            # Events are best effort; the status carries the same facts.
            logger.debug("event not recorded", extra={"event": occurrence.name, "error": str(e)})

    async def _write(self, occurrence: _Occurrence) -> None:
        known = self._counts.get(occurrence.name)
        if known is None:
            known = await self._create(occurrence)
        if known is not None and not await self._add(occurrence, known):
            # The server forgets Events after an hour.
            self._counts.pop(occurrence.name, None)
            await self._create(occurrence)

    async def _create(self, occurrence: _Occurrence) -> int | None:
        """Create the Event; return its count if it exists from an earlier run."""
        body = _build_event(occurrence, self._component)
        try:
            await self._client.create(
                EVENTS, occurrence.namespace, body, timeout_seconds=_TIMEOUT_SECONDS
            )
        except AlreadyExistsError:
            # The answer to a patch contains the count; a GET would need another right.
            stored = await self._client.patch(
                EVENTS,
                occurrence.namespace,
                occurrence.name,
                {"lastTimestamp": format_time(occurrence.last_at)},
                timeout_seconds=_TIMEOUT_SECONDS,
            )
            count = stored.get("count")
            return count if isinstance(count, int) else 1
        self._remember(occurrence.name, occurrence.count)
        return None

    async def _add(self, occurrence: _Occurrence, known: int) -> bool:
        """Raise the count of the Event; return False if it is gone."""
        count = known + occurrence.count
        body = {"count": count, "lastTimestamp": format_time(occurrence.last_at)}
        try:
            await self._client.patch(
                EVENTS,
                occurrence.namespace,
                occurrence.name,
                body,
                timeout_seconds=_TIMEOUT_SECONDS,
            )
        except NotFoundError:
            return False
        self._remember(occurrence.name, count)
        return True

    def _remember(self, name: str, count: int) -> None:
        self._counts[name] = count
        self._counts.move_to_end(name)
        while len(self._counts) > _REMEMBERED:
            self._counts.popitem(last=False)


def _build_name(involved: Object, reason: str, message: str) -> str:
    identity = "\0".join((str(involved.get("uid") or ""), reason, message))
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return f"{str(involved.get('name') or 'unknown')[: _NAME_LIMIT - 17]}.{digest}"


def _build_event(occurrence: _Occurrence, component: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": occurrence.name, "namespace": occurrence.namespace},
        "involvedObject": occurrence.involved,
        "type": occurrence.type.value,
        "reason": occurrence.reason,
        "message": occurrence.message,
        "source": {"component": component},
        "reportingComponent": component,
        "firstTimestamp": format_time(occurrence.first_at),
        "lastTimestamp": format_time(occurrence.last_at),
        "count": occurrence.count,
    }
