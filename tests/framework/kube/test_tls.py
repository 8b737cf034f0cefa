"""framework.kube over TLS: whom it trusts, who it is, and what it says when that fails."""

import asyncio
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from framework.kube.config import ConfigError, KubeConfig
from framework.kube.errors import UnreachableError
from tests.framework.kube.conftest import Bench
from tests.support.waiting import HANG_SECONDS

pytestmark = [
    pytest.mark.skipif(shutil.which("openssl") is None, reason="install openssl"),
]


class Authority:
    """A certificate authority in a directory."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.directory = directory
        self.cert = directory / "ca.crt"
        self.key = directory / "ca.key"
        self._openssl("req", "-x509", "-subj", "/CN=ca", "-keyout", self.key, "-out", self.cert)

    def issue(self, name: str) -> tuple[Path, Path]:
        cert, key = self.directory / f"{name}.crt", self.directory / f"{name}.key"
        signer = ("-CA", self.cert, "-CAkey", self.key)
        subject = ("-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}")
        self._openssl("req", "-x509", *subject, *signer, "-keyout", key, "-out", cert)
        return cert, key

    def _openssl(self, *arguments: str | Path) -> None:
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
        subprocess.run(["openssl", *arguments, *curve], check=True, capture_output=True)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki") / "one")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki") / "two")


def build_server_context(authority: Authority) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server.test"))
    return context


@contextmanager
def serve_endlessly(authority: Authority) -> Iterator[tuple[str, threading.Event]]:
    """Answer one request with the head of an endless body, and never end TLS from this side.

    The event is set when the other side has closed its socket.
    """
    context, ended = build_server_context(authority), threading.Event()
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"

    def respond() -> None:
        accepted, _ = listener.accept()
        with socket.socket(fileno=os.dup(accepted.fileno())) as bare:
            bare.settimeout(HANG_SECONDS)
            with context.wrap_socket(accepted, server_side=True) as secured:
                secured.recv(65536)
                secured.sendall(head)
                while bare.recv(65536):
                    pass
        ended.set()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=respond)
        thread.start()
        yield f"https://127.0.0.1:{listener.getsockname()[1]}", ended
        thread.join()


@asynccontextmanager
async def serve(authority: Authority, *, wants_client: bool = False) -> AsyncIterator[str]:
    """Answer ``{"cn": ...}`` with the client certificate's name to every request."""
    context = build_server_context(authority)
    if wants_client:
        context.load_verify_locations(authority.cert)
        context.verify_mode = ssl.CERT_OPTIONAL

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        peer = writer.get_extra_info("peercert") or {}
        name = peer["subject"][0][0][1] if peer else ""
        body = b'{"cn":"%s"}' % name.encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(respond, "127.0.0.1", 0, ssl=context)
    try:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await server.wait_closed()


async def ask(bench: Bench, config: KubeConfig) -> bytes:
    client = await bench.open(config)
    return await client.get_raw("/readyz", timeout_seconds=HANG_SECONDS)


async def test_server_of_the_given_ca_file_is_trusted(bench: Bench, authority: Authority) -> None:
    async with serve(authority) as url:
        config = KubeConfig(server=url, ca_file=str(authority.cert), tls_server_name="server.test")
        assert await ask(bench, config) == b'{"cn":""}'


async def test_server_of_the_given_ca_text_is_trusted(bench: Bench, authority: Authority) -> None:
    async with serve(authority) as url:
        pem = authority.cert.read_text()
        config = KubeConfig(server=url, ca_pem=pem, tls_server_name="server.test")
        assert await ask(bench, config) == b'{"cn":""}'


async def test_server_of_a_stranger_is_not_trusted_and_gets_no_request(
    bench: Bench, authority: Authority, stranger: Authority
) -> None:
    async with serve(authority) as url:
        config = KubeConfig(server=url, ca_file=str(stranger.cert), tls_server_name="server.test")
        with pytest.raises(UnreachableError, match=r"(?i)certificate") as caught:
            await ask(bench, config)
        assert not caught.value.maybe_applied


async def test_server_with_another_name_is_not_trusted(bench: Bench, authority: Authority) -> None:
    async with serve(authority) as url:
        with pytest.raises(UnreachableError, match=r"(?i)certificate"):
            await ask(bench, KubeConfig(server=url, ca_file=str(authority.cert)))


async def test_unverified_server_is_taken_as_it_is(bench: Bench, authority: Authority) -> None:
    async with serve(authority) as url:
        assert await ask(bench, KubeConfig(server=url, verify=False)) == b'{"cn":""}'


async def test_rotated_ca_file_is_read_after_the_first_failure(
    bench: Bench, authority: Authority, stranger: Authority, tmp_path: Path
) -> None:
    ca_file = tmp_path / "ca.crt"
    shutil.copy(stranger.cert, ca_file)
    async with serve(authority) as url:
        client = await bench.open(
            KubeConfig(server=url, ca_file=str(ca_file), tls_server_name="server.test")
        )
        with pytest.raises(UnreachableError):
            await client.get_raw("/readyz")
        shutil.copy(authority.cert, ca_file)
        with pytest.raises(UnreachableError):
            await client.get_raw("/readyz")
        assert await client.get_raw("/readyz") == b'{"cn":""}'


@pytest.mark.parametrize("is_inline", [False, True])
async def test_client_certificate_says_who_we_are(
    bench: Bench, authority: Authority, *, is_inline: bool
) -> None:
    cert, key = authority.issue("alice")
    identity: dict[str, Any] = (
        {"client_cert_pem": cert.read_text(), "client_key_pem": key.read_text()}
        if is_inline
        else {"client_cert_file": str(cert), "client_key_file": str(key)}
    )
    async with serve(authority, wants_client=True) as url:
        config = KubeConfig(server=url, verify=False, **identity)
        assert await ask(bench, config) == b'{"cn":"alice"}'


async def test_client_without_a_certificate_needs_no_place_for_files(
    bench: Bench, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> str:
        raise FileNotFoundError("No usable temporary directory found")  # a read-only root

    monkeypatch.setattr(tempfile, "gettempdir", refuse)
    async with serve(authority) as url:
        config = KubeConfig(server=url, ca_file=str(authority.cert), tls_server_name="server.test")
        assert await ask(bench, config) == b'{"cn":""}'


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"ca_pem": "no certificate"}, "certificate-authority-data: no usable CA certificate"),
        ({"client_cert_pem": "x", "client_key_pem": "y"}, "client-certificate-data: no usable"),
        ({"ca_file": "/nowhere/ca.crt"}, "/nowhere/ca.crt: no usable CA certificate"),
    ],
)
async def test_unusable_certificate_is_a_configuration_error(
    fields: dict[str, Any], expected: str, bench: Bench
) -> None:
    with pytest.raises(ConfigError, match=expected):
        await bench.open(KubeConfig(server="https://h", **fields))


async def test_stream_left_early_holds_no_socket_until_the_server_says_goodbye(
    bench: Bench, authority: Authority
) -> None:
    with serve_endlessly(authority) as (url, ended):
        client = await bench.open(KubeConfig(server=url, verify=False))
        async with aclosing(client.stream_raw("/logs")) as chunks:
            assert await anext(chunks) == b"x"
        assert await asyncio.to_thread(ended.wait, 2)
