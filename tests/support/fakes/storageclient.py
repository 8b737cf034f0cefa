"""A KubeClient without sockets: every request goes straight to the storage engine.

Called by the simulator and by tests of the controller's shell. A request takes the time and the
fate its ``Network`` draws: it may be lost before it is applied, its answer may be lost, the server
may refuse it. Without a Network everything is answered at once.
"""

# ruff: noqa: ARG002
import asyncio
import random
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec
import yaml

from framework.clock import Clock, SequentialUids
from framework.kube.client import KubeClient, PatchContent, WatchEvent
from framework.kube.deferred import defer_object
from framework.kube.errors import UnreachableError, build_api_error
from framework.kube.resources import CUSTOM_RESOURCE_DEFINITIONS as CUSTOM_RESOURCE
from framework.kube.resources import Object, Resource
from localcluster.apiserver.engine.selectors import Selector
from localcluster.apiserver.model.builtins import CUSTOM_RESOURCE_DEFINITIONS
from localcluster.apiserver.model.errors import StatusError
from localcluster.apiserver.model.options import DeleteOptions, WriteOptions
from localcluster.apiserver.model.registry import ResourceType
from localcluster.apiserver.storage import Storage
from localcluster.apiserver.views.discovery import Discovery
from tests.support.builders import AT
from tests.support.servers.frameworkcrd import CRD_FILE

T = TypeVar("T")
_CRD: Object = yaml.safe_load(CRD_FILE.read_text(encoding="utf-8"))


class LoopClock:
    """Wall and monotonic time of a virtual event loop, ``skew`` seconds ahead or behind."""

    def __init__(self, skew_seconds: float = 0.0) -> None:
        self.skew_seconds = skew_seconds

    def now(self) -> datetime:
        return AT + timedelta(seconds=self.monotonic() + self.skew_seconds)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


class SeededKeys:
    """Keys that are equal in every run with the same seed."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def new_key(self) -> str:
        return self._random.randbytes(32).hex()


def open_storage(clock: Clock, seed: int = 0) -> Storage:
    """A storage that knows Frameworks."""
    storage = Storage(clock, SequentialUids(seed))
    storage.create(CUSTOM_RESOURCE_DEFINITIONS, None, _CRD)
    return storage


def find_type(storage: Storage, resource: Resource) -> ResourceType:
    """The storage's type of a resource."""
    found = storage.registry.find(resource.group, resource.version, resource.plural)
    assert found is not None, resource
    return found


@dataclass(frozen=True, slots=True)
class Request:
    """One request, as it is sent."""

    verb: str
    resource: Resource
    name: str
    subresource: str | None = None
    body: Any = None
    uid: str | None = None
    grace_seconds: int | None = None

    def __str__(self) -> str:
        sub = f"/{self.subresource}" if self.subresource else ""
        return f"{self.verb} {self.resource.plural}{sub} {self.name} {self.uid or ''}".strip()


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of a request."""

    uplink_seconds: float = 0.0
    downlink_seconds: float = 0.0
    is_lost: bool = False
    """It never reaches the server."""
    is_answer_lost: bool = False
    """It is applied, but nobody hears of it."""
    error: StatusError | None = None
    """The server answers with this; whether it was applied says ``is_answer_lost``."""


class Network:
    """A network that does nothing to a request. Subclass it to be unkind."""

    def draw_fate(self, request: Request) -> Fate:
        return Fate()

    def draw_watch_delay(self, resource: Resource) -> float:
        return 0.0

    def check_watch(self, resource: Resource) -> None:
        """Raise what breaks a watch of this resource now."""

    def draw_repetition(self, told: Sequence[WatchEvent]) -> WatchEvent | None:
        """Choose an event of those told to be told once more."""
        return None

    def note(self, request: Request, outcome: str) -> None:
        """Learn how a request ended at the server."""


class StorageClient(KubeClient):
    """One client's view of the server. Once dead, it never gets an answer again."""

    def __init__(self, storage: Storage, network: Network | None = None) -> None:
        self.storage = storage
        self.network = network or Network()
        self.sent: list[Request] = []
        self.pending: list[Request] = []
        self.is_dead = False

    async def get(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        timeout_seconds: float = 30,
    ) -> Object:
        rt = find_type(self.storage, resource)
        request = Request("get", resource, name)
        return await self._send(
            request, lambda: self.storage.get(rt, namespace, name), timeout_seconds
        )

    async def get_raw(self, path: str, *, timeout_seconds: float = 30) -> bytes:
        """Answer discovery of one group and version, the only such path the controller reads."""
        _, group, version = path.strip("/").split("/")
        discovery = Discovery(self.storage.registry.all())
        request = Request("get", CUSTOM_RESOURCE, path)
        document = await self._send(
            request, lambda: discovery.resource_list(group, version), timeout_seconds
        )
        if document is None:
            raise build_api_error(404, b"404 page not found", method="GET", path=path)
        return msgspec.json.encode(document)

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int | None = None,
        timeout_seconds: float = 30,
    ) -> Object:
        rt = find_type(self.storage, resource)

        def read() -> Object:
            result = self.storage.list(rt, namespace, Selector(label_selector, field_selector))
            version = result.resource_version
            return {"metadata": {"resourceVersion": version}, "items": result.items}

        return await self._send(Request("list", resource, ""), read, timeout_seconds)

    async def list_pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int | None = None,
        timeout_seconds: float = 30,
    ) -> AsyncGenerator[tuple[Object, bool]]:
        yield (
            await self.list(
                resource,
                namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                timeout_seconds=timeout_seconds,
            ),
            True,
        )

    async def create(
        self,
        resource: Resource,
        namespace: str | None,
        body: Object,
        *,
        dry_run: bool = False,
        timeout_seconds: float = 30,
    ) -> Object:
        rt = find_type(self.storage, resource)
        request = Request("create", resource, str(body["metadata"]["name"]), body=body)
        options = WriteOptions(dry_run=dry_run)
        return await self._send(
            request,
            lambda: self.storage.create(rt, namespace, body, options=options),
            timeout_seconds,
        )

    async def replace(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Object,
        *,
        subresource: str | None = None,
        timeout_seconds: float = 30,
    ) -> Object:
        rt = find_type(self.storage, resource)
        request = Request("replace", resource, name, subresource, body)
        return await self._send(
            request,
            lambda: self.storage.update(rt, namespace, name, body, subresource=subresource),
            timeout_seconds,
        )

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Object | Sequence[Object],
        *,
        content: PatchContent = PatchContent.MERGE,
        subresource: str | None = None,
        timeout_seconds: float = 30,
    ) -> Object:
        rt = find_type(self.storage, resource)
        request = Request("patch", resource, name, subresource, body)

        def apply() -> Object:
            return self.storage.patch(
                rt, namespace, name, body, content.value, subresource=subresource
            )

        return await self._send(request, apply, timeout_seconds)

    async def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        grace_seconds: int | None = None,
        propagation: str | None = None,
        timeout_seconds: float = 30,
    ) -> Object | None:
        rt = find_type(self.storage, resource)
        options = DeleteOptions(uid=uid, grace_seconds=grace_seconds, propagation=propagation)
        request = Request("delete", resource, name, uid=uid, grace_seconds=grace_seconds)
        return await self._send(
            request, lambda: self.storage.delete(rt, namespace, name, options), timeout_seconds
        )

    async def watch(
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
        rt = find_type(self.storage, resource)
        loop = asyncio.get_running_loop()
        end_at = loop.time() + timeout_seconds
        ready = asyncio.Event()
        watch = self._call(
            "WATCH",
            resource,
            lambda: self.storage.watch_from(
                rt,
                namespace,
                Selector(label_selector, field_selector),
                int(resource_version or 0),
            ),
        )
        told: deque[WatchEvent] = deque(maxlen=8)
        watch.on_ready = ready.set
        ready.set()
        try:
            while loop.time() < end_at:
                try:
                    async with asyncio.timeout_at(end_at):
                        await ready.wait()
                except TimeoutError:
                    break
                ready.clear()
                await self._delay(self.network.draw_watch_delay(resource))
                self.network.check_watch(resource)
                for event in self._call("WATCH", resource, watch.pop):
                    obj = defer_object(event.object) if is_deferred else event.object
                    yield event.type, obj
                    told.append((event.type, obj))
                    late = self.network.draw_repetition(told)
                    if late is not None:
                        yield late
            version = {"metadata": {"resourceVersion": str(self.storage.resource_version)}}
            self.network.check_watch(resource)
            # Only what was popped has been told: a bookmark may not run ahead of it.
            if not self._call("WATCH", resource, lambda: bool(watch._pending)):
                yield "BOOKMARK", version
        finally:
            watch.close()

    async def _send(self, request: Request, call: Callable[[], T], timeout_seconds: float) -> T:
        self.sent.append(request)
        if self.is_dead:
            await asyncio.Event().wait()
        fate = self.network.draw_fate(request)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self.pending.append(request)
        # From here on it goes its way whether or not its sender lives to hear of it.
        loop.call_later(fate.uplink_seconds, self._arrive, request, call, fate, answer)
        try:
            async with asyncio.timeout(timeout_seconds):
                result = await answer
        except TimeoutError as e:
            raise self._lose(request, "no answer in time") from e
        if self.is_dead:
            await asyncio.Event().wait()
        return result

    def _arrive(
        self,
        request: Request,
        call: Callable[[], Any],
        fate: Fate,
        answer: asyncio.Future[Any],
    ) -> None:
        self.pending.remove(request)
        result: Any = None
        error: Exception | None = None
        outcome = "ok"
        if fate.is_lost:
            outcome, error = "lost", self._lose(request, "connection reset")
        elif fate.error is not None and not fate.is_answer_lost:
            outcome, error = f"refused {fate.error.code}", self._translate(request, fate.error)
        else:
            try:
                result = call()
            except StatusError as e:
                outcome, error = f"{e.code} {e.reason}", self._translate(request, e)
            if fate.is_answer_lost:
                outcome += ", answer lost"
                error = self._lose(request, "connection reset")
                if fate.error is not None:
                    error = self._translate(request, fate.error)
        self.network.note(request, outcome)
        loop = asyncio.get_running_loop()
        loop.call_later(fate.downlink_seconds, _resolve, answer, result, error)

    def _call(self, verb: str, resource: Resource, call: Callable[[], T]) -> T:
        try:
            return call()
        except StatusError as e:
            raise self._translate(Request(verb, resource, ""), e) from e

    def _translate(self, request: Request, error: StatusError) -> Exception:
        raw = msgspec.json.encode(error.to_status())
        return build_api_error(error.code, raw, method=request.verb, path=str(request))

    def _lose(self, request: Request, why: str) -> Exception:
        return UnreachableError(why, method=request.verb, path=str(request))

    async def _delay(self, seconds: float) -> None:
        if seconds > 0:
            await asyncio.sleep(seconds)


def _resolve(answer: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)
