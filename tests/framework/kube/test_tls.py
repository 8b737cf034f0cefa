"""framework.kube over TLS: which servers are trusted, client certificates, and messages."""

import asyncio
import os
import shutil
import socket
import ssl
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from framework.kube.config import ConfigError, KubeConfig
from framework.kube.errors import UnreachableError
from tests.framework.kube.conftest import Bench
from tests.framework.kube.scripted import Reply, ScriptedServer
from tests.support.builders.cases import cases
from tests.support.servers.pki import Pki, build_server_context, issue_certificate
from tests.support.waiting import HANG_SECONDS


@asynccontextmanager
async def serve(pki: Pki, *, wants_client: bool = False) -> AsyncIterator[ScriptedServer]:
    context = build_server_context(pki)
    if wants_client:
        context.load_verify_locations(pki.ca_cert)
        context.verify_mode = ssl.CERT_OPTIONAL
    async with ScriptedServer(Reply(), context=context) as server:
        yield server


async def ask(bench: Bench, config: KubeConfig) -> bytes:
    client = await bench.open(config)
    return await client.get_raw("/readyz", timeout_seconds=HANG_SECONDS)


@contextmanager
def serve_endlessly(pki: Pki) -> Iterator[tuple[str, threading.Event]]:
    """Answer one request with the head of an endless body, and never end TLS from this side.

    The event is set when the other side has closed its socket.
    """
    context, ended = build_server_context(pki), threading.Event()
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


TRUST: dict[str, Callable[[Pki], dict[str, Any]]] = {
    "file": lambda pki: {"ca_file": str(pki.ca_cert)},
    "text": lambda pki: {"ca_pem": pki.ca_cert.read_text()},
    "other name": lambda pki: {"ca_file": str(pki.ca_cert), "tls_server_name": "kubernetes"},
    "not verified": lambda _: {"verify": False},
}


async def test_client_of_plain_http_needs_no_ca(bench: Bench, tmp_path: Path) -> None:
    server = await bench.serve(Reply(body=b"ok"))
    missing = str(tmp_path / "missing.crt")
    assert await ask(bench, KubeConfig(server=server.url, ca_file=missing)) == b"ok"
    for config in (
        KubeConfig(server="HTTPS://h", ca_file=missing),
        KubeConfig(server=server.url, proxy_url="https://h", ca_file=missing),
    ):
        with pytest.raises(ConfigError, match="no usable CA certificate"):
            await bench.open(config)


@cases("trust", TRUST)
async def test_server_of_the_given_authority_is_trusted(
    bench: Bench, pki: Pki, trust: Callable[[Pki], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> str:
        raise FileNotFoundError("No usable temporary directory found")  # a read-only root

    monkeypatch.setattr(tempfile, "gettempdir", refuse)
    async with serve(pki) as server:
        assert await ask(bench, KubeConfig(server=server.url, **trust(pki))) == b"{}"
        assert server.seen[0].client_name == ""


async def test_server_of_another_authority_or_name_is_refused_and_gets_no_request(
    bench: Bench, pki: Pki, other_pki: Pki
) -> None:
    async with serve(pki) as server:
        for ca_file, name in ((other_pki.ca_cert, None), (pki.ca_cert, "server.test")):
            config = KubeConfig(server=server.url, ca_file=str(ca_file), tls_server_name=name)
            with pytest.raises(UnreachableError, match=r"(?i)certificate") as caught:
                await ask(bench, config)
            assert not caught.value.maybe_applied
        assert server.seen == []


async def test_rotated_ca_file_is_read_after_the_first_failure(
    bench: Bench, pki: Pki, other_pki: Pki, tmp_path: Path
) -> None:
    ca_file = tmp_path / "ca.crt"
    shutil.copy(other_pki.ca_cert, ca_file)
    async with serve(pki) as server:
        client = await bench.open(KubeConfig(server=server.url, ca_file=str(ca_file)))
        with pytest.raises(UnreachableError):
            await client.get_raw("/readyz")
        shutil.copy(pki.ca_cert, ca_file)
        with pytest.raises(UnreachableError):
            await client.get_raw("/readyz")
        assert await client.get_raw("/readyz") == b"{}"


@pytest.mark.parametrize("is_inline", [False, True])
async def test_client_certificate_names_the_client(
    bench: Bench, pki: Pki, *, is_inline: bool
) -> None:
    issue_certificate(pki.folder, "alice", "/CN=alice", "clientAuth")
    cert, key = pki.folder / "alice.crt", pki.folder / "alice.key"
    identity: dict[str, Any] = {"client_cert_file": str(cert), "client_key_file": str(key)}
    if is_inline:
        identity = {"client_cert_pem": cert.read_text(), "client_key_pem": key.read_text()}
    async with serve(pki, wants_client=True) as server:
        await ask(bench, KubeConfig(server=server.url, verify=False, **identity))
        assert server.seen[0].client_name == "alice"


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


async def test_stream_left_early_closes_its_socket_before_the_server_ends_tls(
    bench: Bench, pki: Pki
) -> None:
    with serve_endlessly(pki) as (url, ended):
        client = await bench.open(KubeConfig(server=url, verify=False))
        async with aclosing(client.stream_raw("/logs")) as chunks:
            assert await anext(chunks) == b"x"
            bench.stop_time()  # so it does not end by the limit for the end of TLS
        assert await asyncio.to_thread(ended.wait, HANG_SECONDS)
