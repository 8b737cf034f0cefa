"""The HTTP server of the local API server.

It owns the socket, checks the token, and runs the garbage collector after every write. Plain HTTP:
it listens on this machine only.

    OSError
    `-- PortInUseError    another program listens on the port
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import RawRequestMessage

from framework.clock import Clock
from localcluster.apiserver.front.auth import OPEN_PATHS, BearerTokens, GuardedServer
from localcluster.apiserver.front.payloads import MAX_BODY_BYTES
from localcluster.apiserver.front.pod_logs import PodLogSource
from localcluster.apiserver.front.routes import Routes, status_answer
from localcluster.apiserver.front.watches import WatchStream
from localcluster.apiserver.front.websockets import RunningPods
from localcluster.apiserver.model.errors import StatusError
from localcluster.apiserver.storage import Storage

logger = logging.getLogger(__name__)

_BACKLOG = 1024
_ACCEPTS_PER_TURN = 16
_STOP_SECONDS = 1
"""Time for requests in flight when the server stops."""


class PortInUseError(OSError):
    """Another program listens on the address."""

    def __init__(self, host: str, port: int) -> None:
        """Build the message with the address and the remedy."""
        super().__init__(
            f"port {port} on {host} is in use: choose another port (0 takes a free one)"
            " or stop the program that listens there"
        )


class ApiServer:
    """Serves a storage over HTTP, as kube-apiserver would."""

    def __init__(
        self,
        storage: Storage,
        *,
        clock: Clock,
        tokens: Iterable[str],
        pod_logs: PodLogSource | None = None,
    ) -> None:
        """Serve ``storage`` to clients with one of ``tokens``."""
        self._storage = storage
        self._tokens = BearerTokens(tokens)
        self._streams: set[WatchStream] = set()
        self._routes = Routes(storage, clock, self._streams, pod_logs)
        self._runner: web.ServerRunner | None = None
        self._guard: GuardedServer | None = None
        self._collection: asyncio.Handle | None = None

    def attach_pods(self, pods: RunningPods) -> None:
        """Answer requests for ``pods/exec`` and ``pods/portforward``.

        The kubelet starts after the server.
        """
        self._routes.attach_pods(pods)

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> str:
        """Listen, and return the server's URL; each call adds an address."""
        try:
            listener = socket.create_server((host, port), backlog=_BACKLOG)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortInUseError(host, port) from error
            raise
        await self.serve(listener)
        return f"http://{host}:{listener.getsockname()[1]}"

    async def serve(self, listener: socket.socket) -> None:
        """Also listen on a bound socket, for example of another network namespace."""
        runner = await self._open_runner()
        # asyncio accepts as many connections in one turn of its loop as its backlog argument.
        await web.SockSite(runner, listener, backlog=_ACCEPTS_PER_TURN).start()
        listener.listen(_BACKLOG)

    async def _open_runner(self) -> web.ServerRunner:
        if self._runner is None:
            self._guard = GuardedServer(
                self._answer,
                request_factory=_build_request,
                handler_cancellation=True,
                access_log=None,
            )
            self._runner = web.ServerRunner(self._guard, shutdown_timeout=_STOP_SECONDS)
            await self._runner.setup()
        return self._runner

    async def stop(self) -> None:
        """End all watches, let requests in flight finish and close the sockets."""
        if self._collection is not None:
            self._collection.cancel()
        for stream in tuple(self._streams):
            stream.stop()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        authorization = request.headers.get("Authorization")
        path = self._tokens.admit(request.rel_url.raw_path, authorization)
        if path is None:
            return status_answer(StatusError(401, "Unauthorized", "Unauthorized"))
        if path not in OPEN_PATHS and self._guard is not None:
            self._guard.admit(request.protocol)
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0
        logger.debug("request", extra={"method": request.method, "path": path})
        try:
            return await self._routes.answer(request, path)
        finally:
            self._collect_soon()

    def _collect_soon(self) -> None:
        """Plan a run of the garbage collector after all writes of this turn of the loop."""
        if self._collection is None and self._storage.has_garbage:
            self._collection = asyncio.get_running_loop().call_soon(self._collect)

    def _collect(self) -> None:
        self._collection = None
        self._storage.collect_garbage()


def _build_request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: web.RequestHandler,
    writer: AbstractStreamWriter,
    task: "asyncio.Task[None]",
) -> web.Request:
    """Build the request that aiohttp has parsed; a larger body than allowed is refused."""
    loop = asyncio.get_running_loop()
    return web.Request(
        message, payload, protocol, writer, task, loop, client_max_size=MAX_BODY_BYTES
    )
