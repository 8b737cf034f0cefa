"""The message of a program that failed; needs no stack."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.consumers.stacks import explain, run_program
from tests.support.waiting import wait_until

HANG = "echo half; echo way >&2; touch written; exec sleep 600"


def run_expiring(script: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a program whose time is over when it has made the file `written`; return the failure."""
    real = subprocess.Popen.wait

    def expire(program: "subprocess.Popen[bytes]", timeout: float | None = None) -> int:
        monkeypatch.setattr(subprocess.Popen, "wait", real)
        wait_until((folder / "written").exists)
        raise subprocess.TimeoutExpired(program.args, timeout or 0)

    monkeypatch.setattr(subprocess.Popen, "wait", expire)
    with pytest.raises(pytest.fail.Exception) as failed:
        run_program(["sh", "-c", script], folder, timeout=3)
    return str(failed.value)


def test_program_without_an_end_fails_with_what_it_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = run_expiring(HANG, tmp_path, monkeypatch)
    for part in ("no end in 3 s", "stdout\nhalf\n", "stderr\nway\n"):
        assert part in message


def test_commands_of_a_shell_without_an_end_are_ended_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "held")
    reader = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
    run_expiring("exec 3>held; sleep 600 & touch written; wait", tmp_path, monkeypatch)

    def is_let_go() -> bool:
        try:
            return os.read(reader, 1) == b""
        except BlockingIOError:
            return False

    try:
        wait_until(is_let_go, lambda: "the command goes on")
    finally:
        os.close(reader)


def test_program_that_failed_is_explained_by_code_and_both_outputs(tmp_path: Path) -> None:
    ran = run_program(["sh", "-c", "echo out; echo err >&2; exit 3"], tmp_path)
    for part in ("exit code 3", "stdout\nout\n", "stderr\nerr\n"):
        assert part in explain(ran)


def test_program_is_over_while_what_it_started_still_writes(tmp_path: Path) -> None:
    (tmp_path / "gate").touch()
    script = "while [ -e gate ]; do sleep 0.1; done & echo over"
    try:
        assert run_program(["sh", "-c", script], tmp_path).stdout == "over\n"
    finally:
        (tmp_path / "gate").unlink()


def test_program_of_a_test_that_is_ended_is_ended_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen.wait

    def interrupt(program: "subprocess.Popen[bytes]", timeout: float | None = None) -> int:
        if started:
            return real(program, timeout)
        started.append(program)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_program(["sleep", "600"], tmp_path)
    assert started[0].returncode == -signal.SIGTERM
