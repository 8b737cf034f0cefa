"""`framework local` with bad input, and in a directory that is used: messages and exit codes."""

import fcntl
import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from cli.exitcodes import ExitCode
from cli.local.state import ClusterState
from tests.cli.calls import call, check_refusal

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield taken.getsockname()[1]


def test_local_up_with_a_port_in_use_names_it(taken_port: int) -> None:
    message = f"--port: port {taken_port} on 127.0.0.1 is in use: choose another"
    check_refusal(call("local", "up", "--port", str(taken_port)), message)


def test_local_up_in_a_file_says_so(home: Path) -> None:
    (home / "file").touch()
    check_refusal(call("local", "up", "--directory", "file"), "--directory: cannot write to")


@pytest.mark.parametrize("command", ["status", "down"])
def test_local_command_without_a_cluster_says_so(command: str) -> None:
    result = call("local", command)
    assert result.exit_code == (ExitCode.FAILED if command == "status" else ExitCode.SUCCEEDED)
    assert "no local cluster runs" in result.stdout


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Lock a directory as a local cluster does."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(("command", "code"), [("status", 0), ("down", 1)])
def test_local_command_in_the_directory_of_a_run_says_what_runs_there(
    home: Path, command: str, code: int
) -> None:
    (home / "kubeconfig").touch()
    with locked(home):
        result = call("local", command, "--directory", str(home))
    assert result.exit_code == code
    assert f"`framework run --local` runs in {home}" in result.output


def test_local_down_waits_for_the_pods_too(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `local up` right after it would find the directory taken."""
    state = {"pid": 1, "server": "", "kubeconfig": "", "directory": str(home), "started_at": ""}
    (home / "state.json").write_text(json.dumps(state))
    has_ended = threading.Event()
    cluster = ExitStack()
    lock = cluster.enter_context((home / "lock").open("wb"))
    fcntl.flock(lock, fcntl.LOCK_EX)

    def end() -> None:
        has_ended.set()
        cluster.close()

    def kill(pid: int, number: int) -> None:
        assert (pid, number) == (1, signal.SIGTERM)
        (home / "state.json").unlink()
        threading.Timer(0.2, end).start()

    monkeypatch.setattr("cli.local.commands.os.kill", kill)
    cluster.enter_context(locked(home))
    result = call("local", "down", "--directory", str(home))
    assert result.output == "stopped\n"
    assert has_ended.is_set()


@pytest.mark.parametrize("named", [["--directory"], []], ids=["named", "default"])
def test_local_up_while_a_cluster_runs_names_its_kubeconfig(
    home: Path, monkeypatch: pytest.MonkeyPatch, named: list[str]
) -> None:
    monkeypatch.setattr(
        "cli.local.commands.read_state",
        lambda _: ClusterState(
            pid=1, server="", kubeconfig="/a b", directory=str(home), started_at=""
        ),
    )
    result = call("local", "up", *named, *[str(home)] * len(named))
    assert result.exit_code == ExitCode.USAGE
    assert "a local cluster runs already (process 1" in result.stderr
    assert result.stderr.endswith("\nerror: to use it: export KUBECONFIG='/a b'\n")


def test_local_status_of_a_cluster_without_a_server_yet_is_no_success(home: Path) -> None:
    """Scripts wait for success before they use the cluster."""
    with locked(home):
        result = call("local", "status", "--directory", str(home))
    assert result.exit_code == ExitCode.FAILED
    assert "KUBECONFIG" not in result.output
