"""The client of an API server: a method per verb, with raw dicts.

It sends each request once and does not retry, because only the caller knows whether a retry is
correct. The exception is a 401: if the token file has a new token, the request is sent again.
``listwatch`` watches a resource for ever.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from enum import StrEnum
from types import TracebackType
from typing import Self, TypeAlias

import aiohttp
import msgspec

from framework.clock import Clock
from framework.kube.config import KubeConfig
from framework.kube.deferred import decode_deferred_event, defer_item
from framework.kube.errors import (
    AnswerTooLargeError,
    GoneError,
    UnreachableError,
    build_event_error,
)
from framework.kube.pagejson import build_item_reader, decode_page
from framework.kube.pages import PAGES_AT_ONCE, PageCursor
from framework.kube.requests import (
    Query,
    append_query,
    build_page_request,
    build_raw_request,
    build_timeout,
)
from framework.kube.resources import METADATA, Object, Resource
from framework.kube.stream import BrokenStreamError, LineSplitter, decode_event, decode_object
from framework.kube.throttle import Throttle, TokenBucket
from framework.kube.transport import JSON, Request, Transport

# Maximum of objects on a page of a list: a few hundred Pods are about a megabyte.
PAGE_SIZE = 500
DEFAULT_TIMEOUT_SECONDS = 30.0

WatchEvent: TypeAlias = tuple[str, Object]

_ERROR_EVENT = "ERROR"
_encode = msgspec.json.Encoder().encode


class PatchContent(StrEnum):
    """The forms of a patch in use, by their content type."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"


class KubeClient:
    """The client. Use it in ``async with``.

    Every method raises ``ApiError`` if the server answers with an error, and ``UnreachableError``
    if there is no answer within ``timeout_seconds``; the server may then have executed a write.
    """

    def __init__(
        self,
        config: KubeConfig,
        *,
        user_agent: str,
        clock: Clock,
        qps: float | None = None,
        burst: int = 0,
        accept: str = JSON,
    ) -> None:
        """Prepare; nothing is opened yet.

        Args:
            config: where the server is.
            user_agent: program and version, for the server's audit log.
            clock: for the rate and for a token's expiry.
            qps: requests a second, None for no limit. The wait for it does not count as time of
                the request; namespaces take turns.
            burst: number of requests that are sent without a pause before ``qps`` applies.
            accept: the form of objects, lists and events; ``TABLE`` for those that kubectl prints.
        """
        self._transport = Transport(config, user_agent=user_agent, clock=clock, accept=accept)
        self._throttle = None if qps is None else Throttle(TokenBucket(qps, burst, clock))
        self._page_turns = asyncio.Semaphore(PAGES_AT_ONCE)

    async def __aenter__(self) -> Self:
        """Open the connection pool.

        Raises:
            ConfigError: a certificate or key cannot be used.
        """
        self._transport.open()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the connection pool."""
        await self._transport.close()

    async def get(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> Object:
        """Return an object as stored in etcd."""
        path = resource.path(namespace, name)
        return await self._exchange("GET", path, timeout_seconds, namespace=namespace)

    async def get_metadata(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> Object:
        """Return only the metadata of an object. The server sends no value of a Secret."""
        path = resource.path(namespace, name)
        request = Request("GET", path, build_timeout(timeout_seconds), None, {"Accept": METADATA})
        return _decode(await self._fetch(request, namespace), "GET", path)

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int | None = None,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> Object:
        """Return the complete list, read in pages of ``limit``.

        Returns:
            The List object of the first page, with the items of all of them.
        """
        pages = self.list_pages(
            resource,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            limit=limit,
            timeout_seconds=timeout_seconds,
        )
        whole: Object = {}
        async with aclosing(pages):
            async for page, is_restart in pages:
                if is_restart:
                    whole = page
                else:
                    whole["items"].extend(page["items"])
        for key in ("continue", "remainingItemCount"):
            whole["metadata"].pop(key, None)
        return whole

    async def list_pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int | None = None,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        trim: Callable[[Object], Object] | None = None,
        is_deferred: bool = False,
    ) -> AsyncGenerator[tuple[Object, bool]]:
        """Yield each page of a list, and whether the earlier pages are invalid.

        No page takes more than ``MAX_PAGE_BYTES``: see ``pages``. When the server has forgotten the
        list between two pages (410), the other pages are lost; the list begins again, in one page
        if it fits, so that this rarely happens twice.

        At most ``PAGES_AT_ONCE`` pages of all lists of a client are read at the same time, and of
        them one object at a time is decoded.

        Args:
            resource: which resource.
            namespace: None for all.
            label_selector: of the API server.
            field_selector: of the API server.
            limit: maximum of objects on a page; None for one page, if it fits.
            timeout_seconds: of each page.
            trim: reduces each object before it is added to the page.
            is_deferred: whether each object, also for ``trim``, is a ``DeferredObject``.

        Raises:
            GoneError: the server has forgotten the list twice.
            AnswerTooLargeError: a single object is beyond ``MAX_PAGE_BYTES``.
        """
        path = resource.path(namespace)
        selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        read_item = build_item_reader(trim, defer_item if is_deferred else decode_object)
        cursor = PageCursor(limit)
        has_more = True
        while has_more:
            query = {**selectors, **cursor.build_query()}
            request = build_page_request(path, query, timeout_seconds)
            page = await self._read_page(request, cursor, read_item)
            if page is None:
                continue
            is_restart = cursor.is_at_start
            has_more = cursor.advance(page["metadata"].get("continue"))
            yield page, is_restart
            # Release the page before the next one is read.
            del page

    async def _read_page(
        self, request: Request, cursor: PageCursor, read_item: Callable[[bytes], Object]
    ) -> Object | None:
        """Read a page; None if ``cursor`` was moved or shrunk, and its new page must be read."""
        try:
            async with self._page_turns:
                raw = await self._fetch(request)
                page = await decode_page(raw, read_item)
        except BrokenStreamError as e:
            raise UnreachableError(str(e), method="GET", path=request.bare_path) from e
        except GoneError:
            if not cursor.restart():
                raise
            return None
        except AnswerTooLargeError:
            if not cursor.limit.shrink():
                raise
            return None
        cursor.limit.record_page(len(page["items"]), len(raw))
        return page

    async def create(
        self,
        resource: Resource,
        namespace: str | None,
        body: Object,
        *,
        dry_run: bool = False,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> Object:
        """Create an object and return it as stored; in a dry run, as it would be."""
        path = resource.path(namespace)
        query: Query | None = {"dryRun": "All"} if dry_run else None
        # As Python objects, the body may take 40 times the memory: drop it before the wait.
        encoded = msgspec.Raw(_encode(body))
        del body
        return await self._exchange(
            "POST", path, timeout_seconds, namespace=namespace, query=query, body=encoded
        )

    async def replace(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Object,
        *,
        subresource: str | None = None,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> Object:
        """Replace an object, or its subresource, and return it as stored."""
        path = resource.path(namespace, name, subresource)
        return await self._exchange("PUT", path, timeout_seconds, namespace=namespace, body=body)

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Object | Sequence[Object],
        *,
        content: PatchContent = PatchContent.MERGE,
        subresource: str | None = None,
        dry_run: bool = False,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> Object:
        """Patch an object, or its subresource, and return it as stored.

        Args:
            resource: which resource.
            namespace: of the object.
            name: of the object.
            body: the patch; a list for ``PatchContent.JSON``.
            content: the form of the patch.
            subresource: for example ``status``.
            dry_run: only check the patch, and return the object as it would be stored.
            timeout_seconds: when to give up.
        """
        path = resource.path(namespace, name, subresource)
        query: Query | None = {"dryRun": "All"} if dry_run else None
        return await self._exchange(
            "PATCH",
            path,
            timeout_seconds,
            namespace=namespace,
            query=query,
            body=body,
            content_type=content.value,
        )

    async def delete(  # noqa: PLR0913 the options of a delete, each by keyword
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
        propagation: str | None = None,
        dry_run: bool = False,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> Object | None:
        """Delete an object.

        Args:
            resource: which resource.
            namespace: of the object.
            name: of the object.
            uid: delete only the object with this UID, else ``ConflictError``.
            resource_version: delete only this version of the object, else ``ConflictError``.
            grace_seconds: None for the object's own grace period.
            propagation: ``Foreground``, ``Background`` or ``Orphan``.
            dry_run: only check that the server would delete it.
            timeout_seconds: when to give up.

        Returns:
            The object at its deletion; None if the server does not return it. A Pod, or an object
            with finalizers, may continue to exist.
        """
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        if any(preconditions.values()):
            options["preconditions"] = {k: v for k, v in preconditions.items() if v is not None}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if propagation is not None:
            options["propagationPolicy"] = propagation
        if dry_run:
            options["dryRun"] = ["All"]
        path = resource.path(namespace, name)
        answer = await self._exchange(
            "DELETE", path, timeout_seconds, namespace=namespace, body=options
        )
        return None if answer.get("kind") == "Status" else answer

    async def get_raw(
        self, path: str, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    ) -> bytes:
        """Return the answer to a GET of a path with query, for example ``/readyz``."""
        return await self._fetch(build_raw_request(path, build_timeout(timeout_seconds)))

    async def stream_raw(
        self,
        path: str,
        *,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        read_deadline_seconds: float | None = None,
    ) -> AsyncGenerator[bytes]:
        """Yield the bytes of an answer as they come, for example a log that is followed.

        Args:
            path: path with query.
            timeout_seconds: limit of the wait for the connection.
            read_deadline_seconds: limit of the wait for the next byte; None for no limit, because
                a container may print nothing for a long time.
        """
        await self._wait_for_rate()
        timeout = aiohttp.ClientTimeout(
            sock_connect=timeout_seconds, sock_read=read_deadline_seconds
        )
        chunks = self._transport.read_chunks(build_raw_request(path, timeout))
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk

    async def watch(  # noqa: PLR0913 all by keyword
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        timeout_seconds: int = 10,
        read_deadline_seconds: float = 15.0,
        bookmarks: bool = True,
        is_deferred: bool = False,
    ) -> AsyncGenerator[WatchEvent]:
        """Yield (type, object) of each change after ``resource_version``.

        It ends when the server ends it, which is normal. Leave it early only through
        ``contextlib.aclosing``, or the connection stays open until the garbage collector runs.

        Args:
            resource: which resource.
            namespace: None for all.
            resource_version: where to begin; None or "0" begins with the existing objects.
            label_selector: as in a list.
            field_selector: as in a list.
            timeout_seconds: when the server is to end the watch.
            read_deadline_seconds: after this time without a byte, the server counts as lost.
            bookmarks: whether events of type BOOKMARK are wanted.
            is_deferred: whether the object of a change is a ``DeferredObject``.

        Raises:
            GoneError: the resourceVersion is too old: list again.
            ApiError: any other error that the server reports in the stream.
            UnreachableError: no byte in time, a reset, or an incomplete or unreadable event.
        """
        query: Query = {
            "watch": "true",
            "resourceVersion": resource_version,
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "timeoutSeconds": timeout_seconds,
            "allowWatchBookmarks": "true" if bookmarks else None,
        }
        timeout = aiohttp.ClientTimeout(
            sock_connect=read_deadline_seconds, sock_read=read_deadline_seconds
        )
        path = resource.path(namespace)
        await self._wait_for_rate()
        chunks = self._transport.read_chunks(Request("GET", append_query(path, query), timeout))
        splitter = LineSplitter()
        decode = decode_deferred_event if is_deferred else decode_event
        try:
            async with aclosing(chunks):
                async for chunk in chunks:
                    for line in splitter.feed(chunk):
                        event = decode(line)
                        if event[0] == _ERROR_EVENT:
                            raise build_event_error(event[1], method="WATCH", path=path)
                        yield event
                        # Release the event before the wait for the next one: it may be large.
                        del event, line
        except BrokenStreamError as e:
            raise UnreachableError(str(e), method="WATCH", path=path) from e
        if splitter.has_rest:
            raise UnreachableError("an event was cut off", method="WATCH", path=path)

    async def _exchange(
        self,
        method: str,
        path: str,
        timeout_seconds: float,
        *,
        namespace: str | None = None,
        query: Query | None = None,
        body: object = None,
        content_type: str = "application/json",
    ) -> Object:
        """Send a request in the turn of ``namespace`` and decode its answer."""
        request = Request(
            method,
            append_query(path, query or {}),
            build_timeout(timeout_seconds),
            None if body is None else _encode(body),
            {} if body is None else {"Content-Type": content_type},
        )
        return _decode(await self._fetch(request, namespace), method, path)

    async def _fetch(self, request: Request, namespace: str | None = None) -> bytes:
        """Wait for the request rate, send a request and return its answer."""
        await self._wait_for_rate(namespace)
        return await self._transport.send(request)

    async def _wait_for_rate(self, namespace: str | None = None) -> None:
        """Wait for the request rate. Lists and watches count as requests without a namespace."""
        if self._throttle is not None:
            await self._throttle.wait(namespace or "")


def _decode(raw: bytes, method: str, path: str) -> Object:
    try:
        return decode_object(raw)
    except BrokenStreamError as e:
        raise UnreachableError(str(e), method=method, path=path) from e
