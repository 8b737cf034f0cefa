"""HTTP requests to the API server for ``client``: TLS, credentials, deadlines, errors."""

import io
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from framework.api.text import hide_secrets
from framework.clock import Clock
from framework.kube.config import KubeConfig
from framework.kube.credentials import TokenSource, TokenUnavailableError, build_token_source
from framework.kube.errors import AnswerTooLargeError, UnreachableError, build_api_error
from framework.kube.tls import build_tls_context, trust_present_ca

JSON = "application/json"
# aiohttp warns of bodies in one piece above this size.
_ONE_PIECE_BYTES = 2**20
# aiohttp's 64 KiB would make many small reads of a list or of a large event.
_READ_BUFFER_BYTES = 2**21


class Request(NamedTuple):
    """A request."""

    method: str
    """HTTP method."""
    path: str
    """Path and query, quoted."""
    timeout: aiohttp.ClientTimeout
    """Limits of the whole exchange and of its parts."""
    body: bytes | None = None
    """Body as bytes; None without one."""
    headers: Mapping[str, str] = {}
    """Headers in addition to those of every request."""
    max_answer_bytes: int | None = None
    """A longer answer of a 2xx is not read to its end; None for any length."""

    @property
    def bare_path(self) -> str:
        """Return the path without its query, for messages."""
        return self.path.partition("?")[0]


class Transport:
    """An open connection pool to one API server."""

    def __init__(
        self, config: KubeConfig, *, user_agent: str, clock: Clock, accept: str = JSON
    ) -> None:
        """Prepare; nothing is opened before ``open``.

        Args:
            config: where the server is.
            user_agent: program and version.
            clock: for a token's expiry.
            accept: the form of answers, for requests that do not state another.
        """
        self._config = config
        self._clock = clock
        self._root = config.server
        self._token_source: TokenSource = build_token_source(config, clock)
        self._headers = {
            "User-Agent": user_agent,
            "Accept": accept,
            # Compression costs the server more than a cluster's network gains.
            "Accept-Encoding": "identity",
        }
        # Servers repeat the path of a request in their errors.
        self._secrets = (urlsplit(config.server).path.rstrip("/"), config.token or "")
        self._tls_context: ssl.SSLContext | None = None
        self._session: aiohttp.ClientSession | None = None

    def open(self) -> None:
        """Build the TLS context and the pool; the event loop must run.

        Raises:
            ConfigError: a certificate or key cannot be used.
        """
        # Without TLS, as on a local cluster, the context only costs time: it reads the CAs of the
        # host.
        if _has_tls(self._config.server) or _has_tls(self._config.proxy_url):
            self._tls_context = build_tls_context(self._config)
        self._session = _open_session(self._tls_context)

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
        self._tls_context = self._session = None

    async def send(self, request: Request) -> bytes:
        """Send once and return the whole answer of a 2xx.

        Raises:
            ApiError: any other status.
            AnswerTooLargeError: it has more than ``max_answer_bytes``.
            UnreachableError: no answer, or not all of it.
        """
        if request.max_answer_bytes is not None:
            return await self._read_at_most(request, request.max_answer_bytes)
        async with self._stream(request) as response:
            try:
                return await response.read()
            except (aiohttp.ClientError, TimeoutError, OSError) as e:
                raise self._build_unreachable(request, e) from e

    async def _read_at_most(self, request: Request, most: int) -> bytes:
        chunks: list[bytes] = []
        size = 0
        reader = self.read_chunks(request)
        async with aclosing(reader):
            async for chunk in reader:
                size += len(chunk)
                if size > most:
                    raise AnswerTooLargeError(
                        f"an answer of more than {most} bytes",
                        method=request.method,
                        path=request.bare_path,
                    )
                chunks.append(chunk)
        return b"".join(chunks)

    async def read_chunks(self, request: Request) -> AsyncGenerator[bytes]:
        """Send once and yield the answer of a 2xx as it comes in.

        Raises:
            ApiError: any other status.
            UnreachableError: no answer, silence beyond the deadline, or a broken end.
        """
        async with self._stream(request) as response:
            while True:
                try:
                    chunk = await response.content.readany()
                except (aiohttp.ClientError, TimeoutError, OSError) as e:
                    raise self._build_unreachable(request, e) from e
                if not chunk:
                    return
                yield chunk

    @asynccontextmanager
    async def _stream(self, request: Request) -> AsyncGenerator[aiohttp.ClientResponse]:
        """Send once and yield the answer of a 2xx, its body unread.

        After a 401 the token is read again, and if that gives another one the request is sent a
        second time; there is no other retry.
        """
        async with AsyncExitStack() as stack:
            try:
                token = await self._token_source.fetch()
                response = await stack.enter_async_context(self._start(request, token))
                if response.status == HTTPStatus.UNAUTHORIZED:
                    renewed = await self._token_source.renew(token)
                    if renewed != token:
                        await stack.aclose()
                        response = await stack.enter_async_context(self._start(request, renewed))
                if not HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
                    raise build_api_error(
                        response.status,
                        hide_secrets(await response.read(), self._secrets),
                        method=request.method,
                        path=request.bare_path,
                        retry_after=response.headers.get("Retry-After"),
                        fallback_reason=response.reason or "",
                    )
            except TokenUnavailableError as e:
                raise UnreachableError(
                    str(e), method=request.method, path=request.bare_path, maybe_applied=False
                ) from e
            except (aiohttp.ClientError, TimeoutError, OSError) as e:
                if isinstance(e, aiohttp.ClientSSLError) and self._tls_context is not None:
                    trust_present_ca(self._tls_context, self._config.ca_file)
                raise self._build_unreachable(request, e) from e
            try:
                yield response
            finally:
                _abort_unread(response)

    def _build_unreachable(self, request: Request, cause: Exception) -> UnreachableError:
        never_connected = aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError
        problem = hide_secrets(_explain(cause).encode("utf-8", "replace"), self._secrets)
        return UnreachableError(
            problem.decode("utf-8", "replace"),
            method=request.method,
            path=request.bare_path,
            maybe_applied=not isinstance(cause, never_connected),
        )

    def _start(
        self, request: Request, token: str | None
    ) -> "aiohttp.client._RequestContextManager":
        if self._session is None:
            raise RuntimeError("the client is not open: use it in `async with`")
        headers = {**self._headers, **request.headers}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return self._session.request(
            request.method,
            URL(self._root + request.path, encoded=True),
            data=_wrap_body(request.body),
            headers=headers,
            timeout=request.timeout,
            allow_redirects=False,
            server_hostname=self._config.tls_server_name,
            proxy=self._config.proxy_url,
        )


def _has_tls(url: str | None) -> bool:
    return url is not None and urlsplit(url).scheme == "https"


def _open_session(context: ssl.SSLContext | None) -> aiohttp.ClientSession:
    """Open a pool without a limit: the callers and the throttle bound the requests."""
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=context or True),
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=_READ_BUFFER_BYTES,
    )
    # aiohttp sends PUT and DELETE again when a kept connection breaks. If the server executed the
    # first request, it answers the second one with 409 or 404: only callers can judge that.
    session._retry_connection = False  # noqa: SLF001 no public switch
    return session


def _wrap_body(body: bytes | None) -> bytes | io.BytesIO | None:
    """Wrap a large body, so that aiohttp sends it in pieces."""
    return io.BytesIO(body) if body is not None and len(body) > _ONE_PIECE_BYTES else body


def _abort_unread(response: aiohttp.ClientResponse) -> None:
    """End the connection of an answer that was not read to its end.

    An ordinary close keeps the connection until the server has ended TLS, too, for up to 30 s, even
    if the client is closed. The connection of an answer that was read is back in the pool.
    """
    transport = response.connection.transport if response.connection is not None else None
    if transport is not None:
        transport.abort()


def _explain(cause: Exception) -> str:
    if isinstance(cause, aiohttp.ClientResponseError):
        # The text of the exception has the URL, whose path may be a secret.
        return f"no HTTP answer: {' '.join(cause.message.split())}"
    if isinstance(cause, aiohttp.InvalidURL):
        return "the address of the API server is not a URL"
    if isinstance(cause, TimeoutError):
        return str(cause) or "no answer in time"
    return str(cause) or type(cause).__name__
