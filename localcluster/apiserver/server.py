"""The HTTP front of the local API server.

Started by ``localcluster.cluster`` and by tests. It owns the socket, asks for the token, and runs
the garbage collector behind every write; what a request means is in ``routes``. Plain HTTP: it
listens on this machine only.

    ServerError
    `-- PortInUseError    another program listens there
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from aiohttp import web

from framework.clock import Clock
from localcluster.apiserver.front.auth import BearerTokens
from localcluster.apiserver.front.payloads import MAX_BODY_BYTES
from localcluster.apiserver.front.pod_logs import PodLogSource
from localcluster.apiserver.front.routes import Routes, status_answer
from localcluster.apiserver.front.watches import WatchStream
from localcluster.apiserver.model.errors import StatusError
from localcluster.apiserver.storage import Storage

logger = logging.getLogger(__name__)

_BACKLOG = 1024
_STOP_SECONDS = 1
"""How long requests in flight may take when the server stops."""


class ServerError(Exception):
    """The server cannot serve."""


class PortInUseError(ServerError):
    """Another program listens on the address."""

    def __init__(self, host: str, port: int) -> None:
        """Name the address and the way out."""
        super().__init__(
            f"port {port} on {host} is in use: choose another port (0 takes a free one)"
            " or stop the program that listens there"
        )
        self.host = host
        self.port = port


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
        """Serve ``storage`` to whoever holds one of ``tokens``."""
        self._storage = storage
        self._tokens = BearerTokens(tokens)
        self._streams: set[WatchStream] = set()
        self._routes = Routes(storage, clock, self._streams, pod_logs)
        self._runner: web.AppRunner | None = None
        self._collection: asyncio.Handle | None = None

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> str:
        """Listen and return the server's URL; called again, it listens on one more address.

        Raises:
            PortInUseError: Another program listens on ``port``.
        """
        runner = await self._open_runner()
        site = web.TCPSite(runner, host, port, backlog=_BACKLOG)
        known = set(map(tuple, runner.addresses))
        try:
            await site.start()
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortInUseError(host, port) from error
            raise
        bound = next(address for address in runner.addresses if tuple(address) not in known)
        return f"http://{host}:{bound[1]}"

    async def serve(self, listener: socket.socket) -> None:
        """Listen on a bound socket too, for example one of another network namespace."""
        await web.SockSite(await self._open_runner(), listener, backlog=_BACKLOG).start()

    async def _open_runner(self) -> web.AppRunner:
        if self._runner is None:
            app = web.Application(client_max_size=MAX_BODY_BYTES)
            app.router.add_route("*", "/{path:.*}", self._answer)
            self._runner = web.AppRunner(
                app, access_log=None, handler_cancellation=True, shutdown_timeout=_STOP_SECONDS
            )
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
        logger.debug("request", extra={"method": request.method, "path": path})
        try:
            return await self._routes.answer(request, path)
        finally:
            self._collect_soon()

    def _collect_soon(self) -> None:
        """Plan one run of the garbage collector behind all writes of this turn of the loop."""
        if self._collection is None and self._storage.has_garbage:
            self._collection = asyncio.get_running_loop().call_soon(self._collect)

    def _collect(self) -> None:
        self._collection = None
        self._storage.collect_garbage()
