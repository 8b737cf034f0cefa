"""The logs of failed Pods: which container failed, and its lines at the end of a run."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from cli.exitcodes import ExitCode
from cli.local.keptlogs import LocalLogs
from cli.running.display import Display
from cli.running.failures import FailureLogs, find_failed_container
from framework.api.naming import TaskKey
from framework.kube.client import KubeClient
from framework.kube.resources import Object
from tests.cli.test_sessions import build_role, write
from tests.support.builders import FRAMEWORK, build_ended, build_pod_wire
from tests.support.servers.commandline import call_in_process


def ended(name: str, code: int, at: str) -> Object:
    return {"name": name, "state": {"terminated": {"exitCode": code, "finishedAt": at}}}


@pytest.mark.parametrize(
    ("init", "main", "name"),
    [
        ([], [ended("a", 0, "1"), ended("b", 1, "2"), ended("c", 1, "3")], "c"),
        ([ended("init", 201, "1")], [{"name": "a", "state": {"waiting": {}}}], "init"),
        ([], [ended("a", 0, "1")], None),
        ([], [], None),
    ],
    ids=["last", "init", "succeeded", "none"],
)
def test_find_failed_container_returns_the_last_that_failed(
    init: list[Object], main: list[Object], name: str | None
) -> None:
    pod = {"status": {"initContainerStatuses": init, "containerStatuses": main}}
    assert find_failed_container(pod) == name


class SlowLogs:
    """Logs that come late, or never."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def stream(self, *_: object, **__: object) -> AsyncGenerator[bytes]:
        await asyncio.sleep(self._seconds)
        yield b"why\n"


async def read(seconds: float) -> Any:
    client: KubeClient = None  # type: ignore[assignment]  # the logs are kept
    logs = FailureLogs(client, SlowLogs(seconds))
    reading = asyncio.create_task(logs.run())
    logs.add(build_pod_wire("worker", 0, phase="Failed", containers=[build_ended(code=3)]))
    await logs.finish()
    reading.cancel()
    return logs.get(FRAMEWORK, TaskKey("worker", 0))


@pytest.mark.looptime
async def test_finish_waits_for_the_lines_of_failed_pods() -> None:
    assert await read(5.0) == ("main", ["why"])


@pytest.mark.looptime
async def test_finish_does_not_wait_for_a_log_without_an_end() -> None:
    assert await read(1000.0) is None
    assert asyncio.get_running_loop().time() < 60


@pytest.mark.slow
@pytest.mark.local
def test_run_shows_last_lines_that_are_read_after_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_ended = asyncio.Event()
    update, stream = Display.update, LocalLogs.stream

    def update_and_look(self: Display, gangs: Any, *args: Any) -> None:
        update(self, gangs, *args)
        if gangs[0].is_completed:
            has_ended.set()

    async def stream_late(*args: Any, **options: Any) -> AsyncGenerator[bytes]:
        await has_ended.wait()
        # The display ends with this turn of the loop; the file takes longer.
        for _ in range(100):
            await asyncio.sleep(0)
        async for piece in stream(*args, **options):
            yield piece

    monkeypatch.setattr(Display, "update", update_and_look)
    monkeypatch.setattr(LocalLogs, "stream", stream_late)
    file = write(tmp_path / "f.yaml", build_role("w", 1, "echo why; exit 1"))
    answer = call_in_process("run", "--local", "--directory", str(tmp_path / "state"), file)
    assert answer.code == ExitCode.FAILED, answer
    assert "last lines of container main:\n    why\n" in answer.out
