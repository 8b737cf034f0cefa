"""The verbs on resources: from a request to a call of the storage, and back to an answer.

This module has only the rules of HTTP and of query options; the storage has those of objects.
"""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from http import HTTPStatus
from typing import Any

from aiohttp import web

from framework.clock import Clock
from localcluster.apiserver.bodies.patches import choose_patch_form
from localcluster.apiserver.engine.selectors import Selector
from localcluster.apiserver.front.payloads import decode_object, decode_patch
from localcluster.apiserver.front.pod_exec import serve_command
from localcluster.apiserver.front.pod_logs import PodLogSource, open_log
from localcluster.apiserver.front.pod_ports import serve_ports
from localcluster.apiserver.front.targets import (
    Target,
    check_version_match,
    check_word,
    forbidden_option,
    read_dry_run,
    read_flag,
    read_number,
    read_resource_version,
)
from localcluster.apiserver.front.watches import DEFAULT_TIMEOUT_SECONDS, WatchOptions, WatchStream
from localcluster.apiserver.front.websockets import DescriptorBudget, RunningPods
from localcluster.apiserver.model.errors import Object, StatusError
from localcluster.apiserver.model.options import (
    BACKGROUND,
    FOREGROUND,
    IGNORE,
    ORPHAN,
    STRICT,
    WARN,
    DeleteOptions,
    WriteOptions,
)
from localcluster.apiserver.model.registry import ResourceType
from localcluster.apiserver.storage import Storage
from localcluster.apiserver.views.discovery import ACCESS_REVIEW, SUBRESOURCES
from localcluster.apiserver.views.forms import (
    Form,
    Renderer,
    choose_form,
    encode_json,
    event_line,
)

Answer = web.StreamResponse
Verb = Callable[[web.Request, ResourceType, Target], Awaitable[Answer]]
_Serve = Callable[[web.Request, RunningPods, Object, DescriptorBudget], Awaitable[Answer]]
_INCLUDES = ("None", "Metadata", "Object")
_FIELD_VALIDATIONS = ("", IGNORE, STRICT, WARN)
_PROPAGATIONS = (FOREGROUND, BACKGROUND, ORPHAN)


class ResourceVerbs:
    """Answers requests about resources."""

    def __init__(
        self, storage: Storage, clock: Clock, streams: set[WatchStream], logs: PodLogSource | None
    ) -> None:
        """Serve ``storage``; open watches are kept in ``streams`` so that they can be stopped."""
        self._storage = storage
        self._clock = clock
        self._streams = streams
        self._logs = logs
        self._budget = DescriptorBudget()
        self.pods: RunningPods | None = None
        """Runs commands in Pods and connects to them; None without a kubelet."""
        self._changes: dict[str, Verb] = {
            "PUT": self._update,
            "PATCH": self._patch,
            "DELETE": self._delete,
        }

    def choose(self, method: str, rt: ResourceType, target: Target) -> Verb:
        """Return the verb of a request."""
        if rt is ACCESS_REVIEW:
            return self._choose_from({"POST": self._review}, method)
        inside_misplaced = target.namespace is not None and not rt.namespaced
        if inside_misplaced or (target.name is not None and rt.namespaced and not target.namespace):
            raise no_such_path()
        if target.subresource is not None:
            return self._choose_subresource(method, target.subresource)
        if target.name is not None:
            return self._choose_from({**self._changes, "GET": self._get}, method)
        verbs: dict[str, Verb] = {"GET": self._list}
        if target.namespace is not None or not rt.namespaced:
            verbs["POST"] = self._create
        return self._choose_from(verbs, method)

    def _choose_subresource(self, method: str, name: str) -> Verb:
        own: dict[str, Verb] = {
            "log": self._log,
            "exec": partial(self._serve_stream, serve_command),
            "portforward": partial(self._serve_stream, serve_ports),
        }
        if name in own:
            known = {"GET": own[name], "POST": own[name]}
        else:
            known = {**self._changes, "GET": self._get, "POST": self._create}
        verbs = {"GET": "get", "PUT": "update", "PATCH": "patch", "POST": "create"}
        allowed = SUBRESOURCES[name].verbs
        offered = {word: known[word] for word, verb in verbs.items() if verb in allowed}
        return self._choose_from(offered, method)

    @staticmethod
    def _choose_from(verbs: dict[str, Verb], method: str) -> Verb:
        verb = verbs.get("GET" if method == "HEAD" else method)
        if verb is None:
            text = "the server does not allow this method on the requested resource"
            raise StatusError(405, "MethodNotAllowed", text, {})
        return verb

    # --- reading -----------------------------------------------------------------------------

    async def _get(self, request: web.Request, rt: ResourceType, target: Target) -> Answer:
        renderer = self._renderer(request, rt)
        read_resource_version(request.query)
        item = self._find(rt, target)
        return json_answer(renderer.render_object(item))

    async def _list(self, request: web.Request, rt: ResourceType, target: Target) -> Answer:
        renderer = self._renderer(request, rt)
        selector = _read_selector(request)
        if read_flag(request.query, "watch"):
            return await self._watch(request, rt, target, renderer)
        query = request.query
        wanted = read_resource_version(query)
        match = check_version_match(query, wanted)
        result = self._storage.list(
            rt,
            target.namespace,
            selector,
            limit=read_number(query, "limit"),
            continue_token=query.get("continue") or None,
            resource_version=wanted,
            exact=match == "Exact",
        )
        metadata: Object = {"resourceVersion": result.resource_version}
        if result.continue_token:
            metadata["continue"] = result.continue_token
            if result.remaining is not None:
                metadata["remainingItemCount"] = result.remaining
        return json_answer(renderer.render_list(result.items, metadata))

    async def _watch(
        self, request: web.Request, rt: ResourceType, target: Target, renderer: Renderer
    ) -> Answer:
        version, options = _read_watch_options(request)
        renderer.check_renders_objects()
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        answer.enable_chunked_encoding()
        try:
            watch = self._storage.watch_from(rt, target.namespace, _read_selector(request), version)
        except StatusError as error:
            if error.code != HTTPStatus.GONE:
                raise
            # Like kube-apiserver: status 200 and an event of type ERROR.
            await answer.prepare(request)
            await answer.write(event_line("ERROR", error.to_status()))
            return answer
        stream = WatchStream(watch, renderer, self._storage, options)
        self._streams.add(stream)
        try:
            await answer.prepare(request)
            await stream.send(answer.write)
        except TimeoutError:
            # The client does not read, so the server can only end the connection.
            if request.transport is not None:
                request.transport.abort()
        finally:
            watch.close()
            self._streams.discard(stream)
        return answer

    async def _log(self, request: web.Request, rt: ResourceType, target: Target) -> Answer:
        pieces = open_log(self._logs, self._find(rt, target), request.query)
        answer = web.StreamResponse(headers={"Content-Type": "text/plain"})
        answer.enable_chunked_encoding()
        # Read the first piece before the answer begins, so that an error is still a Status.
        first = await anext(aiter(pieces), b"")
        await answer.prepare(request)
        await answer.write(first)
        async for piece in pieces:
            await answer.write(piece)
        return answer

    async def _serve_stream(
        self, serve: _Serve, request: web.Request, rt: ResourceType, target: Target
    ) -> Answer:
        pod = self._find(rt, target)
        if self.pods is None:
            raise StatusError(501, "NotImplemented", "this server has no kubelet, so no Pods run")
        return await serve(request, self.pods, pod, self._budget)

    def _find(self, rt: ResourceType, target: Target) -> Object:
        return self._storage.get(rt, target.namespace, target.name or "")

    # --- writing -----------------------------------------------------------------------------

    async def _create(self, request: web.Request, rt: ResourceType, target: Target) -> Answer:
        renderer = self._renderer(request, rt)
        options = _read_write_options(request, "CreateOptions")
        body = await _read_object(request, rt.kind)
        if target.subresource is not None:
            outcome = self._storage.bind(rt, target.namespace, target.name or "", body, options)
            return json_answer(outcome, 201, options.warnings)
        item = self._storage.create(rt, target.namespace, body, options)
        return json_answer(renderer.render_object(item), 201, options.warnings)

    async def _update(self, request: web.Request, rt: ResourceType, target: Target) -> Answer:
        renderer = self._renderer(request, rt)
        options = _read_write_options(request, "UpdateOptions")
        body = await _read_object(request, rt.kind)
        item = self._storage.update(
            rt,
            target.namespace,
            target.name or "",
            body,
            options,
            subresource=target.subresource,
        )
        return json_answer(renderer.render_object(item), 200, options.warnings)

    async def _patch(self, request: web.Request, rt: ResourceType, target: Target) -> Answer:
        renderer = self._renderer(request, rt)
        options = _read_write_options(request, "PatchOptions")
        content_type = _content_type(request)
        choose_patch_form(rt, content_type)  # an unknown form is refused before it is read
        patch = decode_patch(await request.read())
        if "force" in request.query:
            why = "may not be specified for non-apply patch"
            raise forbidden_option("PatchOptions", "force", why)
        item = self._storage.patch(
            rt,
            target.namespace,
            target.name or "",
            patch,
            content_type,
            options,
            subresource=target.subresource,
        )
        return json_answer(renderer.render_object(item), 200, options.warnings)

    async def _delete(self, request: web.Request, rt: ResourceType, target: Target) -> Answer:
        renderer = self._renderer(request, rt)
        options = await _read_delete_options(request)
        outcome = self._storage.delete(rt, target.namespace, target.name or "", options)
        if rt.returns_deleted or outcome["metadata"].get("deletionTimestamp"):
            return json_answer(renderer.render_object(outcome))
        return json_answer(_deleted_status(rt, outcome))

    async def _review(self, request: web.Request, rt: ResourceType, _target: Target) -> Answer:
        body = await _read_object(request, rt.kind)
        # A token has all rights here.
        review = {
            "kind": rt.kind,
            "apiVersion": rt.api_version,
            "metadata": {},
            "spec": body.get("spec") or {},
            "status": {"allowed": True},
        }
        return json_answer(review, 201)

    def _renderer(self, request: web.Request, rt: ResourceType) -> Renderer:
        form = choose_form(request.headers.get("Accept", ""))
        if form is None:
            text = "only the following media types are accepted: application/json"
            raise StatusError(406, "NotAcceptable", text)
        include = request.query.get("includeObject") or "Metadata"
        if form is Form.TABLE:
            check_word("TableOptions", "includeObject", include, _INCLUDES)
        return Renderer(rt, self._clock, form, include)


def json_answer(item: object, code: int = 200, warnings: Iterable[str] = ()) -> web.Response:
    """Return an answer in JSON; each warning becomes a Warning header."""
    answer = web.Response(body=encode_json(item), status=code, content_type="application/json")
    answer.headers["Cache-Control"] = "no-cache, private"
    for warning in dict.fromkeys(warnings):
        text = warning.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
        answer.headers.add("Warning", f'299 - "{text}"')
    return answer


def no_such_path() -> StatusError:
    """Return 404 for a path the server does not have."""
    text = "the server could not find the requested resource"
    return StatusError(404, "NotFound", text, {})


def _deleted_status(rt: ResourceType, item: Object) -> Object:
    details = {"name": item["metadata"]["name"]}
    if rt.group:
        details["group"] = rt.group
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {**details, "kind": rt.plural, "uid": item["metadata"]["uid"]},
    }


def _read_watch_options(request: web.Request) -> tuple[int | None, WatchOptions]:
    """Return the version after which to start (None: with the existing objects) and the options."""
    query = request.query
    version = read_resource_version(query)
    if "sendInitialEvents" in query and query.get("resourceVersionMatch") != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise forbidden_option("ListOptions", "resourceVersionMatch", why)
    wants_state = read_flag(query, "sendInitialEvents")
    bookmarks = read_flag(query, "allowWatchBookmarks")
    options = WatchOptions(
        timeout_seconds=read_number(query, "timeoutSeconds") or DEFAULT_TIMEOUT_SECONDS,
        bookmarks=bookmarks,
        marks_initial_end=wants_state and bookmarks,
    )
    return None if wants_state else version or None, options


def _read_selector(request: web.Request) -> Selector:
    query = request.query
    return Selector(query.get("labelSelector") or None, query.get("fieldSelector") or None)


def _read_write_options(request: web.Request, kind: str) -> WriteOptions:
    query = request.query
    validation = query.get("fieldValidation", "")
    check_word(kind, "fieldValidation", validation, _FIELD_VALIDATIONS)
    return WriteOptions(read_dry_run(query.getall("dryRun", []), kind), validation or WARN)


def _content_type(request: web.Request) -> str:
    return request.headers.get("Content-Type", "")


async def _read_object(request: web.Request, kind: str) -> Object:
    return decode_object(await request.read(), _content_type(request), kind)


async def _read_delete_options(request: web.Request) -> DeleteOptions:
    """Return the options of a delete: those of the body if there is one, else of the query."""
    if await request.read():
        return _delete_options(await _read_object(request, "DeleteOptions"))
    query = request.query
    return DeleteOptions(
        grace_seconds=read_number(query, "gracePeriodSeconds"),
        propagation=_check_propagation(query.get("propagationPolicy")),
        dry_run=read_dry_run(query.getall("dryRun", []), "DeleteOptions"),
    )


def _delete_options(body: dict[str, Any]) -> DeleteOptions:
    preconditions = body.get("preconditions") or {}
    propagation = _check_propagation(body.get("propagationPolicy"))
    if propagation is None and body.get("orphanDependents") is not None:
        propagation = ORPHAN if body["orphanDependents"] else BACKGROUND
    grace = body.get("gracePeriodSeconds")
    return DeleteOptions(
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        grace_seconds=grace if isinstance(grace, int) else None,
        propagation=propagation,
        dry_run=read_dry_run(list(body.get("dryRun") or ()), "DeleteOptions"),
    )


def _check_propagation(value: Any) -> str | None:
    if value is None or value == "":
        return None
    # kube-apiserver also names "nil", its word for no policy.
    named = (*_PROPAGATIONS, "nil")
    check_word("DeleteOptions", "propagationPolicy", value, _PROPAGATIONS, named)
    return str(value)
