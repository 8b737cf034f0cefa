import asyncio
import os
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from framework.clock import ManualClock
from framework.kube.backoff import Backoff
from localcluster.supervisor import ChildFailedError, Supervisor
from tests.support.machine.processes import is_running
from tests.support.servers.frameworkcrd import ROOT
from tests.support.waiting import HANG_SECONDS, wait_until_async

SLEEPER = "import time; print('up', flush=True); time.sleep(600)"
# Runs a child and prints its id.
PARENT = """
import asyncio, sys
from pathlib import Path
from tests.localcluster.test_supervisor import SLEEPER, build
from tests.support.servers.frameworkcrd import ROOT
from tests.support.waiting import wait_until_async

async def main():
    child = build(Path(sys.argv[1]), SLEEPER)
    task = asyncio.create_task(child.run())
    print(await wait_until_async(lambda: child.pid), flush=True)
    await task

asyncio.run(main())
"""


def build(tmp_path: Path, script: str) -> Supervisor:
    return Supervisor(
        "child",
        [sys.executable, "-c", script],
        log_path=tmp_path / "child.log",
        env={"PATH": os.environ["PATH"]},
        # Each end is quick, however long a start takes on a busy machine.
        clock=ManualClock(datetime(2026, 1, 1, tzinfo=UTC)),
        backoff=Backoff(0.01, 1.0, 0.01),
    )


async def wait_for_start(supervisor: Supervisor, starts: int, tmp_path: Path) -> int:
    """Wait until the child has started so often and printed it; return its pid."""

    def has_started() -> bool:
        log = tmp_path / "child.log"
        return supervisor.starts >= starts and log.read_text().count("up") >= starts

    await wait_until_async(has_started)
    assert supervisor.pid is not None
    return supervisor.pid


async def test_run_after_a_kill_starts_the_child_again(tmp_path: Path) -> None:
    supervisor = build(tmp_path, SLEEPER)
    task = asyncio.create_task(supervisor.run())
    first = await wait_for_start(supervisor, 1, tmp_path)
    os.kill(first, signal.SIGKILL)
    second = await wait_for_start(supervisor, 2, tmp_path)
    assert second != first
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not is_running(second)


async def test_run_when_cancelled_ends_the_child_with_sigterm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = (
        "import os, signal, sys, time\n"
        # Not print: the signal can arrive in the middle of the print of "up".
        "signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b'asked\\n'), sys.exit(0)))\n"
        f"{SLEEPER}"
    )
    monkeypatch.setattr("localcluster.supervisor._STOP_SECONDS", HANG_SECONDS)
    supervisor = build(tmp_path, script)
    task = asyncio.create_task(supervisor.run())
    await wait_for_start(supervisor, 1, tmp_path)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (tmp_path / "child.log").read_text() == "up\nasked\n"


async def test_run_of_a_child_that_always_fails_raises_with_its_output(tmp_path: Path) -> None:
    supervisor = build(tmp_path, "raise SystemExit('no configuration')")
    with pytest.raises(ChildFailedError, match=r"exit code 1; .*child.log") as caught:
        await supervisor.run()
    assert "no configuration" in str(caught.value)
    assert supervisor.starts == 6


async def test_run_when_its_own_process_is_killed_ends_the_child(tmp_path: Path) -> None:
    command = (sys.executable, "-c", PARENT, str(tmp_path))
    pipe = asyncio.subprocess.PIPE
    parent = await asyncio.create_subprocess_exec(*command, stdout=pipe, cwd=ROOT)
    assert parent.stdout is not None
    child = int(await parent.stdout.readline())
    parent.kill()
    await parent.wait()
    await wait_until_async(lambda: not is_running(child))
