"""The HTTP client against raw bytes on a real socket."""

import contextlib
import gzip
import select
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

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
    _parse_head,
)

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
    connection = Connection(access, AgentClock(), 5.0, takes_gzip=takes_gzip)
    try:
        yield server, connection
    finally:
        connection.close()
        server.close()


def test_fetch_counted_body_reuses_the_connection() -> None:
    with serve([REPLY, REPLY]) as (server, connection):
        assert connection.fetch("GET", "/a").body == b"{}"
        assert connection.fetch("GET", "/b").body == b"{}"
    assert server.requests[1].startswith(b"GET /b HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"\r\nAuthorization: Bearer secret\r\n" in server.requests[0]


def test_fetch_kept_connection_was_closed_sends_again() -> None:
    with serve([REPLY], [REPLY]) as (server, connection):
        connection.fetch("GET", "/a")
        assert connection.fetch("GET", "/b").body == b"{}"
    assert len(server.requests) == 2


def test_fetch_with_body_sends_it_counted() -> None:
    reply = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"
    with serve([reply]) as (server, connection):
        answer = connection.fetch("POST", "/a", b'{"a":1}')
    assert answer.head.status == 201
    assert server.requests[0].endswith(b'Content-Length: 7\r\n\r\n{"a":1}')


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"HTTP/1.1 200", id="in-the-head"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{}", id="in-the-body"),
        pytest.param(CHUNKED + b"5\r\n{}", id="in-a-chunk"),
        pytest.param(CHUNKED + b"2\r\n{}\r\n", id="without-last-chunk"),
        pytest.param(CHUNKED + b"zz\r\n{}\r\n", id="bad-size"),
        pytest.param(CHUNKED + b"-2\r\n{}\r\n", id="negative-size"),
        pytest.param(b"SSH-2.0-OpenSSH\r\n\r\n", id="no-http"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", id="bad-length"),
    ],
)
def test_fetch_broken_answer_is_unreachable(reply: bytes) -> None:
    with serve([reply]) as (_, connection), pytest.raises(UnreachableError):
        connection.fetch("GET", "/a")


def test_fetch_silent_server_times_out() -> None:
    # The listener's backlog takes the connection; nobody ever answers.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        access = Access("127.0.0.1", listener.getsockname()[1], tls=False)
        connection = Connection(access, AgentClock(), 0.05)
        with pytest.raises(UnreachableError, match="no answer in time"):
            connection.fetch("GET", "/a")


def test_read_some_nothing_came_is_none_and_end_is_empty() -> None:
    with serve([CHUNKED + b"3\r\nabc\r\n", b"0\r\n\r\n"]) as (_, connection):
        assert connection.start("GET", "/a").status == 200
        assert connection.read_some(5.0) == b"abc"
        assert connection.read_some(0.01) is None


def test_head_retry_after_is_bounded() -> None:
    assert Head(429, {"retry-after": "7"}).retry_after_seconds == 7.0
    assert Head(429, {"retry-after": "86400"}).retry_after_seconds == 300.0
    assert Head(429, {"retry-after": "Wed, 21 Oct"}).retry_after_seconds is None


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


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls") / "first")


def make_certificate(directory: Path) -> Path:
    directory.mkdir()
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 "
        "-keyout key.pem -out cert.pem -subj /CN=kube -addext subjectAltName=IP:127.0.0.1"
    )
    try:
        subprocess.run(command.split(), cwd=directory, check=True, capture_output=True)
    except OSError:
        pytest.skip("openssl is not installed: apt-get install openssl")
    return directory


def build_context(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    return context


def fetch_over_tls(certificate: Path, access: Access) -> bytes:
    context = build_context(certificate)
    with serve([REPLY], access=access, context=context) as (_, connection):
        return connection.fetch("GET", "/a").body


def test_fetch_tls_with_the_clusters_ca_works(certificate: Path) -> None:
    ca_file = str(certificate / "cert.pem")
    access = Access("127.0.0.1", 0, tls=True, ca_file=ca_file)
    assert fetch_over_tls(certificate, access) == b"{}"
    inline = Access("127.0.0.1", 0, tls=True, ca_pem=Path(ca_file).read_text())
    assert fetch_over_tls(certificate, inline) == b"{}"


def test_fetch_tls_ca_rotated_loads_the_new_one(certificate: Path, tmp_path: Path) -> None:
    """The CA's file and the server's certificate are replaced; the same connection goes on."""
    other = make_certificate(tmp_path / "other")
    ca_file = tmp_path / "ca.crt"
    connection: Connection | None = None
    port = 0
    for directory in (certificate, other):
        shutil.copy(directory / "cert.pem", ca_file)
        server = RawServer([REPLY], context=build_context(directory), port=port)
        if connection is None:
            port = server.port
            access = Access("127.0.0.1", server.port, tls=True, ca_file=str(ca_file))
            connection = Connection(access, AgentClock(), 5.0)
        assert connection.fetch("GET", "/a").body == b"{}"
        server.close()
    assert connection is not None
    connection.close()


def test_fetch_gzip_answer_is_unpacked() -> None:
    content = gzip.compress(b'{"a":1}')
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(content)}\r\n\r\n"
    with serve([head.encode() + content], takes_gzip=True) as (server, connection):
        assert connection.fetch("GET", "/a").body == b'{"a":1}'
    assert b"\r\nAccept-Encoding: gzip\r\n" in server.requests[0]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"no gzip", id="no-gzip"),
        pytest.param(gzip.compress(b"{}" * 50, mtime=0)[:-9], id="cut-off"),
    ],
)
def test_fetch_broken_gzip_is_unreachable(content: bytes) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(content)}\r\n\r\n"
    with serve([head.encode() + content]) as (_, connection), pytest.raises(UnreachableError):
        connection.fetch("GET", "/a")


def test_open_ahead_makes_the_next_request_wait_for_no_connection() -> None:
    with serve([REPLY]) as (_, connection):
        assert connection.get_descriptor() == -1
        connection.open()
        number = connection.get_descriptor()
        assert connection.fetch("GET", "/a").body == b"{}"
        assert connection.get_descriptor() == number


def test_open_after_the_server_closed_it_connects_anew() -> None:
    """A kube-apiserver closes a connection after 32 s on which no request came."""
    with serve([], [REPLY]) as (_, connection):
        connection.open()
        select.select([connection.get_descriptor()], [], [], 5.0)
        connection.open()
        # Unlike ``fetch`` this tries one connection only.
        assert connection.start("GET", "/a").status == 200


def test_open_again_over_tls_keeps_a_connection_with_an_unread_ticket(certificate: Path) -> None:
    access = Access("127.0.0.1", 0, tls=True, ca_file=str(certificate / "cert.pem"))
    context = build_context(certificate)
    with serve([REPLY], access=access, context=context) as (_, connection):
        connection.open()
        assert select.select([connection.get_descriptor()], [], [], 5.0)[0], "the ticket"
        connection.open()
        # The server accepts one connection only.
        assert connection.start("GET", "/a").status == 200


def test_fetch_tls_stranger_is_refused(certificate: Path, tmp_path: Path) -> None:
    wrong_name = Access(
        "127.0.0.1", 0, tls=True, ca_file=str(certificate / "cert.pem"), server_name="other"
    )
    with pytest.raises(UnreachableError, match="certificate"):
        fetch_over_tls(certificate, wrong_name)
    (tmp_path / "ca.crt").write_text("no PEM")
    broken = Access("127.0.0.1", 0, tls=True, ca_file=str(tmp_path / "ca.crt"))
    with pytest.raises(UnreachableError, match=r"ca\.crt"):
        fetch_over_tls(certificate, broken)


def test_open_without_a_readable_ca_leaves_no_connection_in_the_clear(tmp_path: Path) -> None:
    """A failed ``open`` is ignored; the next request must not send the token without TLS."""
    access = PLAIN._replace(tls=True, ca_file=str(tmp_path / "ca.crt"))
    with serve([REPLY], access=access) as (server, connection):
        for connect in (connection.open, lambda: connection.fetch("GET", "/a")):
            with pytest.raises(UnreachableError, match=r"ca\.crt"):
                connect()
            assert connection.get_descriptor() == -1
    assert server.requests == []


@pytest.mark.parametrize(
    ("host", "server_name"),
    [
        pytest.param("\u00fc" * 70, "", id="host too long"),
        pytest.param("\udcff", "", id="host of no text"),
        pytest.param("127.0.0.1", "\u00fc" * 70, id="name too long"),
        pytest.param("127.0.0.1", ".kube", id="name with a leading dot"),
    ],
)
def test_name_that_no_host_can_have_is_unreachable(
    certificate: Path, host: str, server_name: str
) -> None:
    ca_file = str(certificate / "cert.pem")
    access = Access(host, 0, tls=True, ca_file=ca_file, server_name=server_name)
    with serve([], [], access=access) as (_, connection):
        for connect in (connection.open, lambda: connection.fetch("GET", "/a")):
            with pytest.raises(UnreachableError):
                connect()
            assert connection.get_descriptor() == -1


def test_fetch_tls_unverified_only_when_asked_for(certificate: Path) -> None:
    access = Access("127.0.0.1", 0, tls=True, verify=False)
    assert fetch_over_tls(certificate, access) == b"{}"


def test_fetch_tls_client_certificate_inline_is_loaded(certificate: Path) -> None:
    access = Access(
        "127.0.0.1",
        0,
        tls=True,
        ca_file=str(certificate / "cert.pem"),
        client_cert_pem=(certificate / "cert.pem").read_text(),
        client_key_pem=(certificate / "key.pem").read_text(),
    )
    assert fetch_over_tls(certificate, access) == b"{}"


@pytest.mark.parametrize(
    "head", ["HTTP/1.1 \u00b2 OK", "HTTP/1.1 " + "9" * 5000], ids=["superscript", "endless"]
)
def test_parse_head_of_no_number_is_unreachable(head: str) -> None:
    with pytest.raises(UnreachableError):
        _parse_head(head)


@pytest.mark.parametrize("length", ["\u00b2", "9" * 5000])
def test_body_of_a_length_that_is_no_number_is_unreachable(length: str) -> None:
    head = Head(200, {"content-length": length, "retry-after": length})
    assert head.retry_after_seconds is None
    with pytest.raises(UnreachableError):
        BodyDecoder(head)
