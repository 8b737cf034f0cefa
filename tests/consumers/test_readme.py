"""The PyTorch job of README.md trains with PyTorch."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.consumers.examples import build_path
from tests.consumers.stacks import HANG_SECONDS, require_python
from tests.docs.pasted import read_pasted
from tests.support.servers.frameworkserver import build_env


def test_pasted_job_averages_gradients_in_two_pods(tmp_path: Path) -> None:
    python = require_python("torch")
    programs = [str(Path(sys.executable).parent), build_path(python)]
    ran = subprocess.run(
        ["bash", "-eu", "-c", read_pasted()],
        cwd=tmp_path,
        env=build_env() | {"PATH": os.pathsep.join(programs), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    losses = re.findall(r"^\[worker/(\d)\] rank (\d) of 2: loss (\S+)$", ran.stdout, re.MULTILINE)
    assert [(task, rank) for task, rank, _ in sorted(losses)] == [("0", "0"), ("1", "1")]
    assert all(float(loss) < 0.01 for _, _, loss in losses), losses
