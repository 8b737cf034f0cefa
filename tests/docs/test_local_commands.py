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
from tests.support.servers.frameworkserver import build_env
from tests.support.waiting import HANG_SECONDS, wait_until

KUBECTL = os.environ.get("FRAMEWORKBARRIER_KUBECTL") or shutil.which("kubectl")
pytestmark = [
    pytest.mark.local,
    pytest.mark.slow,
    pytest.mark.skipif(KUBECTL is None, reason="no kubectl: put it on PATH"),
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


def test_commands_of_the_readme_run_one_after_another(folder: Path) -> None:
    commands = list_local("README.md")
    assert commands[-1] == "framework local down"
    try:
        output = run(folder, *commands)
    finally:
        run(folder, "framework local down || true")
    assert re.search(r"^retry-task +Completed", output, re.MULTILINE), output
    assert "nothing found" in output


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
