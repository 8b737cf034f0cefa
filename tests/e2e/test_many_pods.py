"""A hundred long-lived Pods on one machine start, run and stop."""

import os
import re
import signal
from pathlib import Path

import pytest

from tests.cli.test_sessions import build_role, find_processes, finish, read_until, start, write

pytestmark = [pytest.mark.local, pytest.mark.slow]

COUNT = 100


def test_a_hundred_sleeping_pods_start_run_and_stop(tmp_path: Path) -> None:
    seconds = f"9{os.getpid()}.5"
    file = write(tmp_path / "f.yaml", build_role("w", COUNT, f"exec sleep {seconds}"))
    with start("run", "--local", "--all", "--directory", str(tmp_path / "state"), file) as program:
        running: set[str] = set()
        while len(running) < COUNT:
            output = read_until(program, r"w/\d+ +Running")
            running |= set(re.findall(r"(w/\d+) +Running", output))
        program.send_signal(signal.SIGTERM)
        output = finish(program)
    assert len(set(re.findall(r"^(w/\d+) +Stopped", output, re.MULTILINE))) == COUNT
    assert find_processes(f"sleep\0{seconds}") == []
