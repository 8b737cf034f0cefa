"""No program shows the token of an address, whatever the server does.

The kubeconfig of a local cluster has its token in the path of the server's URL, and others have a
user and a password in it. Each program is run as a process against a server that fails in one way.
"""

import contextlib
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from framework.agent.access import Access, parse_address
from framework.agent.clock import AgentClock
from framework.agent.connection import Connection, UnreachableError
from framework.api import constants
from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.config import KubeConfig
from framework.kube.errors import KubeError
from tests.support.servers.frameworkcrd import ROOT
from tests.support.slow import keep_first
from tests.support.waiting import HANG_SECONDS

SECRET = "s3cret-0123456789abcdef"
# How long a program may take to say what is wrong.
PROGRAMS = {
    "barrier": ["-m", "barrier"],
    "rendezvous": ["-m", "rendezvous", "watch"],
    "controller": ["-m", "controller", "--health-port", "0", "--log-level", "debug"],
    "run": ["-m", "cli.main", "run", "FILE"],
    "logs": ["-m", "cli.main", "logs", "gang"],
}
# What each program says once it has met the server.
# It says little, because it shares the output of the training.
QUIET = "rendezvous"
MODES = ("refused", "close", "garbage", "cut", "tls", "302", "401", "403", "404", "500", "502")
SAID = ("127.0.0.1", "HTTP ", "API server", "error", "hidden")
FRAMEWORK = {
    "apiVersion": constants.API_VERSION,
    "kind": "Framework",
    "metadata": {"name": "gang"},
    "spec": {"taskRoles": [{"name": "worker", "taskNumber": 1, "task": {"pod": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}}}}]},
}  # fmt: skip


class Handler(BaseHTTPRequestHandler):
    """Fails as ``mode`` says, and repeats the path of the request wherever a server may."""

    mode = ""

    def do_GET(self) -> None:
        if self.mode == "close":
            self.close_connection = True
        elif self.mode == "garbage":
            self.wfile.write(f"what is {self.path}?\r\n\r\n".encode())
            self.close_connection = True
        elif self.mode == "cut":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(self.path.encode())
            self.close_connection = True
        else:
            self.refuse(int(self.mode))

    def refuse(self, status: int) -> None:
        message = f'User "system:anonymous" cannot get path "{self.path}"'
        body = json.dumps({"kind": "Status", "message": message, "reason": "No"}).encode()
        if status in (302, 502):
            body = f'<a href="http://127.0.0.1{self.path}">moved</a>'.encode()
        self.send_response(status)
        self.send_header("Location", f"http://127.0.0.1{self.path}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_PATCH = do_PUT = do_GET  # noqa: N815 the names are those of http.server

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def serve(mode: str) -> Iterator[str]:
    """Serve, or do not: give scheme, host and port."""
    if mode == "refused":
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        yield f"http://127.0.0.1:{port}"
        return
    handler = type("Failing", (Handler,), {"mode": mode})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        scheme = "https" if mode == "tls" else "http"
        yield f"{scheme}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def build_env(folder: Path, address: str, *, in_file: bool) -> dict[str, str]:
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
        constants.WORKING_DIR_ENV: str(folder / "work"),
        constants.TERMINATION_LOG_ENV: str(folder / "termination"),
        constants.FRAMEWORK_NAMESPACE: "default",
        constants.FRAMEWORK_NAME: "gang",
        constants.CONFIGMAP_NAME: "gang-attempt",
        constants.CONFIGMAP_UID: "cm-uid",
        constants.FRAMEWORK_ATTEMPT_INSTANCE_UID: "0_cm-uid",
        constants.TASKROLE_NAME: "worker",
        constants.TASK_INDEX: "0",
        constants.TASK_ATTEMPT_ID: "0",
        constants.POD_NAME: "gang-worker-0",
        constants.POD_UID: "pod-uid",
    }
    if not in_file:
        return {**env, constants.KUBE_APISERVER_ADDRESS_ENV: address}
    kubeconfig = folder / "kubeconfig"
    content = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": {"server": address}}],
        "users": [{"name": "x", "user": {"token": SECRET}}],
    }
    kubeconfig.write_text(json.dumps(content))
    return {**env, constants.KUBECONFIG_ENV: str(kubeconfig)}


class Program:
    """A program that runs until it has said what is wrong; its output goes to a file."""

    def __init__(self, name: str, folder: Path, address: str, *, in_file: bool) -> None:
        folder.mkdir()
        (folder / "termination").touch()
        file = folder / "gang.yaml"
        file.write_text(json.dumps(FRAMEWORK))
        words = [str(file) if word == "FILE" else word for word in PROGRAMS[name]]
        self._folder = folder
        self._output = folder / "output"
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, *words],
                env=build_env(folder, address, in_file=in_file),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def finish(self, deadline: float) -> str:
        """Wait until it has said something of the server, end it, and return all it said."""
        while self._process.poll() is None and time.monotonic() < deadline:
            text = self._output.read_text()
            if any(word in text for word in SAID) and text.count("\n") > 1:
                break
            time.sleep(0.05)
        self._process.terminate()
        try:
            self._process.wait(HANG_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        return self._output.read_text() + (self._folder / "termination").read_text()


def run_all(folder: Path, address: str, *, in_file: bool) -> dict[str, str]:
    programs = {n: Program(n, folder / n, address, in_file=in_file) for n in PROGRAMS}
    deadline = time.monotonic() + HANG_SECONDS
    said = {n: p.finish(deadline) for n, p in programs.items() if n != QUIET}
    return {**said, QUIET: programs[QUIET].finish(0.0)}


@pytest.mark.parametrize(
    ("mode", "in_file"),
    keep_first(
        [("401", True), ("refused", False), ("403", True)]
        + [(mode, False) for mode in ("garbage", "tls", "302", "401", "403", "502")],
    ),
)
def test_program_that_fails_does_not_show_the_token_in_the_path(
    mode: str, tmp_path: Path, *, in_file: bool
) -> None:
    with serve(mode) as url:
        said = run_all(tmp_path, f"{url}/token/{SECRET}", in_file=in_file)
    for name, text in said.items():
        assert SECRET not in text, (name, text)
        assert name == QUIET or any(word in text for word in SAID), (name, text)


@pytest.mark.parametrize("mode", MODES)
def test_agents_client_does_not_tell_the_token_in_the_path(mode: str) -> None:
    with serve(mode) as url:
        tls, host, port, prefix = parse_address(f"{url}/token/{SECRET}")
        access = Access(host=host, port=port, tls=tls, path_prefix=prefix, verify=False)
        connection = Connection(access, AgentClock(), 5.0)
        try:
            told = connection.fetch("GET", "/version").describe()
        except UnreachableError as e:
            told = str(e)
        finally:
            connection.close()
    assert told
    assert SECRET not in told


@pytest.mark.looptime(False)  # noqa: FBT003 the name is that of the plugin
@pytest.mark.parametrize("mode", MODES)
async def test_client_does_not_tell_the_token_in_the_path(mode: str) -> None:
    with serve(mode) as url:
        config = KubeConfig(server=f"{url}/token/{SECRET}", token=SECRET)
        async with KubeClient(config, user_agent="test", clock=SystemClock()) as client:
            with pytest.raises(KubeError) as caught:
                await client.get_raw("/version", timeout_seconds=HANG_SECONDS)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "in_file"),
    keep_first(
        [
            (f"http://user:{SECRET}@127.0.0.1:1", False),
            (f"http://user:{SECRET}@127.0.0.1:1", True),
            (f"http://127.0.0.1:1/?token={SECRET}", False),
            (f"http://user:{SECRET}/x@127.0.0.1:1", False),
            (f"http://127.0.0.1:port/{SECRET}", True),
        ]
    ),
)
def test_program_with_a_bad_address_does_not_show_what_is_secret_in_it(
    address: str, tmp_path: Path, *, in_file: bool
) -> None:
    said = run_all(tmp_path, address, in_file=in_file)
    assert not {name: text for name, text in said.items() if SECRET in text}


def test_error_of_tls_is_one() -> None:
    """The server of mode ``tls`` speaks plain HTTP: that is what the programs must survive."""
    with serve("tls") as url:
        port = int(url.rpartition(":")[2])
        context = ssl.create_default_context()
        with socket.create_connection(("127.0.0.1", port), 5) as plain, pytest.raises(ssl.SSLError):
            context.wrap_socket(plain, server_hostname="localhost")
