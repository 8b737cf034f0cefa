"""``framework logs -l``: the logs of all Frameworks with certain labels, on a local cluster."""

import json
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from cli.exitcodes import ExitCode
from tests.cli.test_sessions import finish, read_until, start, wait_for
from tests.support.servers.commandline import Answer, call_in_process
from tests.support.waiting import HANG_SECONDS, wait_until

pytestmark = pytest.mark.local


@pytest.fixture(scope="module")
def gangs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Frameworks a and b with a label, c with another, and d and e, which end when a file is there.

    Gives the environment of clients. All have printed their first line.
    """
    folder = tmp_path_factory.mktemp("gangs")
    labels = {"a": "x", "b": "x", "c": "y", "d": "ends", "e": "ends"}
    files = [str(write(folder, name, label)) for name, label in labels.items()]
    cluster = folder / "cluster"
    with start("run", "--local", "--directory", str(cluster), *files) as program:
        read_until(program, "export KUBECONFIG=")
        clients = {"KUBECONFIG": str(cluster / "kubeconfig"), "GO": str(folder / "ends")}
        read_until(program, "Running")
        wait = ["--for=condition=Running", "--timeout", f"{HANG_SECONDS}s"]
        assert call_in_process("wait", *labels, *wait, **clients).code == 0
        # A container that runs may have printed nothing yet.
        for name in labels:
            wait_until(partial(has_printed, name, clients))
        yield clients
        program.send_signal(signal.SIGINT)
        program.communicate()


def has_printed(name: str, clients: dict[str, str]) -> bool:
    return bool(call_in_process("logs", name, **clients).out)


def write(folder: Path, name: str, label: str) -> Path:
    """Write a Framework whose Task ends when a file with the name of its label is there."""
    script = f"echo of {name}; {wait_for(folder / label)}; echo end"
    container = {"name": "main", "image": "busybox", "command": ["sh", "-c", script]}
    pod = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    body = {
        "apiVersion": "frameworkcontroller.microsoft.com/v1",
        "kind": "Framework",
        "metadata": {"name": name, "labels": {"app": label}},
        "spec": {"taskRoles": [{"name": "w", "taskNumber": 1, "task": {"pod": pod}}]},
    }
    file = folder / f"{name}.json"
    file.write_text(json.dumps(body))
    return file


def test_logs_of_selected_frameworks_name_framework_and_task(gangs: dict[str, str]) -> None:
    answer = call_in_process("logs", "-l", "app=x", **gangs)
    assert (answer.code, answer.err) == (ExitCode.SUCCEEDED, "")
    assert sorted(answer.out.splitlines()) == ["[a/w/0] of a", "[b/w/0] of b"]
    answer = call_in_process("logs", "-l", "app=y", **gangs)
    assert answer.out.splitlines()[-1].endswith("of c")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (
            ["-l", "app=z"],
            ExitCode.FAILED,
            "no Framework in namespace default has",
        ),
        (["-f", "-l", "app=x", "--max-log-requests", "1"], ExitCode.USAGE, "2 logs would be open"),
        (["a", "-l", "app=x"], ExitCode.USAGE, "name a Framework, or select several"),
        ([], ExitCode.USAGE, "name a Framework, or select several"),
        (["-l", "app=x", "--directory", "x"], ExitCode.USAGE, "write NAME instead of -l"),
    ],
)
def test_selection_that_cannot_be_printed_is_explained(
    gangs: dict[str, str], words: list[str], code: ExitCode, message: str
) -> None:
    answer = call_in_process("logs", *words, **gangs)
    assert (answer.code, answer.out) == (code, "")
    assert message in answer.err


def test_lines_since_a_time_that_has_not_come_are_none(gangs: dict[str, str]) -> None:
    answer = call_in_process("logs", "a", "--since-time", "2999-01-01T00:00:00Z", **gangs)
    assert answer == Answer(ExitCode.SUCCEEDED, "", "")
    answer = call_in_process("logs", "a", "--since-time", "2000-01-01T00:00:00Z", **gangs)
    assert (answer.code, answer.out.splitlines()[:1]) == (ExitCode.SUCCEEDED, ["of a"])


@pytest.mark.slow
def test_followed_logs_end_with_all_selected_frameworks(gangs: dict[str, str]) -> None:
    with start("logs", "-f", "-l", "app=ends", **gangs) as logs:
        # With a container, its log goes: it must be open before.
        seen = read_until(logs, "of [de]$") + read_until(logs, "of [de]$")
        Path(gangs["GO"]).touch()
        seen += finish(logs)
    assert logs.returncode == ExitCode.SUCCEEDED, seen
    assert sorted(seen.splitlines()) == [
        "[d/w/0] end", "[d/w/0] of d", "[e/w/0] end", "[e/w/0] of e"
    ]  # fmt: skip
