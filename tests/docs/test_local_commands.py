"""Commands of the pages that need a cluster on this machine, run as they are in a shell."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.docs.commands import ROOT, list_commands
from tests.docs.covered import LOCAL, find_how
from tests.docs.pasted import read_pasted
from tests.support.servers.binaries import find_kubectl
from tests.support.servers.frameworkserver import build_env
from tests.support.waiting import HANG_SECONDS, wait_until

KUBECTL = find_kubectl()
pytestmark = [
    pytest.mark.local,
    pytest.mark.slow,
    pytest.mark.skipif(KUBECTL is None, reason="no kubectl: let make test-kube build it"),
]


def list_local(page: str) -> list[str]:
    return [
        command.text
        for command in list_commands()
        if command.page == page and find_how(command) == LOCAL
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkout as far as the commands read it, which is also the home."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "train.yaml").write_text(
        read_pasted().partition("ddp.yaml <<END\n")[2].partition("\nEND\n")[0]
    )
    (tmp_path / ".kube").mkdir()
    return tmp_path


def make_env(folder: Path) -> dict[str, str]:
    assert KUBECTL is not None
    path = [str(Path(sys.executable).parent), str(Path(KUBECTL).parent), os.environ["PATH"]]
    env = build_env() | {"PATH": os.pathsep.join(path), "HOME": str(folder), "TMPDIR": str(folder)}
    return {name: value for name, value in env.items() if not name.startswith("XDG_")}


def run(folder: Path, *commands: str) -> str:
    """Run commands in one shell, which ends at the first that fails; return the output."""
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(commands)],
        cwd=folder,
        env=make_env(folder),
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )
    assert ran.returncode == 0, f"{commands}\n{ran.stdout}{ran.stderr}"
    return ran.stdout


def run_on_a_cluster(folder: Path, commands: list[str]) -> str:
    """Run commands of which one starts a local cluster."""
    try:
        return run(folder, *commands)
    finally:
        run(folder, "framework local down || true")


def test_commands_of_the_readme_run_one_after_another(folder: Path) -> None:
    commands = list_local("README.md")
    assert commands[-1] == "framework local down"
    output = run_on_a_cluster(folder, commands)
    assert re.search(r"^retry-task +Completed", output, re.MULTILINE), output
    assert "nothing found" in output


def test_commands_of_the_tfjob_page_run_its_first_job(folder: Path) -> None:
    output = run_on_a_cluster(folder, list_local("docs/tfjob.md"))
    # Of the first command; of the log, without the name of the Task.
    found = ["found ps 0", "found worker 0", "found worker 1"]
    lines = [line for line in output.splitlines() if "found " in line]
    assert lines == [*(f"[master/0] {line}" for line in found), *found]
    assert re.search(r"^tfjob +Done +Succeeded +", output, re.MULTILINE), output


def test_commands_of_the_trainingjob_page_run_and_scale_its_jobs(folder: Path) -> None:
    *commands, patch = list_local("docs/trainingjob.md")
    assert patch.startswith("kubectl patch trainingjob")
    end = commands.index("framework exec elastic-training launcher/0 -- touch /job/end")
    output = run_on_a_cluster(folder, [*commands[:end], patch, *commands[end:]])
    for worker in range(2):
        assert f"[launcher/0] a process in trainingjob-worker-{worker}\n" in output
    assert len(re.findall(r"^\[launcher/0\] \S+ slots=2$", output, re.MULTILINE)) == 2
    for scaler in (
        "scaleout.kai.alibabacloud.com/two-more",
        "scalein.kai.alibabacloud.com/one-less",
    ):
        assert re.search(rf"^{scaler} +ScaleSucceeded ", output, re.MULTILINE), output


def test_failed_scaler_shows_its_reason_and_message(folder: Path) -> None:
    (up, export, job, create, *_) = [
        command for command in list_local("docs/trainingjob.md") if "run --local" not in command
    ]
    too_many = f"sed 's/two-more/too-many/; s/count: 2/count: 9/' {create.split()[-1]}"
    wait = "kubectl wait --for=jsonpath={.status.phase}=ScaleFailed scaleout/too-many --timeout=10m"
    output = run_on_a_cluster(
        folder,
        [
            up,
            export,
            job,
            f"{too_many} | kubectl create -f -",
            wait,
            "kubectl get scaleouts -o wide",
            "framework why elastic-training || true",  # the job may still be starting
        ],
    )
    assert "last failed scaler: ScaleOut too-many (" in output
    assert re.search(
        r"^too-many +ScaleFailed +\S+ +AboveMaxReplicas +there would be 11 workers, and ",
        output,
        re.MULTILINE,
    ), output


def test_object_that_kubectl_makes_without_a_file_is_applied(folder: Path) -> None:
    up, export = list_local("docs/tfjob.md")[1:3]
    read = "kubectl get configmap settings -o jsonpath={.data.steps}"
    output = run_on_a_cluster(folder, [up, export, *list_local("docs/local-cluster.md"), read])
    assert output.endswith("5")


def test_injected_file_of_the_command_line_page_has_no_fault(folder: Path) -> None:
    output = run(folder, *list_local("docs/cli-write.md"))
    assert output.endswith("nothing found\n")


@contextmanager
def start(folder: Path, command: str) -> Iterator["subprocess.Popen[str]"]:
    """Run a command in a first shell, until Ctrl-C."""
    with subprocess.Popen(
        ["bash", "-c", f"exec {command}"],
        cwd=folder,
        env=make_env(folder),
        stdout=subprocess.DEVNULL,
        text=True,
    ) as program:
        try:
            yield program
        finally:
            program.send_signal(signal.SIGINT)
            program.wait(HANG_SECONDS)


def test_second_shell_of_the_examples_rescales_a_gang(folder: Path) -> None:
    def adapt(command: str) -> str:
        return command.replace("/tmp/rescale", str(folder / "rescale"))

    first, *second = map(adapt, list_local("examples/README.md"))
    scale, remove, patch = list_local("docs/api.md")
    ready = 'kubectl get framework rescale -o jsonpath="{.status.readyTasks}" 2>&1 || true'
    with start(folder, first) as program:

        def has(tasks: str) -> bool:
            assert program.poll() is None
            return run(folder, second[0], ready) == tasks

        wait_until(lambda: has("4/4"))
        listed = run(folder, *second)
        assert listed.count("pod/rescale-worker-") == 4
        for command, tasks in ((scale, "6/6"), (remove, "5/5"), (patch, "1/1")):
            run(folder, second[0], command)
            wait_until(partial(has, tasks))
    assert program.returncode == 130
