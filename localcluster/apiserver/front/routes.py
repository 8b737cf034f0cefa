"""Answers the paths of the server.

Health, version, discovery and OpenAPI are answered here, resources in ``verbs``.
"""

import logging

from aiohttp import web

from framework.clock import Clock
from localcluster.apiserver.front.payloads import body_too_large
from localcluster.apiserver.front.pod_logs import PodLogSource
from localcluster.apiserver.front.targets import Target, parse_target
from localcluster.apiserver.front.verbs import ResourceVerbs, json_answer, no_such_path
from localcluster.apiserver.front.watches import WatchStream
from localcluster.apiserver.front.websockets import RunningPods
from localcluster.apiserver.model.errors import Object, StatusError
from localcluster.apiserver.model.registry import ResourceType
from localcluster.apiserver.storage import Storage
from localcluster.apiserver.views.discovery import ACCESS_REVIEW, Discovery, subresources_of
from localcluster.apiserver.views.openapi import (
    EMPTY_OPENAPI_V2,
    KUBERNETES_VERSION,
    build_index,
    find_document,
)

logger = logging.getLogger(__name__)

_HEALTH = ("/healthz", "/livez", "/readyz")
_OPENAPI_V2_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_VERSION: Object = {
    "major": "1",
    "minor": "34",
    "gitVersion": KUBERNETES_VERSION,
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}


class Routes:
    """Answers every path of the server."""

    def __init__(
        self, storage: Storage, clock: Clock, streams: set[WatchStream], logs: PodLogSource | None
    ) -> None:
        """Serve ``storage``."""
        self._storage = storage
        self._verbs = ResourceVerbs(storage, clock, streams, logs)

    def attach_pods(self, pods: RunningPods) -> None:
        """Answer requests for ``pods/exec`` and ``pods/portforward``."""
        self._verbs.pods = pods

    async def answer(self, request: web.Request, path: str) -> web.StreamResponse:
        """Return the answer to a request for ``path``; every refusal is a Status object."""
        try:
            return await self._answer(request, path)
        except StatusError as error:
            return status_answer(error)
        except web.HTTPRequestEntityTooLarge:
            return status_answer(body_too_large())
        except (web.HTTPException, ConnectionError, TimeoutError):
            raise
        except Exception as error:
            if request.writer.output_size:
                # The answer has begun, so it can only be cut off.
                raise
            logger.exception("request failed", extra={"method": request.method, "path": path})
            message = f"Internal error occurred: {error!r}"
            return status_answer(StatusError(500, "InternalError", message))

    async def _answer(self, request: web.Request, path: str) -> web.StreamResponse:
        fixed = self._answer_fixed(request, path)
        if fixed is not None:
            return fixed
        target = parse_target(path)
        rt = None if target is None else self._find_type(target)
        if target is None or rt is None:
            raise no_such_path()
        if target.subresource is not None and target.subresource not in subresources_of(rt):
            raise no_such_path()
        verb = self._verbs.choose(request.method, rt, target)
        return await verb(request, rt, target)

    def _find_type(self, target: Target) -> ResourceType | None:
        if (target.group, target.plural) == (ACCESS_REVIEW.group, ACCESS_REVIEW.plural):
            return ACCESS_REVIEW
        return self._storage.registry.find(target.group, target.version, target.plural)

    def _answer_fixed(self, request: web.Request, path: str) -> web.Response | None:
        """Return the answer of a path that is no resource, None if the path is one."""
        if path == "/version":
            return json_answer(_VERSION)
        if path in _HEALTH:
            return web.Response(text="ok")
        if path.startswith("/openapi/"):
            return self._answer_openapi(path.rstrip("/"))
        parts = path.strip("/").split("/")
        if (parts[0] == "api" and not parts[2:]) or (parts[0] == "apis" and not parts[3:]):
            return self._answer_discovery(request, parts)
        return None

    def _answer_discovery(self, request: web.Request, parts: list[str]) -> web.Response:
        discovery = Discovery(self._storage.registry.all())
        match parts:
            case ["api"]:
                document: Object | None = discovery.api_versions(request.host)
            case ["api", version]:
                document = discovery.resource_list("", version)
            case ["apis"]:
                document = discovery.group_list()
            case [_, group]:
                document = discovery.group(group)
            case _:
                document = discovery.resource_list(parts[1], parts[2])
        if document is None:
            raise no_such_path()
        return json_answer(document)

    def _answer_openapi(self, path: str) -> web.Response:
        if path == "/openapi/v2":
            return web.Response(body=EMPTY_OPENAPI_V2, content_type=_OPENAPI_V2_TYPE)
        types = self._storage.registry.all()
        if path == "/openapi/v3":
            return json_answer(build_index(types))
        document = find_document(types, path.removeprefix("/openapi/v3/"))
        if not path.startswith("/openapi/v3/") or document is None:
            raise no_such_path()
        return web.Response(body=document, content_type="application/json")


def status_answer(error: StatusError) -> web.Response:
    """Return an error as a Status object."""
    answer = json_answer(error.to_status(), error.code)
    if error.retry_after is not None:
        answer.headers["Retry-After"] = str(error.retry_after)
    return answer
