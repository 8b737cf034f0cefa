"""The demo as a user runs it: one command, a table of five Succeeded Tasks, nothing left."""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.docs.pasted import read_sample
from tests.docs.sample import find_difference
from tests.support.machine.ordinaryuser import NOBODY, find_obstacle, wrap, wrap_with_namespaces
from tests.support.measuring.pace import expect_within
from tests.support.servers.frameworkcrd import ROOT
from tests.support.servers.frameworkserver import build_env
from tests.support.servers.gang import find_processes
from tests.support.waiting import HANG_SECONDS, wait_until

pytestmark = pytest.mark.local

DEMO_SECONDS = 20.0
Wrapper: TypeAlias = Callable[[list[str]], list[str]]
TASKS = ["ps/0", *(f"worker/{i}" for i in range(4))]


@pytest.fixture
def home() -> Iterator[Path]:
    """A home that also other users may enter; every process of the demo names it in its env."""
    path = Path(tempfile.mkdtemp(prefix="frameworkbarrier-demo-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def other_home(home: Path) -> Path:
    """The home of an ordinary user."""
    obstacle = find_obstacle()
    if obstacle is not None:
        pytest.skip(obstacle)
    os.chown(home, NOBODY, NOBODY)
    return home


def run_demo(home: Path, *options: str, wrapper: Wrapper | None = None) -> str:
    """Run the demo to its end, check its output, and return the cluster's log."""
    return run_to_end(home, *options, directory=home / "cluster", wrapper=wrapper)[0]


def run_to_end(
    home: Path, *options: str, directory: Path | None, wrapper: Wrapper | None = None
) -> tuple[str, str]:
    """Run the demo to its end, check its output, and return the cluster's log and the output."""
    command = [str(Path(sys.executable).with_name("framework")), "run", "--local"]
    command += [] if directory is None else ["--directory", str(directory)]
    command += [*options, str(ROOT / "examples" / "gang.yaml")]
    if wrapper is not None:
        command = wrapper(command)
    env = build_env() | {"HOME": str(home), "TMPDIR": str(home)}
    with expect_within(DEMO_SECONDS):
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            env=env,
            timeout=HANG_SECONDS,
            start_new_session=True,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    check_table(done.stdout)
    notes = done.stderr.splitlines()
    # A process that the end of the cluster has killed may take a moment to go.
    wait_until(lambda: not list_processes(home), lambda: f"{list_processes(home)}")
    used = directory or next(home.glob("framework-*"))
    log = (used / "cluster.log").read_text()
    assert "ERROR" not in log, log
    # The limits of the loopback network are noted in one line.
    assert len(notes) == ("network=LoopbackNetwork" in log)
    assert all(note.startswith("note: ") for note in notes)
    return log, done.stdout


def list_processes(home: Path) -> dict[int, str]:
    return dict(find_processes(str(home)))


def check_table(output: str) -> None:
    """Check the table at the end of the output: each Task Succeeded at its first attempt."""
    lines = output.splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("TASK "))
    assert "gang: Succeeded" in lines[head - 1]
    rows = [line.split() for line in lines[head + 1 : head + 1 + len(TASKS)]]
    assert rows == [[task, "Succeeded", "0", "0"] for task in TASKS], output


def test_demo_ends_with_five_succeeded_tasks(home: Path) -> None:
    # As `make demo` calls it.
    _, output = run_to_end(home, "--logs", directory=None)
    assert find_difference(read_sample(), output.splitlines()) == ""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sidecar", "wrapper"])
def test_demo_with_injected_agents_succeeds(home: Path, mode: str) -> None:
    # framework inject --rendezvous MODE examples/gang.yaml | framework run --local -
    run_demo(home, wrapper=lambda command: inject_before(command, mode))
    started = {path.name for path in (home / "cluster" / "logs").glob("*/*.log")}
    assert started == {"barrier.log", "rendezvous.log", "train.log"}


def inject_before(command: list[str], mode: str) -> list[str]:
    """Make the shell's line that has agents injected into the command's file."""
    framework, *options, file = command
    inject = shlex.join([framework, "inject", "--rendezvous", mode, file])
    # With the wrapper, inject notes on stderr that it leaves the token to the training.
    return ["sh", "-c", f"{inject} 2>/dev/null | {shlex.join([framework, *options, '-'])}"]


@pytest.mark.slow
def test_demo_with_path_replacement_succeeds(home: Path) -> None:
    log = run_demo(home, "--isolation", "paths")
    assert "private_root=False" in log


@pytest.mark.slow
def test_demo_of_an_ordinary_user_without_namespaces_succeeds(other_home: Path) -> None:
    # The mount below it is private to the command: here the directory stays empty.
    new_root = other_home.with_name(f"{other_home.name}-root")
    new_root.mkdir()
    try:
        log = run_demo(other_home, wrapper=lambda command: wrap(command, new_root))
    finally:
        new_root.rmdir()
    assert (other_home / "cluster").stat().st_uid == NOBODY
    assert "no mount namespaces here, paths are replaced" in log
    assert "private_root=False" in log
    assert "network=LoopbackNetwork" in log


@pytest.mark.slow
def test_demo_of_an_ordinary_user_with_namespaces_has_a_network_for_each_pod(
    other_home: Path, tmp_path: Path
) -> None:
    log = run_demo(other_home, wrapper=lambda command: wrap_with_namespaces(command, tmp_path))
    assert (other_home / "cluster").stat().st_uid == NOBODY
    assert "private_root=True network=NamespaceNetwork" in log
