"""The command line, called as a user calls it, and what its final table says."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass

from tests.support.servers.frameworkcrd import ROOT
from tests.support.waiting import HANG_SECONDS

EXAMPLES = ROOT / "examples"
_ROW = re.compile(r"(?P<task>\w+/\d+) +(?P<state>\w+) +(?P<attempt>\d+) +(?P<code>-?\d+)")
_HEAD = re.compile(r"Framework (?P<name>\S+): (?P<state>\w+) after \S+ s, attempt (?P<attempt>\d+)")


@dataclass(frozen=True)
class Outcome:
    """How an example ends: exit code, and of each Task the state, attempt and code."""

    exit_code: int
    state: str
    attempt: int
    tasks: dict[str, tuple[str, int, int]]


def call(*arguments: str, **env: str) -> "subprocess.CompletedProcess[str]":
    """Run the command line as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "cli.main", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
        env={**os.environ, **env},
        cwd=ROOT,
    )


def read_outcome(run: "subprocess.CompletedProcess[str]") -> Outcome:
    """Read the final table."""
    found = list(_HEAD.finditer(run.stdout))
    assert found, f"no table:\n{run.stdout}\n{run.stderr}"
    head = found[-1]
    rows = _ROW.finditer(run.stdout[head.end() :])
    tasks = {r["task"]: (r["state"], int(r["attempt"]), int(r["code"])) for r in rows}
    return Outcome(run.returncode, head["state"], int(head["attempt"]), tasks)
