"""Commands find the local cluster that runs, and what the newest `run --local` has left."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from cli.exitcodes import ExitCode
from tests.cli.test_sessions import call, call_here, finish, read_until, start, wait_for

pytestmark = pytest.mark.local

FRAMEWORK = {
    "apiVersion": "frameworkcontroller.microsoft.com/v1",
    "kind": "Framework",
    "metadata": {"name": "talk"},
}


def write_framework(tmp_path: Path, script: str, **more_roles: dict[str, Any]) -> str:
    container = {"name": "main", "image": "busybox", "command": ["sh", "-c", script]}
    roles = []
    for name, template in {"w": {}, **more_roles}.items():
        spec = {"restartPolicy": "Never", "containers": [container], **template.get("spec", {})}
        roles.append({"name": name, "taskNumber": 1, "task": {"pod": {"spec": spec}}})
    path = tmp_path / "talk.json"
    path.write_text(json.dumps({**FRAMEWORK, "spec": {"taskRoles": roles}}))
    return str(path)


@pytest.mark.slow
def test_logs_finds_the_run_while_it_lasts_and_after_its_end(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": "", "XDG_STATE_HOME": "", "KUBECONFIG": ""}
    go, end = tmp_path / "go", tmp_path / "end"
    # The other role keeps the cluster, and with it the API server, until the logs have ended.
    other = f'test "$FC_TASKROLE_NAME" = w || {{ {wait_for(end)}; exit; }}'
    script = f"{other}; echo hello; {wait_for(go)}; echo bye"
    with start("run", "--local", write_framework(tmp_path, script, other={}), **home) as program:
        read_until(program, "w/0 +Running")
        with start("logs", "--follow", "talk", "w/0", **home) as logs:
            output = read_until(logs, "^hello$")
            assert "using the local cluster in" in output
            go.touch()
            assert finish(logs) == "bye\n"
        end.touch()
        finish(program)
    code, output = call_here("logs", "talk", "w/0", **home)
    assert code == ExitCode.SUCCEEDED, output
    assert "printing the logs kept in" in output
    assert output.endswith("hello\nbye\n")
    code, output = call_here("logs", "talk", "w/1", **home)
    assert (code, "has no Task w/1: its Tasks are w/0" in output) == (ExitCode.FAILED, True)
    assert call_here("logs", "--tail", "0", "talk", "w/0", **home)[1].count("\n") == 1
    code, output = call_here("logs", "other", **home)
    assert code == ExitCode.USAGE
    assert "no cluster is configured" in output
    assert re.search(r"the newest `run --local` left the logs of talk in /\S+$", output.strip())


@pytest.mark.slow
def test_run_in_another_namespace_prints_a_command_that_finds_the_logs(tmp_path: Path) -> None:
    file = write_framework(tmp_path, "echo hello")
    code, output = call("run", "--local", "--namespace", "other", file, HOME=str(tmp_path))
    assert code == ExitCode.SUCCEEDED, output
    _, *arguments = shlex.split(output.splitlines()[-1])
    assert call_here(*arguments) == (ExitCode.SUCCEEDED, "hello\n")


@pytest.mark.slow
def test_log_of_an_ended_task_is_printed_while_its_run_lasts(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": "", "XDG_STATE_HOME": "", "KUBECONFIG": ""}
    script = 'echo hello; test "$FC_TASKROLE_NAME" = first || exec sleep 1000'
    with start("run", "--local", write_framework(tmp_path, script, first={}), **home) as program:
        read_until(program, "first/0 +Succeeded")
        code, output = call_here("logs", "talk", "first/0", **home)
        program.terminate()
        finish(program)
    assert code == ExitCode.SUCCEEDED, output
    assert output.endswith("hello\n")


@pytest.mark.slow
def test_empty_and_missing_logs_have_a_reason(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": "", "XDG_STATE_HOME": "", "KUBECONFIG": ""}
    stuck = {"volumes": [{"name": "v", "secret": {"secretName": "absent"}}]}
    file = write_framework(tmp_path, "exec sleep 1000", stuck={"spec": stuck})
    with start("run", "--local", file, **home) as program:
        seen = read_until(program, "absent")
        if not re.search("w/0 +Running", seen):
            read_until(program, "w/0 +Running")
        code, output = call_here("logs", "talk", **home)
        program.terminate()
        finish(program)
    assert code == ExitCode.FAILED
    assert "note: w/0: its log is empty: the container has printed nothing" in output
    assert "is waiting to start: its containers start; MountVolume.SetUp failed for" in output


def test_directory_that_another_user_may_write_is_not_taken(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": "", "XDG_STATE_HOME": "", "KUBECONFIG": ""}
    place = tmp_path / ".local" / "state" / "frameworkbarrier"
    place.mkdir(parents=True)
    logs = tmp_path / "open"
    logs.mkdir()
    (place / "last-run").write_text(str(logs))
    place.chmod(0o777)
    code, output = call_here("logs", "talk", **home)
    assert code == ExitCode.USAGE
    assert "kept in" not in output
