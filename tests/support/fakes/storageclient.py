"""A KubeClient without sockets: the real client on a transport that asks the storage engine.

A ``Network`` draws the time and the fate of each request: the request or its answer may be lost, or
the server may refuse it. Without a Network, each request is answered at once.
"""

# ruff: noqa: ARG002  the methods take the arguments of the real transport
import asyncio
import random
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl

import msgspec
import yaml

from framework.clock import Clock, SequentialUids
from framework.kube import resources, transport
from framework.kube.client import KubeClient
from framework.kube.config import KubeConfig
from framework.kube.errors import KubeError, UnreachableError, build_api_error
from framework.kube.resources import FRAMEWORKS, Object, Resource
from localcluster.apiserver.engine.history import Watch
from localcluster.apiserver.engine.selectors import Selector
from localcluster.apiserver.front.targets import Target, parse_target
from localcluster.apiserver.model.builtins import CUSTOM_RESOURCE_DEFINITIONS
from localcluster.apiserver.model.errors import StatusError
from localcluster.apiserver.model.options import DeleteOptions, WriteOptions
from localcluster.apiserver.model.registry import ResourceType
from localcluster.apiserver.storage import Storage
from localcluster.apiserver.views.discovery import Discovery
from localcluster.apiserver.views.forms import event_line
from tests.support.builders import AT
from tests.support.servers.frameworkcrd import CRD_FILE

_CRD: Object = yaml.load(CRD_FILE.read_text(encoding="utf-8"), yaml.CSafeLoader)
_RESOURCES = {
    (known.group, known.version, known.plural): known
    for known in vars(resources).values()
    if isinstance(known, Resource)
}
_VERBS = {"POST": "create", "PUT": "replace", "PATCH": "patch", "DELETE": "delete"}
# Number of last events that a watch may repeat.
_REPEATABLE_EVENTS = 8
# Of a request, as the local API server (aiohttp) allows.
_MAX_PATH_CHARS = 8190


class LoopClock:
    """The clocks of one machine in a virtual event loop.

    Its wall clock is ``skew_seconds`` ahead; boot time counts the ``stopped_seconds`` of its
    processes too.
    """

    def __init__(self, skew_seconds: float = 0.0) -> None:
        self.skew_seconds = skew_seconds
        self.stopped_seconds = 0.0

    def now(self) -> datetime:
        return AT + timedelta(seconds=self.monotonic() + self.skew_seconds)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def boottime(self) -> float:
        return self.monotonic() + self.stopped_seconds


class SeededKeys:
    """Keys that are equal in every run with the same seed."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def new_key(self) -> str:
        return self._random.randbytes(32).hex()


def open_storage(clock: Clock, seed: int = 0) -> Storage:
    """A storage with the CRD of Frameworks."""
    storage = Storage(clock, SequentialUids(seed))
    storage.create(CUSTOM_RESOURCE_DEFINITIONS, None, _CRD)
    return storage


def find_type(storage: Storage, resource: Resource) -> ResourceType:
    found = storage.registry.find(resource.group, resource.version, resource.plural)
    assert found is not None, resource
    return found


@dataclass(frozen=True, slots=True)
class Request:
    """A request, as the server sees it."""

    verb: str
    """``get``, ``list``, ``create``, ``replace``, ``patch``, ``delete`` or ``WATCH``."""
    resource: Resource
    """The resource; CustomResourceDefinitions for a path that is no resource."""
    name: str
    """Name of the object; empty for a list, and for a path that is no resource."""
    subresource: str | None = None
    """For example ``status``."""
    body: Any = None
    """The decoded body; None for a request without a body, and for a delete."""
    uid: str | None = None
    """Precondition of a delete."""
    resource_version: str | None = None
    """Precondition of a delete."""
    grace_seconds: int | None = None
    """Grace period of a delete."""
    is_dry_run: bool = False
    """Whether it changes nothing."""
    is_for_metadata: bool = False
    """Whether a get requests only metadata."""

    def __str__(self) -> str:
        sub = f"/{self.subresource}" if self.subresource else ""
        return f"{self.verb} {self.resource.plural}{sub} {self.name} {self.uid or ''}".strip()


@dataclass(frozen=True, slots=True)
class Fate:
    """The fate of a request."""

    uplink_seconds: float = 0.0
    downlink_seconds: float = 0.0
    is_lost: bool = False
    """Whether the request never reaches the server."""
    is_answer_lost: bool = False
    """Whether the request is applied, but its answer does not arrive."""
    error: StatusError | None = None
    """The answer of the server; with ``is_answer_lost``, the request was applied."""


class Network:
    """A network without faults. Subclass it for others."""

    def draw_fate(self, request: Request) -> Fate:
        return Fate()

    def draw_watch_delay(self, resource: Resource) -> float:
        return 0.0

    def check_watch(self, resource: Resource) -> None:
        """Raise the error that breaks a watch of this resource now; none by default."""

    def draw_repetition(self, sent: Sequence[bytes]) -> bytes | None:
        """Choose one of the last events of a watch to be sent once more."""
        return None

    def note(self, request: Request, outcome: str) -> None:
        """Observe the outcome of a request at the server."""


class StorageClient(KubeClient):
    """One client of the server. Once dead, it never gets an answer again."""

    def __init__(self, storage: Storage, network: Network | None = None) -> None:
        config = KubeConfig(server="http://storage")
        super().__init__(config, user_agent="tests", clock=LoopClock())
        self._transport = StorageTransport(self, config)
        self.storage = storage
        self.network = network or Network()
        self.sent: list[Request] = []
        self.pending: list[Request] = []
        self.is_dead = False


class StorageTransport(transport.Transport):
    """Sends the requests of one client through its network to its storage."""

    def __init__(self, client: StorageClient, config: KubeConfig) -> None:
        super().__init__(config, user_agent="tests", clock=LoopClock())
        self._client = client

    @property
    def _storage(self) -> Storage:
        return self._client.storage

    async def send(self, request: transport.Request) -> bytes:
        _check_length(request)
        call, asked = self._parse(request)
        self._client.sent.append(asked)
        if self._client.is_dead:
            await asyncio.Event().wait()
        fate = self._client.network.draw_fate(asked)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()
        self._client.pending.append(asked)
        # From here on, the request is executed even if its sender ends before the answer.
        loop.call_later(fate.uplink_seconds, self._arrive, asked, call, fate, answer)
        try:
            async with asyncio.timeout(request.timeout.total):
                result = await answer
        except TimeoutError as e:
            raise _lose(asked, "no answer in time") from e
        if self._client.is_dead:
            await asyncio.Event().wait()
        return result

    async def read_chunks(self, request: transport.Request) -> AsyncGenerator[bytes]:
        query = dict(parse_qsl(request.path.partition("?")[2]))
        if "watch" not in query:
            yield await self.send(request)
            return
        _check_length(request)
        target = parse_target(request.bare_path)
        assert target is not None
        resource = _find_resource(target)
        try:
            watch = self._storage.watch_from(
                find_type(self._storage, resource),
                target.namespace,
                _build_selector(query),
                int(query.get("resourceVersion") or 0),
            )
        except StatusError as e:
            raise _translate(Request("WATCH", resource, ""), e) from e
        try:
            async for line in self._follow(watch, resource, float(query["timeoutSeconds"])):
                yield line
            # A bookmark may not be newer than the events that were sent.
            if "allowWatchBookmarks" in query and not watch._pending:
                version = str(self._storage.resource_version)
                yield event_line("BOOKMARK", {"metadata": {"resourceVersion": version}})
        finally:
            watch.close()

    async def _follow(
        self, watch: Watch, resource: Resource, seconds: float
    ) -> AsyncGenerator[bytes]:
        """Yield a line for each event until the watch has been open for some seconds."""
        loop = asyncio.get_running_loop()
        end_at = loop.time() + seconds
        ready = asyncio.Event()
        ready.set()
        watch.on_ready = ready.set
        sent: deque[bytes] = deque(maxlen=_REPEATABLE_EVENTS)
        while loop.time() < end_at:
            try:
                async with asyncio.timeout_at(end_at):
                    await ready.wait()
            except TimeoutError:
                break
            ready.clear()
            delay = self._client.network.draw_watch_delay(resource)
            if delay > 0:
                await asyncio.sleep(delay)
            self._client.network.check_watch(resource)
            for line in _take_lines(watch):
                yield line
                sent.append(line)
                late = self._client.network.draw_repetition(sent)
                if late is not None:
                    yield late
        self._client.network.check_watch(resource)

    def _parse(self, request: transport.Request) -> tuple[Callable[[], Object | None], Request]:
        """Return the call that executes a request, and the request in the terms of tests."""
        path, _, query = request.path.partition("?")
        target = parse_target(path)
        if target is None:
            asked = Request("get", resources.CUSTOM_RESOURCE_DEFINITIONS, path)
            return lambda: self._discover(path), asked
        resource = _find_resource(target)
        rt = find_type(self._storage, resource)
        if request.body is None:
            is_for_metadata = "PartialObjectMetadata" in request.headers.get("Accept", "")
            call, asked = self._parse_read(rt, resource, target, dict(parse_qsl(query)))
            return call, replace(asked, is_for_metadata=is_for_metadata)
        body = msgspec.json.decode(request.body)
        if request.method == "DELETE":
            return self._parse_delete(rt, resource, target, body)
        name = str(target.name or body["metadata"]["name"])
        verb, is_dry_run = _VERBS[request.method], "dryRun=All" in query
        asked = Request(verb, resource, name, target.subresource, body, is_dry_run=is_dry_run)
        options = WriteOptions(dry_run=is_dry_run)
        content = request.headers["Content-Type"]

        def write() -> Object:
            storage, where, sub = self._storage, target.namespace, target.subresource
            if request.method == "POST":
                return storage.create(rt, where, body, options=options)
            if request.method == "PUT":
                return storage.update(rt, where, name, body, subresource=sub)
            return storage.patch(rt, where, name, body, content, options, subresource=sub)

        return write, asked

    def _parse_read(
        self, rt: ResourceType, resource: Resource, target: Target, query: dict[str, str]
    ) -> tuple[Callable[[], Object], Request]:
        name = target.name
        if name is not None:
            get = Request("get", resource, name)
            return lambda: self._storage.get(rt, target.namespace, name), get

        def read() -> Object:
            found = self._storage.list(rt, target.namespace, _build_selector(query))
            return {"metadata": {"resourceVersion": found.resource_version}, "items": found.items}

        return read, Request("list", resource, "")

    def _parse_delete(
        self, rt: ResourceType, resource: Resource, target: Target, body: Object
    ) -> tuple[Callable[[], Object | None], Request]:
        preconditions = body.get("preconditions", {})
        uid, version = preconditions.get("uid"), preconditions.get("resourceVersion")
        grace = body.get("gracePeriodSeconds")
        options = DeleteOptions(
            uid=uid,
            resource_version=version,
            grace_seconds=grace,
            propagation=body.get("propagationPolicy"),
            dry_run=bool(body.get("dryRun")),
        )
        name = str(target.name)
        asked = Request(
            "delete", resource, name, uid=uid, resource_version=version, grace_seconds=grace
        )
        return lambda: self._storage.delete(rt, target.namespace, name, options), asked

    def _discover(self, path: str) -> Object:
        """Answer discovery of a group and version, the only other path that is read."""
        _, group, version = path.strip("/").split("/")
        found = Discovery(self._storage.registry.all()).resource_list(group, version)
        if found is None:
            raise StatusError(404, "NotFound", "404 page not found")
        return found

    def _arrive(
        self,
        request: Request,
        call: Callable[[], Object | None],
        fate: Fate,
        answer: asyncio.Future[bytes],
    ) -> None:
        """Execute a request at the server, and return its answer."""
        self._client.pending.remove(request)
        result = b""
        error: KubeError | None = None
        outcome = "ok"
        if fate.is_lost:
            outcome, error = "lost", _lose(request, "connection reset")
        elif fate.error is not None and not fate.is_answer_lost:
            outcome, error = f"refused {fate.error.code}", _translate(request, fate.error)
        else:
            try:
                result = msgspec.json.encode(call() or {"kind": "Status"})
            except StatusError as e:
                outcome, error = f"{e.code} {e.reason}", _translate(request, e)
            if fate.is_answer_lost:
                outcome += ", answer lost"
                error = _lose(request, "connection reset")
                if fate.error is not None:
                    error = _translate(request, fate.error)
        self._client.network.note(request, outcome)
        loop = asyncio.get_running_loop()
        loop.call_later(fate.downlink_seconds, _resolve, answer, result, error)


def _find_resource(target: Target) -> Resource:
    return _RESOURCES[target.group, target.version, target.plural]


def _build_selector(query: dict[str, str]) -> Selector:
    return Selector(query.get("labelSelector"), query.get("fieldSelector"))


def _take_lines(watch: Watch) -> list[bytes]:
    try:
        return [event_line(event.type, event.object) for event in watch.pop()]
    except StatusError as e:
        return [event_line("ERROR", e.to_status())]


def _check_length(request: transport.Request) -> None:
    """Refuse an address that is too long, as the local API server does."""
    if len(request.path) > _MAX_PATH_CHARS:
        refusal = StatusError(400, "BadRequest", "Got more than 8190 bytes", {})
        raise _translate(Request("GET", FRAMEWORKS, ""), refusal)


def _translate(request: Request, error: StatusError) -> KubeError:
    raw = msgspec.json.encode(error.to_status())
    return build_api_error(error.code, raw, method=request.verb, path=str(request))


def _lose(request: Request, why: str) -> KubeError:
    return UnreachableError(why, method=request.verb, path=str(request))


def _resolve(answer: asyncio.Future[bytes], result: bytes, error: KubeError | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)
