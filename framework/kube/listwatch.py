"""Keeps a sink equal to the objects of the API server: a list, then watches, for ever.

``run`` repeats these steps:

1. After a broken connection: list one object, to check that the server still knows the last
   version. If not, the storage was restored from a backup, so forget the version.
2. Without a version: list all objects, page by page, and replace the content of the sink.
3. Watch from the version. Pass each event to the sink; its version is that of the next watch.
4. After an error: wait (``Backoff``, ``Retry-After``). Forget the version after 410 and after other
   permanent errors, because events may be missing.

Invariants:

- The sink sees the events of a resource in the order of the server. After a broken connection an
  event may come twice, or be older than the known object; the sink must accept that.
- A list that is older than a seen version is used only if a second list confirms it: one server may
  lag behind the others.
- ``is_connected`` is true only after a list or a watch that succeeded.

Example: the list has version 100, and the watch delivers events up to 120. The connection breaks.
After the backoff, a list of one object has version 125, so the next watch starts at 120 and
delivers the events from 121.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from typing import NoReturn, Protocol

from framework.clock import Clock, Random
from framework.kube.backoff import Backoff
from framework.kube.client import PAGE_SIZE, KubeClient
from framework.kube.deferred import DeferredObject
from framework.kube.errors import ApiError, GoneError, KubeError, UnreachableError
from framework.kube.keptjson import UNBOUNDED, KeptJson
from framework.kube.resources import Object, Resource

logger = logging.getLogger(__name__)

# Requested duration of a watch.
WATCH_TIMEOUT_SECONDS = 10
# A watch without a byte for this time counts as broken.
READ_DEADLINE_SECONDS = 15.0
# A watch that ends sooner, without an event, is no success. This prevents a busy loop.
_SHORT_WATCH_SECONDS = 1.0
# Limit of a Retry-After.
_MAX_RETRY_AFTER_SECONDS = 60.0

_CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})


class Sink(Protocol):
    """Receives objects and changes of a ``ListWatch``, in the event loop, in order."""

    def replace(self, items: list[Object], resource_version: str) -> None:
        """Replace all objects; an object that is not in the list no longer exists.

        Items of built-in resources carry neither ``kind`` nor ``apiVersion``.
        """
        ...

    def apply(self, event_type: str, obj: Object) -> None:
        """Apply a change; the type is ADDED, MODIFIED or DELETED."""
        ...

    def bookmark(self, resource_version: str) -> None:
        """Record that all changes up to this version were delivered."""
        ...


class ListWatch:
    """Lists and watches a resource in one or all namespaces, with selectors.

    Attributes:
        synced: set after the sink has received its first list.
        is_connected: whether the last list or watch succeeded.
        last_error: the last error since then, None without one.
    """

    def __init__(  # noqa: PLR0913 all by keyword
        self,
        client: KubeClient,
        resource: Resource,
        sink: Sink,
        *,
        clock: Clock,
        random: Random,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        trim: Callable[[Object], Object] | None = None,
        on_connection: Callable[[bool], None] | None = None,
        is_deferred: bool = False,
        kept_json: KeptJson = UNBOUNDED,
    ) -> None:
        """Prepare; ``run`` does the work.

        Args:
            client: an open client.
            resource: the resource to watch.
            sink: receives the objects.
            clock: measures the duration of a watch.
            random: random numbers for the waits.
            namespace: None for all namespaces.
            label_selector: as in a list.
            field_selector: as in a list.
            trim: removes parts of each object of a list, one by one, so that memory never holds
                a page of complete objects. Objects of a watch are not trimmed. With
                ``is_deferred``, it gets a ``DeferredObject``.
            on_connection: called with each new value of ``is_connected``.
            is_deferred: whether the sink receives each object as a ``DeferredObject``, unless
                ``trim`` returns another object.
            kept_json: limits the JSON of deferred objects; beyond it, they keep only their
                identity.
        """
        self.synced = asyncio.Event()
        self.is_connected = False
        self.last_error: KubeError | None = None
        self._client = client
        self._resource = resource
        self._sink = sink
        self._clock = clock
        self._random = random
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._trim = trim
        self._is_deferred = is_deferred
        self._kept_json = kept_json
        self._on_connection = on_connection
        self._backoff = Backoff()
        self._hurry = asyncio.Event()
        # The version of the next watch; None: list first.
        self._version: str | None = None
        # The newest version seen, and whether a list contradicted it.
        self._seen_version: str | None = None
        self._is_contradicted = False
        self._is_watch_refused = False

    async def run(self) -> NoReturn:
        """List and watch until cancelled; after an error of the API, wait and continue."""
        while True:
            try:
                if self._version is not None and not self.is_connected:
                    await self._check_version(self._version)
                if self._version is None:
                    self._version = await self._list()
                await self._watch(self._version)
            except KubeError as e:
                await self._recover(e)

    def hurry(self) -> None:
        """End the backoff, because another request reached the server."""
        self._backoff.reset()
        self._hurry.set()

    async def _list(self) -> str:
        """List all objects for the sink; return the version of the list."""
        items: list[Object] = []
        version: str | None = None
        pages = self._list_pages(PAGE_SIZE)
        async with aclosing(pages):
            async for page, is_restart in pages:
                if is_restart:
                    items.clear()
                # All pages have the same version.
                version = _read_version(page)
                for item in page.pop("items"):
                    self._bound(item)
                    items.append(item)
        if version is None:
            raise self._build_broken("the list has no resourceVersion")
        if _is_older(version, self._seen_version):
            self._confirm_restore(version)
        self._sink.replace(items, version)
        self._seen_version = version
        self._is_contradicted = False
        self.synced.set()
        # After a refused watch, a list is no success: the next watch may be refused again.
        if not self._is_watch_refused:
            self._succeed()
        return version

    async def _watch(self, version: str) -> None:
        """Pass events to the sink until the server ends the watch."""
        started = self._clock.monotonic()
        has_event = False
        events = self._client.watch(
            self._resource,
            self._namespace,
            resource_version=version,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            timeout_seconds=WATCH_TIMEOUT_SECONDS,
            read_deadline_seconds=READ_DEADLINE_SECONDS,
            is_deferred=self._is_deferred,
        )
        async with aclosing(events):
            async for event_type, obj in events:
                self._pass_on(event_type, obj)
                if not has_event:
                    has_event = True
                    self._succeed()
                # Release the object before the wait for the next event: it may be large.
                del obj
        if has_event or self._clock.monotonic() - started >= _SHORT_WATCH_SECONDS:
            self._succeed()
        else:
            await self._wait(0.0)

    def _pass_on(self, event_type: str, obj: Object) -> None:
        """Pass an event to the sink; the next watch starts after it."""
        version = _read_version(obj)
        if version is None:
            raise self._build_broken("an event has no resourceVersion")
        if event_type in _CHANGES:
            self._bound(obj)
            self._sink.apply(event_type, obj)
        elif event_type == "BOOKMARK":
            self._sink.bookmark(version)
        else:
            logger.warning("unknown watch event", extra=self._describe(type=event_type))
        self._version = version
        if not _is_older(version, self._seen_version):
            self._seen_version = version

    def _bound(self, obj: Object) -> None:
        if isinstance(obj, DeferredObject):
            obj.keep_in(self._kept_json)

    def _confirm_restore(self, version: str) -> None:
        """Accept an older version when a second list confirms it: the storage was restored.

        A single list may come from a server that lags behind the others.
        """
        if not self._is_contradicted:
            self._is_contradicted = True
            raise self._build_broken(f"the list is of version {version}, newer ones were seen")
        logger.warning(
            "resourceVersion went back: the API server's storage was restored",
            extra=self._describe(before=self._seen_version, after=version),
        )

    async def _check_version(self, version: str) -> None:
        """Forget the version if the server has not reached it.

        A server whose storage was restored from a backup accepts a watch from a future version and
        sends no event until it reaches that version. A list of one object shows its version.
        """
        pages = self._list_pages(1)
        async with aclosing(pages):
            async for page, _ in pages:
                if _is_older(_read_version(page), version):
                    self._version = None
                    self._is_contradicted = True
                break
        self._set_connected(is_connected=True)

    async def _recover(self, error: KubeError) -> None:
        """Decide whether to keep the version, and wait."""
        is_first_gone = isinstance(error, GoneError) and self.last_error is None
        if isinstance(error, ApiError) and isinstance(self.last_error, UnreachableError):
            # The server answers again, so the backoff of the outage ends.
            self._backoff.reset()
        self._report(error)
        if isinstance(error, ApiError) and not error.is_transient:
            # Events may be missing after a time without the resource or the permission.
            self._is_watch_refused |= self._version is not None
            self._version = None
        if is_first_gone:
            return
        if not isinstance(error, GoneError):
            self._set_connected(is_connected=False)
        await self._wait(getattr(error, "retry_after_seconds", None) or 0.0)

    async def _wait(self, at_least_seconds: float) -> None:
        drawn = self._random.uniform(0.0, self._backoff.next_bound_seconds())
        least = min(at_least_seconds, _MAX_RETRY_AFTER_SECONDS)
        self._hurry.clear()
        await asyncio.sleep(least)
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, drawn - least)):
                await self._hurry.wait()

    def _succeed(self) -> None:
        self._is_watch_refused = False
        self._backoff.reset()
        self.last_error = None
        self._set_connected(is_connected=True)

    def _set_connected(self, *, is_connected: bool) -> None:
        if is_connected == self.is_connected:
            return
        self.is_connected = is_connected
        if is_connected:
            logger.info("connected", extra=self._describe())
        if self._on_connection is not None:
            self._on_connection(is_connected)

    def _report(self, error: KubeError) -> None:
        """Log the first error of a type as a warning, the following ones at debug level."""
        is_new = self.last_error is None or type(error) is not type(self.last_error)
        _drop_frames(error)
        self.last_error = error
        level = logging.WARNING if is_new and not isinstance(error, GoneError) else logging.DEBUG
        logger.log(level, "list or watch failed", extra=self._describe(error=str(error)))

    def _list_pages(self, limit: int) -> AsyncGenerator[tuple[Object, bool]]:
        return self._client.list_pages(
            self._resource,
            self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            limit=limit,
            trim=self._trim,
            is_deferred=self._is_deferred,
        )

    def _build_broken(self, problem: str) -> UnreachableError:
        return UnreachableError(problem, method="GET", path=self._resource.path(self._namespace))

    def _describe(self, **fields: object) -> dict[str, object]:
        return {
            "resource": self._resource.plural,
            "watched_namespace": self._namespace,
            "selector": self._label_selector,
            **fields,
        }


def _read_version(obj: Object) -> str | None:
    """Return the resourceVersion of an object or a list; None without one."""
    metadata = obj.get("metadata")
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    return version if isinstance(version, str) and version else None


def _is_older(version: str | None, than: str | None) -> bool:
    """Return whether a version is older; versions that are not numbers never are."""
    if version is None or than is None or not (version.isdecimal() and than.isdecimal()):
        return False
    return int(version) < int(than)


def _drop_frames(error: BaseException | None) -> None:
    """Remove the frames of an error and of its causes: they keep the answer that was not read."""
    while error is not None:
        cause = error.__cause__
        error.__traceback__ = error.__context__ = error.__cause__ = None
        error = cause
