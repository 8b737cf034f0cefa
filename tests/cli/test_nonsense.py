"""A server that answers nonsense: every command says so, with exit code 3 and no traceback."""

import itertools
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from click.testing import CliRunner

from cli.exitcodes import ExitCode
from cli.main import main
from tests.cli.calls import FRAMEWORK, write, write_kubeconfig

pytestmark = pytest.mark.usefixtures("home")

META = {"name": "gang", "namespace": "default", "uid": "u", "resourceVersion": "1"}
POD = {"metadata": META, "spec": {"containers": [{"name": "main"}]}}
ANSWERS = {
    "html": b"<html><body>log in</body></html>",
    "empty": b"",
    "not-an-object": b"[1, 2]",
    "no-items": b'{"kind": "List", "items": null, "metadata": null}',
    "odd-items": b'{"items": [1, "a", null], "metadata": {"resourceVersion": "1"}}',
    "deep": b"[" * 100_000,
    "huge": b'{"items": ["' + b"x" * (70 * 1024 * 1024) + b'"]}',
}
ODD_OBJECTS = [
    {"metadata": "x", "spec": [], "status": 3},
    {**POD, "metadata": {**META, "name": 5}},
    {**POD, "metadata": {**META, "labels": {"a": 1}}},
    {**POD, "spec": 7},
]
for number, odd in enumerate(ODD_OBJECTS):
    page = {"items": [odd], **odd} if isinstance(odd["metadata"], dict) else odd
    ANSWERS[f"object-{number}"] = json.dumps(page).encode()
ODD_PODS = [
    {**POD, "spec": {"containers": []}},
    {**POD, "spec": {"containers": [{"name": None}]}},
    {**POD, "status": {"containerStatuses": 5}},
    {**POD, "status": {"containerStatuses": [{"name": "main", "state": {"running": 1}}]}},
]
COMMANDS = [
    ("logs", "gang"),
    ("run", "f.yaml"),
    ("get", "gang"),
    ("stop", "gang"),
    ("describe", "gang"),
    ("tree", "gang"),
    ("events", "gang"),
]


@contextmanager
def serve(body: bytes) -> Iterator[str]:
    """Answer every request with the same body."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            try:
                self.wfile.write(body)
            except OSError:
                # The client has read as much as it takes.
                self.close_connection = True

        do_POST = do_PATCH = do_GET  # noqa: N815 the names are those of http.server

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def check(command: tuple[str, ...], body: bytes) -> None:
    write(FRAMEWORK)
    with serve(body) as server:
        kubeconfig = write_kubeconfig(server)
        result = CliRunner().invoke(main, [*command, "--kubeconfig", kubeconfig])
    assert result.exit_code == ExitCode.UNREACHABLE, result.output
    assert result.stderr.startswith("error: "), result.stderr
    assert isinstance(result.exception, SystemExit)
    assert len(result.output) < 2000


def mark_slow(command: tuple[str, ...], answer: str) -> Any:
    """Mark the huge answer, which costs a third of a second, for all commands but two."""
    is_slow = answer == "huge" and command[0] not in {"logs", "get"}
    marks = pytest.mark.slow if is_slow else ()
    return pytest.param(command, answer, marks=marks, id=f"{command[0]}-{answer}")


@pytest.mark.parametrize(
    ("command", "answer"), list(itertools.starmap(mark_slow, itertools.product(COMMANDS, ANSWERS)))
)
def test_nonsense_is_an_error(command: tuple[str, ...], answer: str) -> None:
    check(command, ANSWERS[answer])


@pytest.mark.parametrize("pod", ODD_PODS, ids=["none", "null", "statuses", "state"])
def test_pod_without_the_form_of_a_pod_is_an_error(pod: dict[str, object]) -> None:
    check(("logs", "gang"), json.dumps({"items": [pod], "metadata": {}}).encode())
