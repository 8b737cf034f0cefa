import contextlib
import gzip
import select
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.agent.access import Access
from framework.agent.clock import AgentClock
from framework.agent.connection import (
    BodyDecoder,
    Connection,
    Head,
    UnreachableError,
)
from tests.support.builders.cases import cases
from tests.support.servers.pki import Pki, build_server_context
from tests.support.waiting import HANG_SECONDS

REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
PLAIN = Access("127.0.0.1", 0, tls=False, token="secret")


class RawServer:
    """Answers the n-th request with the n-th list of replies; one connection per list."""

    def __init__(
        self, *connections: list[bytes], context: ssl.SSLContext | None = None, port: int = 0
    ) -> None:
        self.requests: list[bytes] = []
        self._connections = connections
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        for replies in self._connections:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), self._wrap(plain) as peer:
                for reply in replies:
                    request = peer.recv(65536)
                    if not request:
                        break
                    self.requests.append(request)
                    peer.sendall(reply)

    def _wrap(self, plain: socket.socket) -> socket.socket:
        if self._context is None:
            return plain
        return self._context.wrap_socket(plain, server_side=True)

    def close(self) -> None:
        """Stop; a second call does nothing."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@contextlib.contextmanager
def serve(
    *connections: list[bytes],
    access: Access = PLAIN,
    context: ssl.SSLContext | None = None,
    takes_gzip: bool = False,
) -> Iterator[tuple[RawServer, Connection]]:
    """Run a server, and a connection of ``access`` to its port."""
    server = RawServer(*connections, context=context)
    access = access._replace(port=server.port)
    connection = Connection(access, AgentClock(), HANG_SECONDS, takes_gzip=takes_gzip)
    try:
        yield server, connection
    finally:
        connection.close()
        server.close()


def test_fetch_reuses_the_connection_or_opens_another_if_it_was_closed() -> None:
    with serve([REPLY, REPLY], [REPLY]) as (server, connection):
        for path in ("/a", "/b", "/c"):
            assert connection.fetch("GET", path).body == b"{}"
    assert [request.split(b" ")[1] for request in server.requests] == [b"/a", b"/b", b"/c"]
    assert server.requests[1].startswith(b"GET /b HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"\r\nAuthorization: Bearer secret\r\n" in server.requests[0]


def test_fetch_with_body_sends_it_counted() -> None:
    reply = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"
    with serve([reply]) as (server, connection):
        answer = connection.fetch("POST", "/a", b'{"a":1}')
    assert answer.head.status == 201
    assert server.requests[0].endswith(b'Content-Length: 7\r\n\r\n{"a":1}')


def head_of(content: bytes) -> bytes:
    text = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n"
    return text.format(len(content)).encode()


# The largest object of etcd, each of its bytes written as six.
LARGEST = b'{"a":"' + b"\\u0001" * (3 * 2**19) + b'"}'
TOO_LONG = b" " * (16 * 2**20 + 1)
TOO_LONG_GZIP = gzip.compress(TOO_LONG, mtime=0)
CUT_GZIP = gzip.compress(b"{}" * 50, mtime=0)[:-9]


@cases(
    "reply",
    {
        "nothing": b"",
        "in the head": b"HTTP/1.1 200",
        "in the body": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{}",
        "in a chunk": CHUNKED + b"5\r\n{}",
        "without last chunk": CHUNKED + b"2\r\n{}\r\n",
        "bad size": CHUNKED + b"zz\r\n{}\r\n",
        "negative size": CHUNKED + b"-2\r\n{}\r\n",
        "no HTTP": b"SSH-2.0-OpenSSH\r\n\r\n",
        "bad length": b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        "no gzip": head_of(b"no gzip") + b"no gzip",
        "gzip cut off": head_of(CUT_GZIP) + CUT_GZIP,
        "gzip too long": head_of(TOO_LONG_GZIP) + TOO_LONG_GZIP,
        "too long": b"HTTP/1.1 200 OK\r\nContent-Length: 16777217\r\n\r\n" + TOO_LONG,
        "superscript as status": b"HTTP/1.1 \xb2 OK\r\n\r\n",
        "endless status": b"HTTP/1.1 " + b"9" * 5000 + b"\r\n\r\n",
        "superscript as length": "HTTP/1.1 200 OK\r\nContent-Length: \u00b2\r\n\r\n".encode(
            "latin-1"
        ),
        "endless length": b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
    },
)
def test_fetch_broken_answer_is_unreachable(reply: bytes) -> None:
    with serve([reply]) as (_, connection), pytest.raises(UnreachableError):
        connection.fetch("GET", "/a")


def test_fetch_silent_server_times_out() -> None:
    # The backlog of the listener takes the connection; no process answers.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        access = Access("127.0.0.1", listener.getsockname()[1], tls=False)
        connection = Connection(access, AgentClock(), 0.05)
        with pytest.raises(UnreachableError, match="no answer in time"):
            connection.fetch("GET", "/a")


def test_read_some_nothing_came_is_none_and_end_is_empty() -> None:
    with serve([CHUNKED + b"3\r\nabc\r\n", b"0\r\n\r\n"]) as (_, connection):
        assert connection.start("GET", "/a").status == 200
        assert connection.read_some(HANG_SECONDS) == b"abc"
        assert connection.read_some(0.01) is None


def test_head_retry_after_is_bounded() -> None:
    assert Head(429, {"retry-after": "7"}).retry_after_seconds == 7.0
    assert Head(429, {"retry-after": "86400"}).retry_after_seconds == 300.0
    for text in ("Wed, 21 Oct", "\u00b2", "9" * 5000):
        assert Head(429, {"retry-after": text}).retry_after_seconds is None


@given(chunks=st.lists(st.binary(min_size=1, max_size=20), max_size=5), data=st.data())
def test_body_decoder_chunks_cut_anywhere_give_the_body(
    chunks: list[bytes], data: st.DataObject
) -> None:
    wire = b"".join(b"%x;ext=1\r\n%s\r\n" % (len(c), c) for c in chunks) + b"0\r\nT: x\r\n\r\n"
    decoder = BodyDecoder(Head(200, {"transfer-encoding": "chunked"}))
    decoded = b""
    while wire:
        cut = data.draw(st.integers(1, len(wire)))
        decoded += decoder.feed(wire[:cut])
        wire = wire[cut:]
    assert decoded == b"".join(chunks)
    assert decoder.is_finished


def fetch_over_tls(pki: Pki, **access: Any) -> bytes:
    """Fetch from a server of the authority."""
    secured = Access("127.0.0.1", 0, tls=True)._replace(**access)
    with serve([REPLY], access=secured, context=build_server_context(pki)) as (_, connection):
        return connection.fetch("GET", "/a").body


def test_fetch_tls_trusts_the_authority_or_without_verification_any_server(pki: Pki) -> None:
    ca_pem, key_pem = pki.ca_cert.read_text(), pki.server_key.read_text()
    client = {"client_cert_pem": pki.server_cert.read_text(), "client_key_pem": key_pem}
    for access in ({"ca_file": str(pki.ca_cert)}, {"ca_pem": ca_pem}, {"verify": False}):
        assert fetch_over_tls(pki, **access) == b"{}"
        assert fetch_over_tls(pki, **access, **client) == b"{}"


def test_fetch_tls_server_of_another_authority_or_name_is_refused(
    pki: Pki, other_pki: Pki, tmp_path: Path
) -> None:
    for access in (
        {"ca_file": str(pki.ca_cert), "server_name": "other"},
        {"ca_file": str(other_pki.ca_cert)},
    ):
        with pytest.raises(UnreachableError, match="certificate"):
            fetch_over_tls(pki, **access)
    (tmp_path / "ca.crt").write_text("no PEM")
    with pytest.raises(UnreachableError, match=r"ca\.crt"):
        fetch_over_tls(pki, ca_file=str(tmp_path / "ca.crt"))


def test_fetch_tls_ca_rotated_loads_the_new_one(pki: Pki, other_pki: Pki, tmp_path: Path) -> None:
    """The file of the CA and the server's certificate change; the connection object stays."""
    ca_file = tmp_path / "ca.crt"
    access = PLAIN._replace(tls=True, ca_file=str(ca_file))
    shutil.copy(pki.ca_cert, ca_file)
    with serve([REPLY], access=access, context=build_server_context(pki)) as (first, connection):
        assert connection.fetch("GET", "/a").body == b"{}"
        first.close()
        shutil.copy(other_pki.ca_cert, ca_file)
        second = RawServer([REPLY], context=build_server_context(other_pki), port=first.port)
        assert connection.fetch("GET", "/a").body == b"{}"
        second.close()


def test_fetch_gzip_answer_is_unpacked() -> None:
    content = gzip.compress(b'{"a":1}')
    with serve([head_of(content) + content], takes_gzip=True) as (server, connection):
        assert connection.fetch("GET", "/a").body == b'{"a":1}'
    assert b"\r\nAccept-Encoding: gzip\r\n" in server.requests[0]


@pytest.mark.parametrize("takes_gzip", [False, True])
def test_fetch_takes_the_largest_object(*, takes_gzip: bool) -> None:
    content = gzip.compress(LARGEST, 1) if takes_gzip else LARGEST
    head = head_of(content)
    if not takes_gzip:
        head = head.replace(b"Content-Encoding: gzip\r\n", b"")
    with serve([head + content], takes_gzip=takes_gzip) as (_, connection):
        assert connection.fetch("GET", "/a").body == LARGEST


def test_open_ahead_makes_the_next_request_wait_for_no_connection() -> None:
    with serve([REPLY]) as (_, connection):
        assert connection.get_descriptor() == -1
        connection.open()
        number = connection.get_descriptor()
        assert connection.fetch("GET", "/a").body == b"{}"
        assert connection.get_descriptor() == number


def test_open_after_the_server_closed_it_connects_again() -> None:
    """A kube-apiserver closes a connection after 32 s on which no request came."""
    with serve([], [REPLY]) as (_, connection):
        connection.open()
        select.select([connection.get_descriptor()], [], [], HANG_SECONDS)
        connection.open()
        # Unlike ``fetch`` this tries one connection only.
        assert connection.start("GET", "/a").status == 200


def test_open_again_over_tls_keeps_a_connection_with_an_unread_ticket(pki: Pki) -> None:
    access = PLAIN._replace(tls=True, ca_file=str(pki.ca_cert))
    with serve([REPLY], access=access, context=build_server_context(pki)) as (_, connection):
        connection.open()
        assert select.select([connection.get_descriptor()], [], [], HANG_SECONDS)[0], "the ticket"
        connection.open()
        # The server accepts one connection only.
        assert connection.start("GET", "/a").status == 200


def test_open_without_a_readable_ca_leaves_no_connection_in_the_clear(tmp_path: Path) -> None:
    """A failed ``open`` is ignored; the next request must not send the token without TLS."""
    access = PLAIN._replace(tls=True, ca_file=str(tmp_path / "ca.crt"))
    with serve([REPLY], access=access) as (server, connection):
        for connect in (connection.open, lambda: connection.fetch("GET", "/a")):
            with pytest.raises(UnreachableError, match=r"ca\.crt"):
                connect()
            assert connection.get_descriptor() == -1
    assert server.requests == []


@cases(
    "host server_name",
    {
        "host too long": ("\u00fc" * 70, ""),
        "host of no text": ("\udcff", ""),
        "name too long": ("127.0.0.1", "\u00fc" * 70),
        "name with a leading dot": ("127.0.0.1", ".kube"),
    },
)
def test_name_that_no_host_can_have_is_unreachable(pki: Pki, host: str, server_name: str) -> None:
    access = Access(host, 0, tls=True, ca_file=str(pki.ca_cert), server_name=server_name)
    with serve([], [], access=access) as (_, connection):
        for connect in (connection.open, lambda: connection.fetch("GET", "/a")):
            with pytest.raises(UnreachableError):
                connect()
            assert connection.get_descriptor() == -1
