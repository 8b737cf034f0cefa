"""Two `make` targets at once in a fresh clone: the second waits for the first one's `make init`."""

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# `python -m venv` of a clone in which pip and all packages are there at once.
PYTHON = """#!/bin/sh
[ "$1 $2" = "-m venv" ] && mkdir -p .venv/bin && cp "$0" .venv/bin/python && echo venv >> calls
[ "$1 $2 $3" = "-m pip install" ] && echo pip >> calls
exit 0
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone with the files that `make init` reads, and a Python that installs nothing."""
    for name in ("tools", "requirements", "localcluster"):
        (tmp_path / name).mkdir()
    for name in ("tools/init", "tools/initprogress", "tools/installlocked"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    for name in ("requirements/dev.txt", "pyproject.toml", "localcluster/pyproject.toml"):
        (tmp_path / name).write_text("a==1.0\n")
        os.utime(tmp_path / name, (0, 0))
    python = tmp_path / "python3"
    python.write_text(PYTHON)
    python.chmod(0o755)
    return tmp_path


def start(clone: Path) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHON": str(clone / "python3")}
    return subprocess.Popen(
        ["sh", "tools/init"], cwd=clone, env=environment, text=True, stderr=subprocess.PIPE
    )


def list_calls(clone: Path) -> list[str]:
    calls = clone / "calls"
    return calls.read_text().split() if calls.exists() else []


@pytest.mark.parametrize(
    ("is_done", "more"),
    [(True, []), (False, ["venv", "pip", "pip"])],
    ids=["that-succeeds", "that-fails"],
)
def test_second_init_waits_for_the_first(clone: Path, *, is_done: bool, more: list[str]) -> None:
    with (clone / ".venv.lock").open("w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        second = start(clone)
        assert second.stderr is not None
        message = second.stderr.readline()
        assert list_calls(clone) == []
        if is_done:
            (clone / ".venv").mkdir()
            (clone / ".venv" / "stamp").write_text(f"{clone}\n")
    second.communicate()
    assert message == "make init: another make init is running here: waiting for its end\n"
    assert (second.returncode, list_calls(clone)) == (0, more)


def test_init_that_runs_alone_does_not_wait(clone: Path) -> None:
    process = start(clone)
    _, stderr = process.communicate()
    assert (process.returncode, "waiting" in stderr) == (0, False)
    assert list_calls(clone) == ["venv", "pip", "pip"]
    assert (clone / ".venv" / "stamp").read_text() == f"{clone}\n"
