"""Commands find the local cluster that runs, and what the newest `run --local` has left."""

import json
from pathlib import Path

import pytest

from cli.exitcodes import ExitCode
from tests.cli.test_sessions import call, finish, read_until, start

pytestmark = pytest.mark.local

FRAMEWORK = {
    "apiVersion": "frameworkcontroller.microsoft.com/v1",
    "kind": "Framework",
    "metadata": {"name": "talk"},
}


def write_framework(tmp_path: Path, script: str) -> str:
    container = {"name": "main", "image": "busybox", "command": ["sh", "-c", script]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    role = {"name": "w", "taskNumber": 1, "task": {"pod": template}}
    path = tmp_path / "talk.json"
    path.write_text(json.dumps({**FRAMEWORK, "spec": {"taskRoles": [role]}}))
    return str(path)


def test_logs_finds_the_run_while_it_lasts_and_after_its_end(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": "", "XDG_STATE_HOME": "", "KUBECONFIG": ""}
    go = tmp_path / "go"
    script = f"echo hello; while [ ! -e {go} ]; do sleep 0.1; done; echo bye"
    with start("run", "--local", write_framework(tmp_path, script), **home) as program:
        read_until(program, "Running")
        with start("logs", "--follow", "talk", **home) as logs:
            output = read_until(logs, "^hello$")
            assert "taking the local cluster in" in output
            go.touch()
            assert finish(logs) == "bye\n"
        finish(program)
    code, output = call("logs", "talk", "w/0", **home)
    assert code == ExitCode.SUCCEEDED, output
    assert "printing the logs kept in" in output
    assert output.endswith("hello\nbye\n")
    code, output = call("logs", "other", **home)
    assert code == ExitCode.USAGE
    assert "no cluster is configured" in output


def test_directory_that_another_user_may_write_is_not_taken(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": "", "XDG_STATE_HOME": "", "KUBECONFIG": ""}
    place = tmp_path / ".local" / "state" / "frameworkbarrier"
    place.mkdir(parents=True)
    logs = tmp_path / "open"
    logs.mkdir()
    (place / "last-run").write_text(str(logs))
    place.chmod(0o777)
    code, output = call("logs", "talk", **home)
    assert code == ExitCode.USAGE
    assert "kept in" not in output
