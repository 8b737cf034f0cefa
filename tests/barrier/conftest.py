"""The barrier as a process: fixtures of the tests that start one."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.barrier.api_server import ApiServer, run_api_server
from tests.barrier.fast import IDENTITY, build_env
from tests.support.waiting import HANG_SECONDS

ROOT = Path(__file__).parents[2]


class Barrier:
    """One barrier process; its lines arrive in ``lines``."""

    def __init__(self, env: dict[str, str], command: tuple[str, ...] = ()) -> None:
        self.process = subprocess.Popen(
            [*command, sys.executable, "-m", "barrier"],
            env=env,
            cwd=ROOT,
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._collect)
        self._thread.start()

    def _collect(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def wait_for_line(self, pattern: str) -> None:
        with self._changed:
            found = self._changed.wait_for(
                lambda: re.search(pattern, self.text), timeout=HANG_SECONDS
            )
        assert found, f"no line {pattern!r} in:\n{self.text}"

    def wait(self) -> int:
        code = self.process.wait(timeout=HANG_SECONDS)
        self._thread.join(timeout=HANG_SECONDS)
        return code

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self._thread.join()
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.process.stdout.close()
        self.process.stderr.close()


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with run_api_server() as server:
        yield server


@pytest.fixture
def env(server: ApiServer, tmp_path: Path) -> dict[str, str]:
    (tmp_path / "termination").touch()
    program = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    return build_env(server.address, tmp_path, **IDENTITY, **program)


class Starter:
    """Starts barriers with the test's environment and some changes."""

    def __init__(self, env: dict[str, str]) -> None:
        self._env = env
        self.started: list[Barrier] = []

    def __call__(self, *unset: str, prefix: tuple[str, ...] = (), **changes: str) -> Barrier:
        env = {k: v for k, v in {**self._env, **changes}.items() if k not in unset}
        self.started.append(Barrier(env, prefix))
        return self.started[-1]


@pytest.fixture
def start(env: dict[str, str]) -> Iterator[Starter]:
    starter = Starter(env)
    yield starter
    for barrier in starter.started:
        barrier.stop()
