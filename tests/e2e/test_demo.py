"""The demo as a user runs it: one command, a table of five Succeeded Tasks, nothing left."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.frameworkcrd import ROOT
from tests.support.frameworkserver import build_env
from tests.support.gang import find_processes
from tests.support.ordinaryuser import NOBODY, find_obstacle, wrap

pytestmark = [pytest.mark.local, pytest.mark.timeout(60)]

DEMO_SECONDS = 20.0
TASKS = ["ps/0", *(f"worker/{i}" for i in range(4))]


@pytest.fixture
def home() -> Iterator[Path]:
    """A home that also other users may enter; every process of the demo names it in its env."""
    path = Path(tempfile.mkdtemp(prefix="frameworkbarrier-demo-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def run_demo(home: Path, *options: str, new_root: Path | None = None) -> str:
    """Run the demo to its end, check what every user of it sees; give the cluster's log."""
    directory = home / "cluster"
    command = [str(Path(sys.executable).with_name("framework")), "run", "--local"]
    command += ["--directory", str(directory), *options, str(ROOT / "examples" / "gang.yaml")]
    if new_root is not None:
        command = wrap(command, new_root)
    env = build_env() | {"HOME": str(home), "TMPDIR": str(home)}
    started = time.monotonic()
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        env=env,
        timeout=2 * DEMO_SECONDS,
        start_new_session=True,
    )
    seconds = time.monotonic() - started
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    check_table(done.stdout)
    assert seconds < DEMO_SECONDS
    assert dict(find_processes(str(home))) == {}
    log = (directory / "cluster.log").read_text()
    assert "ERROR" not in log, log
    return log


def check_table(output: str) -> None:
    """Check the table at the end of the output: each Task Succeeded at its first attempt."""
    lines = output.splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("TASK "))
    assert "gang: Succeeded" in lines[head - 1]
    rows = [line.split() for line in lines[head + 1 : head + 1 + len(TASKS)]]
    assert rows == [[task, "Succeeded", "0", "0"] for task in TASKS], output


def test_demo_ends_with_five_succeeded_tasks(home: Path) -> None:
    run_demo(home)


def test_demo_with_path_replacement_succeeds(home: Path) -> None:
    log = run_demo(home, "--isolation", "paths")
    assert "private_root=False" in log


def test_demo_of_an_ordinary_user_without_namespaces_succeeds(home: Path) -> None:
    obstacle = find_obstacle()
    if obstacle is not None:
        pytest.skip(obstacle)
    os.chown(home, NOBODY, NOBODY)
    # The mount below it is private to the command: here the directory stays empty.
    new_root = home.with_name(f"{home.name}-root")
    new_root.mkdir()
    try:
        log = run_demo(home, new_root=new_root)
    finally:
        new_root.rmdir()
    assert (home / "cluster").stat().st_uid == NOBODY
    assert "no mount namespaces here, paths are replaced" in log
    assert "private_root=False" in log
