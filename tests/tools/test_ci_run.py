"""`.ci/run` lists each suite as passed, failed or skipped, and fails accordingly."""

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import IO

import pytest

from tests.support.machine.processes import is_running
from tests.support.waiting import wait_until

ROOT = Path(__file__).parent.parent.parent
SUMMARY = "====== 12 passed, 1 skipped in 3.21s ======"
# `make TARGET`, and the Python of .venv: each prints the file of its name, if there is one.
FAKE_MAKE = """\
#!/bin/sh
if [ -e "answers/$1" ]; then cat "answers/$1"; fi
if [ -e "answers/$1.stays" ]; then sleep 300 & echo $! >"answers/$1.stays"; fi
if [ -e "answers/$1.waits" ]; then echo $$ >"answers/$1.waits"; exec sleep 300; fi
if [ -e "answers/$1.fails" ]; then exit 2; fi
"""
FAKE_PYTHON = '#!/bin/sh\nexec ./make "$2${4:+-$5}"\n'


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose suites all pass."""
    for name in (".ci", ".venv/bin", "answers", "difftest"):
        (tmp_path / name).mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    for name, script in (("make", FAKE_MAKE), (".venv/bin/python", FAKE_PYTHON)):
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "difftest" / "run.py").touch()
    answer(tmp_path, "test", SUMMARY)
    answer(tmp_path, "test-kube", "==== 40 passed in 70.00s (0:01:10) ====")
    answer(tmp_path, "tests.kube.difftest-local", "difftest on local: passed in 60 s")
    return tmp_path


def answer(checkout: Path, target: str, text: str, *, fails: bool = False) -> None:
    (checkout / "answers" / target).write_text(text + "\n")
    if fails:
        (checkout / "answers" / f"{target}.fails").touch()


def run(checkout: Path, **env: str) -> tuple[int, list[str]]:
    """Run it; return the exit code and the lines after those of the suites."""
    with start(checkout, subprocess.PIPE, **env) as script:
        output, _ = script.communicate()
    *_, results = output.partition("=== results\n")
    return script.returncode, results.splitlines()


def start(checkout: Path, output: int | IO[str], **env: str) -> subprocess.Popen[str]:
    inherited = {key: value for key, value in os.environ.items() if key != "CI"}
    path = f"{checkout}:{os.environ['PATH']}"
    env = {**inherited, "PATH": path, "DIFFTEST_DIR": "difftest", **env}
    return subprocess.Popen(
        [".ci/run"], cwd=checkout, env=env, stdout=output, stderr=subprocess.STDOUT, text=True
    )


def test_ci_run_with_all_suites_passed_lists_each_and_ends_with_the_summary(checkout: Path) -> None:
    code, lines = run(checkout, CI="true")
    assert code == 0
    assert [line.split()[-8:] for line in lines[:6]] == [
        ["packages", "passed"],
        ["control", "plane", "passed"],
        ["lint", "passed"],
        ["docs", "passed"],
        ["stacks", "passed"],
        ["test", "passed", *["12", "passed,", "1", "skipped", "in", "3.21s"]],
    ]
    others = ["test-slow", "fuzz", "difftest local", "difftest kube", "test-release"]
    others += ["test-kube", "test-node", "attacks", "test-consumers"]
    assert [line[:25].rstrip() for line in lines[6:-1]] == [f"{n:<18} passed" for n in others]
    assert lines[8].endswith("difftest on local: passed in 60 s")
    assert lines[-1] == SUMMARY


@pytest.mark.parametrize("failed", ["test-kube", "test-node"])
def test_ci_run_with_a_failed_suite_runs_the_others_and_fails(failed: str, checkout: Path) -> None:
    answer(checkout, failed, "==== 1 failed, 39 passed in 70.00s ====", fails=True)
    code, lines = run(checkout)
    assert code == 1
    assert f"{failed:<18} failed   1 failed, 39 passed in 70.00s" in lines
    assert "test-consumers     passed" in [line.rstrip() for line in lines]
    assert lines[-1] == SUMMARY


@pytest.mark.parametrize(("ci", "code"), [("", 0), ("true", 1)])
def test_ci_run_with_a_skipped_suite_fails_in_ci_only(ci: str, code: int, checkout: Path) -> None:
    answer(checkout, "test-node", "SKIPPED: a node needs root")
    exit_code, lines = run(checkout, CI=ci)
    assert exit_code == code
    assert "test-node          skipped  SKIPPED: a node needs root" in lines


@pytest.mark.parametrize(
    ("folder", "code", "detail"),
    [
        ("none", 0, "DIFFTEST_DIR=none"),
        ("gone", 1, "no recordings in gone: set DIFFTEST_DIR, or DIFFTEST_DIR=none"),
    ],
)
def test_ci_run_without_recordings_fails_in_ci_unless_they_are_switched_off(
    folder: str, code: int, detail: str, checkout: Path
) -> None:
    exit_code, lines = run(checkout, CI="true", DIFFTEST_DIR=folder)
    assert exit_code == code
    assert f"difftest           skipped  {detail}" in lines


def test_ci_run_does_not_wait_for_a_process_that_a_suite_left_behind(checkout: Path) -> None:
    """A suite that ran out of time may leave processes that hold its output open."""
    left_behind = checkout / "answers" / "test-kube.stays"
    left_behind.touch()
    try:
        code, lines = run(checkout)
    finally:
        os.kill(int(left_behind.read_text()), signal.SIGKILL)
    assert code == 0
    assert lines[-1] == SUMMARY


def test_ci_run_that_is_ended_ends_the_suite_beside_the_others_and_shows_its_output(
    checkout: Path, tmp_path: Path
) -> None:
    answer(checkout, "test-node", "node Ready after 40 s")
    waiting = [checkout / "answers" / f"{name}.waits" for name in ("test-kube", "test-node")]
    for path in waiting:
        path.touch()
    output = tmp_path / "output"
    with output.open("w") as stream, start(checkout, stream) as script:
        kube, node = (int(wait_until(path.read_text)) for path in waiting)
        script.terminate()
        assert script.wait() != 0
    try:
        wait_until(lambda: not is_running(node))
        assert "=== test-node did not end: its output so far\nnode Ready" in output.read_text()
    finally:
        os.kill(kube, signal.SIGKILL)


@pytest.mark.slow
def test_ci_run_finds_the_summary_that_is_copied_late(checkout: Path) -> None:
    """On a busy machine the process that copies a suite's output may get no processor for long."""
    tee = shutil.which("tee")
    (checkout / "tee").write_text(
        f'#!/bin/sh\ncase "$1" in */test.log) sleep 6; esac\nexec {tee} "$@"\n'
    )
    (checkout / "tee").chmod(0o755)
    code, lines = run(checkout)
    assert code == 0
    assert lines[-1] == SUMMARY


def test_ci_run_without_a_summary_of_the_tests_says_so(checkout: Path) -> None:
    answer(checkout, "test", "killed", fails=True)
    code, lines = run(checkout)
    assert code == 1
    assert lines[-1] == "no summary of `make test`: see above"
