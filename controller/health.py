"""Answers /healthz, /readyz and /metrics.

Started by ``controller.app``. Alive means that the event loop still turns; ready is what the app's
callback says. No request here touches the API server.

    HealthError     the address cannot be listened on
"""

import errno
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from aiohttp import web

from controller.metrics import CONTENT_TYPE, Metrics

ReadinessCheck = Callable[[], Sequence[str]]
"""Returns why the controller is not ready, in words; nothing when it is."""


class HealthError(Exception):
    """The health endpoint cannot listen; the message names address and remedy."""


class HealthServer:
    """The HTTP server of probes and scrapes. Use it in ``async with``."""

    def __init__(
        self, host: str, port: int, *, find_unready: ReadinessCheck, metrics: Metrics
    ) -> None:
        """Prepare; nothing listens yet.

        Args:
            host: 127.0.0.1 on a machine of one's own, 0.0.0.0 in a Pod, whose kubelet probes from
                outside.
            port: 0 takes a free one, see ``port``.
            find_unready: asked at every /readyz.
            metrics: rendered at every /metrics.
        """
        self._host = host
        self._wanted_port = port
        self._find_unready = find_unready
        self._metrics = metrics
        self._runner: web.AppRunner | None = None

    @property
    def port(self) -> int:
        """The port that is listened on; 0 before the start."""
        if self._runner is None or not self._runner.addresses:
            return 0
        port: int = self._runner.addresses[0][1]
        return port

    async def __aenter__(self) -> Self:
        """Listen.

        Raises:
            HealthError: the port is in use, or the address is not this machine's.
        """
        app = web.Application()
        app.router.add_get("/healthz", self._answer_healthz)
        app.router.add_get("/readyz", self._answer_readyz)
        app.router.add_get("/metrics", self._answer_metrics)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host, self._wanted_port).start()
        except OSError as e:
            await self._stop()
            raise HealthError(self._explain(e)) from e
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop listening."""
        await self._stop()

    async def _stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def _explain(self, error: OSError) -> str:
        address = f"{self._host}:{self._wanted_port}"
        if error.errno == errno.EADDRINUSE:
            return f"cannot listen on {address}: the port is in use; give another --health-port"
        reason = error.strerror or str(error)
        return f"cannot listen on {address}: {reason}; give another --health-address"

    async def _answer_healthz(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _answer_readyz(self, _request: web.Request) -> web.Response:
        reasons = self._find_unready()
        if reasons:
            return web.Response(status=503, text="".join(f"not ready: {r}\n" for r in reasons))
        return web.Response(text="ok\n")

    async def _answer_metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=self._metrics.render(), headers={"Content-Type": CONTENT_TYPE})
