"""``framework exec`` on a local cluster: streams, exit codes, a terminal, and no program left."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.exitcodes import ExitCode
from tests.cli.test_sessions import ROOT, read_until, start
from tests.support.machine.processes import read_stat
from tests.support.servers.commandline import call_in_process
from tests.support.slow import keep_first
from tests.support.waiting import HANG_SECONDS, wait_until

pytestmark = pytest.mark.local


@pytest.fixture(scope="module")
def gang(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A Framework that runs, with two containers in each Pod; gives the environment of clients."""
    folder = tmp_path_factory.mktemp("gang")
    containers = [
        {"name": name, "image": "busybox", "command": ["sleep", "100000"]}
        for name in ("main", "log")
    ]
    spec = {"restartPolicy": "Never", "containers": containers}
    short = {"restartPolicy": "Never", "containers": [{**containers[0], "command": ["true"]}]}
    roles = [
        {"name": name, "taskNumber": 1, "task": {"pod": {"spec": pod}}}
        for name, pod in (("worker", spec), ("short", short))
    ]
    file = folder / "gang.json"
    api_version = "frameworkcontroller.microsoft.com/v1"
    body = {"apiVersion": api_version, "kind": "Framework", "metadata": {"name": "gang"}}
    file.write_text(json.dumps({**body, "spec": {"taskRoles": roles}}))
    cluster = folder / "cluster"
    with start("run", "--local", "--directory", str(cluster), str(file)) as program:
        seen = read_until(program, "worker/0  Running")
        if "short/0  Succeeded" not in seen:
            read_until(program, "short/0  Succeeded")
        yield {"KUBECONFIG": str(cluster / "kubeconfig")}
        program.send_signal(signal.SIGINT)
        program.communicate()


def run(
    gang: dict[str, str], *words: str, stdin: bytes | None = None
) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [sys.executable, "-m", "cli.main", "exec", *words],
        input=stdin,
        capture_output=True,
        cwd=ROOT,
        env={**os.environ, **gang},
        check=False,
    )


def test_exec_gives_the_output_and_the_exit_code_of_the_program(gang: dict[str, str]) -> None:
    ran = run(gang, "gang", "worker/0", "--", "sh", "-c", "hostname; echo no >&2; exit 7")
    assert (ran.returncode, ran.stdout, ran.stderr) == (7, b"gang-worker-0\n", b"no\n")


def test_exec_passes_input_of_any_size_in_the_named_container(gang: dict[str, str]) -> None:
    stdin = os.urandom(3_000_000)
    ran = run(gang, "-i", "framework/gang", "worker/0", "-c", "log", "--", "cat", stdin=stdin)
    assert (ran.returncode, ran.stdout == stdin, ran.stderr) == (0, True, b"")


def test_exec_without_stdin_gives_the_program_none(gang: dict[str, str]) -> None:
    ran = run(gang, "gang", "worker/0", "--", "wc", "-c", stdin=b"not for it")
    assert (ran.returncode, ran.stdout.strip()) == (0, b"0")


def test_exec_with_a_terminal_controls_the_program_by_it(gang: dict[str, str]) -> None:
    ours, theirs = pty.openpty()
    script = "trap 'echo caught; exit 9' INT; stty size; echo ready; while :; do sleep 0.1; done"
    command = [sys.executable, "-m", "cli.main", "exec", "-it", "gang", "worker/0", "--"]
    with subprocess.Popen(
        [*command, "sh", "-c", script],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=ROOT,
        env={**os.environ, **gang, "LINES": "50", "COLUMNS": "132"},
    ) as program:
        os.close(theirs)
        seen = read_terminal(ours, "ready")
        os.write(ours, b"\x03")
        seen += read_terminal(ours, "caught")
        assert program.wait() == 9, seen
    os.close(ours)
    assert re.search(r"\d+ \d+\r\n", seen)


def read_terminal(descriptor: int, text: str) -> str:
    seen = ""
    while text not in seen:
        assert select.select([descriptor], [], [], HANG_SECONDS)[0], seen
        try:
            chunk = os.read(descriptor, 4096)
        except OSError:
            chunk = b""
        assert chunk, seen
        seen += chunk.decode()
    return seen


def test_exec_that_is_interrupted_leaves_no_program(gang: dict[str, str]) -> None:
    with start(
        "exec", "gang", "worker/0", "--", "sh", "-c", "echo $$; exec sleep 7777", **gang
    ) as program:
        read_until(program, r"^\d+$")
        program.send_signal(signal.SIGINT)
        assert program.wait() == ExitCode.INTERRUPTED

    wait_until_gone(gang, "sleep 7777")


def wait_until_gone(gang: dict[str, str], program: str) -> None:
    def has_ended() -> bool:
        listed = run(gang, "gang", "worker/0", "--", "ps", "axo", "args")
        assert listed.returncode == 0, listed
        return program not in listed.stdout.decode().splitlines()

    wait_until(has_ended, lambda: "the program still runs")


@pytest.mark.slow
def test_exec_that_is_killed_leaves_no_program_that_does_not_read_its_input(
    gang: dict[str, str],
) -> None:
    command = ["gang", "worker/0", "--", "sh", "-c", "echo ready; exec sleep 7778"]
    with (
        Path("/dev/zero").open("rb") as zeros,
        subprocess.Popen(
            [sys.executable, "-m", "cli.main", "exec", "-i", *command],
            stdin=zeros,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, **gang},
        ) as program,
    ):
        assert program.stdout is not None
        assert program.stdout.readline() == b"ready\n"
        # Its messages fill the buffers, behind which the server does not see that it has gone.
        wait_until(ReadingEnd(program.pid).is_reached, lambda: "the input is still sent")
        program.kill()
    wait_until_gone(gang, "sleep 7778")


class ReadingEnd:
    """Finds the end of the reading of a process: it sleeps, and its count of bytes stays the same.

    A process that only waits for a processor does not sleep.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._seen: list[tuple[str, str]] = []

    def is_reached(self) -> bool:
        count = Path(f"/proc/{self._pid}/io").read_text().splitlines()[0]
        self._seen.append((count, read_stat(self._pid)[0]))
        return len(self._seen) > 5 and set(self._seen[-5:]) == {(count, "S")}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gang", "worker/0", "-c", "x", "--", "ls"], "no container 'x': there are main, log"),
        (["gang", "worker/1", "--", "ls"], "no Task worker/1: its Tasks are worker/0"),
        (["gang", "ps/0", "--", "ls"], "no role 'ps': its Tasks are worker/0, short/0"),
        (["other", "worker/0", "--", "ls"], "no Framework 'other' in namespace default"),
        (["gang", "short/0", "--", "ls"], "short/0 of gang has no Pod now"),
    ],
)
def test_exec_without_what_was_asked_for_says_what_there_is(
    gang: dict[str, str], words: list[str], message: str
) -> None:
    answer = call_in_process("exec", *words, **gang)
    assert (answer.code, message in answer.err) == (ExitCode.FAILED, True), answer.err


@pytest.mark.parametrize(
    ("program", "code", "message"),
    keep_first(
        [
            ("nosuch", 127, 'exec: "nosuch": executable file not found in $PATH'),
            ("/etc/passwd", 126, 'exec: "/etc/passwd": Permission denied'),
            ("/nosuch/program", 127, 'exec: "/nosuch/program": No such file or directory'),
            ("/etc", 126, 'exec: "/etc": '),
        ],
        2,
    ),
)
def test_exec_of_a_program_that_cannot_run_ends_as_a_shell_does(
    gang: dict[str, str], program: str, code: int, message: str
) -> None:
    ran = run(gang, "gang", "worker/0", "--", program)
    assert ran.returncode == code
    assert ran.stderr.decode().startswith(f"error: cannot run the command: {message}")


@pytest.mark.parametrize("task", ["worker", "worker/", "worker/00", "Worker/0", "worker/0/1"])
def test_exec_needs_a_task(gang: dict[str, str], task: str) -> None:
    answer = call_in_process("exec", "gang", task, "--", "ls", **gang)
    assert answer.code == ExitCode.USAGE
    assert "is not a Task: write it as worker/0" in answer.err


def test_exec_with_a_file_as_input_reads_it_to_its_end(
    gang: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "input"
    file.write_bytes(b"x" * 100_000)
    with file.open("rb") as stdin:
        ran = subprocess.run(
            [sys.executable, "-m", "cli.main", "exec", "-i", "gang", "worker/0", "--", "wc", "-c"],
            stdin=stdin,
            capture_output=True,
            cwd=ROOT,
            env={**os.environ, **gang},
            check=False,
        )
    assert (ran.returncode, ran.stdout.strip()) == (0, b"100000")


def test_exec_without_a_task_says_where_it_belongs(gang: dict[str, str]) -> None:
    answer = call_in_process("exec", "gang", "--", "sh", "-c", "true", **gang)
    assert answer.code == ExitCode.USAGE
    assert answer.err == (
        "error: 'sh' is not a Task: write it as sh/0\n"
        "error: if 'sh' is the program, name the Task before it: framework exec gang ROLE/INDEX "
        "-- sh ...\n"
    )
