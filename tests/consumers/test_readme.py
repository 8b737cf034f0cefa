"""The PyTorch jobs of README.md train with PyTorch."""

import os
import re
import sys
from pathlib import Path

from tests.consumers.examples import RUN_SECONDS, build_path
from tests.consumers.stacks import explain, require_python, run_program
from tests.docs.commands import list_commands
from tests.docs.covered import TORCH, find_how
from tests.docs.pasted import read_pasted
from tests.support.servers.frameworkserver import build_env


def run_in_shell(folder: Path, script: str) -> str:
    """Run a script as a user does, with PyTorch on the PATH; return its output."""
    programs = [str(Path(sys.executable).parent), build_path(require_python("torch"))]
    env = build_env() | {"PATH": os.pathsep.join(programs), "TMPDIR": str(folder)}
    ran = run_program(["bash", "-eu", "-c", script], folder, env, timeout=RUN_SECONDS)
    assert ran.returncode == 0, explain(ran)
    return ran.stdout


def test_pasted_job_averages_gradients_in_two_pods(tmp_path: Path) -> None:
    output = run_in_shell(tmp_path, read_pasted())
    losses = re.findall(r"^\[worker/(\d)\] rank (\d) of 2: loss (\S+)$", output, re.MULTILINE)
    assert [(task, rank) for task, rank, _ in sorted(losses)] == [("0", "0"), ("1", "1")]
    assert all(float(loss) < 0.01 for _, _, loss in losses), losses


def test_job_of_init_trains_in_two_pods(tmp_path: Path) -> None:
    commands = [c.text for c in list_commands() if find_how(c) == TORCH]
    assert len(commands) == 2
    output = run_in_shell(tmp_path, "\n".join(commands))
    for rank in range(2):
        assert f"[worker/{rank}] rank {rank} of 2\n" in output
