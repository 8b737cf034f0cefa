"""Keeps a sink equal to what the API server has: a list, then a watch from there, for ever.

Called by the controller's informers, the local cluster's kubelet and ``framework run``. It holds
no objects; the sink does. The sink must bear to see an event twice, or one older than what it
has: after a broken connection the watch resumes at the last event that arrived whole.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from typing import NoReturn, Protocol

from framework.clock import Clock, Random
from framework.kube.backoff import Backoff
from framework.kube.client import PAGE_SIZE, KubeClient
from framework.kube.errors import ApiError, GoneError, KubeError, UnreachableError
from framework.kube.resources import Object, Resource

logger = logging.getLogger(__name__)

# The server ends each watch after this time.
WATCH_TIMEOUT_SECONDS = 10
# After so much silence the server counts as lost.
READ_DEADLINE_SECONDS = 15.0
# A watch that ends sooner and without an event is no success: again at once would be a busy loop.
_SHORT_WATCH_SECONDS = 1.0
# No server's word makes us stand still for longer.
_MAX_RETRY_AFTER_SECONDS = 60.0

_CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})


class Sink(Protocol):
    """Takes what a ``ListWatch`` sees. Its methods are called in the event loop, in order."""

    def replace(self, items: list[Object], resource_version: str) -> None:
        """Take the whole list; what is not in it no longer exists.

        Items of built-in resources carry neither ``kind`` nor ``apiVersion``.
        """
        ...

    def apply(self, event_type: str, obj: Object) -> None:
        """Take one change; the type is ADDED, MODIFIED or DELETED."""
        ...

    def bookmark(self, resource_version: str) -> None:
        """Learn that everything up to this version has been seen."""
        ...


class ListWatch:
    """Follows one resource in one namespace, or in all, through one selector.

    Attributes:
        synced: set once the sink has had its first list.
        is_connected: whether the last list or watch went well.
        last_error: what went wrong since then, None if nothing.
    """

    def __init__(  # noqa: PLR0913 what to follow: all by keyword
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
    ) -> None:
        """Prepare; ``run`` does the work.

        Args:
            client: an open client.
            resource: what to follow.
            sink: who takes it.
            clock: tells a short watch from a long one.
            random: draws the waits between tries.
            namespace: None for all namespaces.
            label_selector: as in a list.
            field_selector: as in a list.
            trim: cuts down each object of a list before it is kept, page by page, so that a large
                list never stands whole in memory. The objects of a watch come one at a time, and
                are passed on whole.
            on_connection: told each change of ``is_connected``.
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
        self._on_connection = on_connection
        self._backoff = Backoff()
        self._hurry = asyncio.Event()
        # Where the next watch begins; None: list first.
        self._version: str | None = None
        # The newest version the server ever showed, and whether a list contradicted it.
        self._seen_version: str | None = None
        self._is_contradicted = False
        self._is_watch_refused = False

    async def run(self) -> NoReturn:
        """List and watch until cancelled; errors of the API are waited out."""
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
        """Try again now: another request has just found the server."""
        self._backoff.reset()
        self._hurry.set()

    async def _list(self) -> str:
        """Give the sink a whole list and return its version."""
        items: list[Object] = []
        version: str | None = None
        pages = self._list_pages(PAGE_SIZE)
        async with aclosing(pages):
            async for page, is_restart in pages:
                if is_restart:
                    items.clear()
                # All pages carry the version of the first; that of the last is as good.
                version = _read_version(page)
                # Taken out, so that no whole objects are kept while the next page is read.
                listed = page.pop("items")
                items.extend(map(self._trim, listed) if self._trim else listed)
                del listed
        if version is None:
            raise self._build_broken("the list has no resourceVersion")
        if _is_older(version, self._seen_version):
            self._confirm_restore(version)
        self._sink.replace(items, version)
        self._seen_version = version
        self._is_contradicted = False
        self.synced.set()
        # After a refused watch a list alone proves nothing: the next watch may be refused again.
        if not self._is_watch_refused:
            self._succeed()
        return version

    async def _watch(self, version: str) -> None:
        """Pass events on until the server ends the watch."""
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
        )
        async with aclosing(events):
            async for event_type, obj in events:
                self._pass_on(event_type, obj)
                if not has_event:
                    has_event = True
                    self._succeed()
        if has_event or self._clock.monotonic() - started >= _SHORT_WATCH_SECONDS:
            self._succeed()
        else:
            await self._wait(0.0)

    def _pass_on(self, event_type: str, obj: Object) -> None:
        """Give one event to the sink; from then on a new watch begins after it."""
        version = _read_version(obj)
        if version is None:
            raise self._build_broken("an event has no resourceVersion")
        if event_type in _CHANGES:
            self._sink.apply(event_type, obj)
        elif event_type == "BOOKMARK":
            self._sink.bookmark(version)
        else:
            logger.warning("unknown watch event", extra=self._describe(type=event_type))
        self._version = version
        if not _is_older(version, self._seen_version):
            self._seen_version = version

    def _confirm_restore(self, version: str) -> None:
        """Believe in a restored storage when a second list says the same as the first.

        One alone may come from a server that is behind the others.
        """
        if not self._is_contradicted:
            self._is_contradicted = True
            raise self._build_broken(f"the list is of version {version}, newer ones were seen")
        logger.warning(
            "resourceVersion went back: the API server's storage was restored",
            extra=self._describe(before=self._seen_version, after=version),
        )

    async def _check_version(self, version: str) -> None:
        """After a broken connection, make sure that the server still knows our version.

        A server whose storage was restored from a backup accepts a version of its future and
        then says nothing until it gets there. One object's list tells.
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
        """Decide from what to go on, and wait before it."""
        is_first_gone = isinstance(error, GoneError) and self.last_error is None
        if isinstance(error, ApiError) and isinstance(self.last_error, UnreachableError):
            # The server is back, though not all of it: no time for what an outage taught.
            self._backoff.reset()
        self._report(error)
        if isinstance(error, ApiError) and not error.is_transient:
            # Versions of a resource that was away, or hidden from us, may have a gap.
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
        """Log the first of a row of errors loudly, the others softly."""
        is_new = self.last_error is None or type(error) is not type(self.last_error)
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
    """Return an object's or a list's resourceVersion, None if it carries none."""
    metadata = obj.get("metadata")
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    return version if isinstance(version, str) and version else None


def _is_older(version: str | None, than: str | None) -> bool:
    """Compare versions of one resource; those that are no numbers compare as equal."""
    if version is None or than is None or not (version.isdecimal() and than.isdecimal()):
        return False
    return int(version) < int(than)
