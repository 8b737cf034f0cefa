"""``framework port-forward`` on a local cluster, by the real kubectl."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.test_sessions import ROOT, read_until, start
from tests.support.servers.binaries import find_kubectl
from tests.support.servers.commandline import call_in_process
from tests.support.waiting import HANG_SECONDS

KUBECTL = find_kubectl()

pytestmark = [
    pytest.mark.local,
    pytest.mark.skipif(KUBECTL is None, reason="no kubectl: let make test-kube build it"),
]

# Answers after the end of the input, as a client needs that closes one direction only.
SERVER = """
import socket
server = socket.create_server(("", 0))
print("port", server.getsockname()[1], flush=True)
while True:
    connection, _ = server.accept()
    count = 0
    while chunk := connection.recv(65536):
        count += len(chunk)
    connection.sendall(b"%d bytes" % count)
    connection.close()
"""


@pytest.fixture(scope="module")
def gang(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, str], str]]:
    """A server in a Pod; gives the environment of clients and the port of the server."""
    folder = tmp_path_factory.mktemp("gang")
    container = {"name": "main", "image": "any", "command": [sys.executable, "-c", SERVER]}
    spec = {"restartPolicy": "Never", "containers": [container]}
    role = {"name": "worker", "taskNumber": 1, "task": {"pod": {"spec": spec}}}
    body = {
        "apiVersion": "frameworkcontroller.microsoft.com/v1",
        "kind": "Framework",
        "metadata": {"name": "gang"},
        "spec": {"taskRoles": [role]},
    }
    file = folder / "gang.json"
    file.write_text(json.dumps(body))
    cluster = folder / "cluster"
    assert KUBECTL is not None
    path = os.pathsep.join([str(Path(KUBECTL).parent), os.environ["PATH"]])
    with start("run", "--logs", "--local", "--directory", str(cluster), str(file)) as program:
        seen = read_until(program, r"port \d+")
        found = re.search(r"port (\d+)", seen)
        assert found is not None
        yield {"KUBECONFIG": str(cluster / "kubeconfig"), "PATH": path}, found[1]
        program.send_signal(signal.SIGINT)
        program.communicate()


@contextmanager
def forward(env: dict[str, str], port: str) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """Forward a free port of this machine; give the program and the port."""
    command = [sys.executable, "-m", "cli.main", "port-forward", "gang", "worker/0", f":{port}"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, **env},
    ) as program:
        try:
            assert program.stdout is not None
            line = program.stdout.readline()
            found = re.match(r"Forwarding from 127\.0\.0\.1:(\d+) -> ", line)
            assert found is not None, line
            yield program, int(found[1])
        finally:
            program.kill()


def test_a_local_port_leads_into_the_pod_and_ctrl_c_ends_it(
    gang: tuple[dict[str, str], str],
) -> None:
    env, port = gang
    with forward(env, port) as (program, local_port):
        for size in (0, 5, 3_000_000):
            with socket.create_connection(("127.0.0.1", local_port), HANG_SECONDS) as connection:
                connection.sendall(bytes(size))
                connection.shutdown(socket.SHUT_WR)
                assert connection.makefile().read() == f"{size} bytes"
        program.send_signal(signal.SIGINT)
        assert program.wait(HANG_SECONDS) == 0


def test_a_port_on_which_nothing_listens_is_told(gang: tuple[dict[str, str], str]) -> None:
    env, _ = gang
    with forward(env, "1") as (program, local_port):
        with socket.create_connection(("127.0.0.1", local_port), HANG_SECONDS) as connection:
            assert connection.recv(1) == b""
        program.send_signal(signal.SIGINT)
        _, errors = program.communicate(timeout=HANG_SECONDS)
    assert "port 1 to pod gang-worker-0: connection refused: no program in the Pod" in errors


def test_ports_of_another_form_are_refused(gang: tuple[dict[str, str], str]) -> None:
    answer = call_in_process("port-forward", "gang", "worker/0", "6006/tcp", **gang[0])
    assert answer.code == 2
    assert "write it as 6006, 8080:6006 or :6006" in answer.err
