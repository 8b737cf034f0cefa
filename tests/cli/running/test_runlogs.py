"""`framework run --logs` prints what the containers print."""

import asyncio
import io
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from cli.exitcodes import ExitCode
from cli.loglines.query import LogQuery
from cli.running import runlogs
from cli.running.display import Display
from cli.running.runlogs import RunningLogs
from framework.kube.client import KubeClient
from framework.kube.errors import KubeError
from tests.cli.test_sessions import build_role, call, write
from tests.support.builders import build_ended, build_pod_wire, build_waiting

RUNNING = {"name": "main", "state": {"running": {}}}


class FakeLogs:
    """Logs of containers: each has the same pieces, then a fault or the end."""

    def __init__(self, *pieces: bytes, fault: str = "", is_endless: bool = False) -> None:
        self.pieces = pieces
        self.fault = fault
        self.is_endless = is_endless

    async def stream(self, *_: object, **__: object) -> AsyncGenerator[bytes]:
        for piece in self.pieces:
            yield piece
        if self.is_endless:
            await asyncio.Event().wait()
        if self.fault:
            raise KubeError(self.fault)


def build_started(index: int = 0, status: dict[str, Any] = RUNNING) -> dict[str, Any]:
    return build_pod_wire("worker", index, containers=[status])


async def print_logs(
    logs: FakeLogs,
    *pods: dict[str, Any],
    query: LogQuery | None = None,
    max_open: int = runlogs.MAX_OPEN,
) -> list[str]:
    stream = io.StringIO()
    client: KubeClient = None  # type: ignore[assignment]  # the logs are kept
    running = RunningLogs(client, logs, Display(stream), query=query, max_open=max_open)
    for pod in pods:
        running.observe(pod)
    task = asyncio.create_task(running.run())
    await running.finish()
    task.cancel()
    await asyncio.wait([task])
    return stream.getvalue().splitlines()


@pytest.mark.looptime
@pytest.mark.parametrize("status", [RUNNING, build_ended()], ids=["running", "ended"])
async def test_lines_have_the_task_in_front(status: dict[str, Any]) -> None:
    logs = FakeLogs(b"one\ntw", b"o\n\x1b[31mred\x1b[0m \x07\nrest")
    assert await print_logs(logs, build_started(3, status)) == [
        "[worker/3] one",
        "[worker/3] two",
        "[worker/3] red \\x07",
        "[worker/3] rest",
    ]


@pytest.mark.looptime
async def test_log_is_opened_once_and_only_after_the_start() -> None:
    pods = [build_started(0, build_waiting()), build_started(), build_started()]
    assert await print_logs(FakeLogs(b"hello\n"), *pods) == ["[worker/0] hello"]


@pytest.mark.looptime
async def test_log_that_cannot_be_read_is_a_note_on_standard_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs = FakeLogs(b"a\n", fault="is waiting to start")
    assert await print_logs(logs, build_started()) == ["[worker/0] a"]
    assert capsys.readouterr().err == (
        "note: worker/0 has no output to show: is waiting to start\n"
    )


@pytest.mark.looptime
async def test_logs_beyond_the_limit_are_reported_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs = FakeLogs(b"x\n", is_endless=True)
    lines = await print_logs(logs, *map(build_started, range(4)), max_open=2)
    assert lines == ["[worker/0] x", "[worker/1] x"]
    assert capsys.readouterr().err == (
        "note: the output of 2 Pods is shown; `framework logs` prints the others\n"
    )


@pytest.mark.looptime
async def test_next_attempt_of_a_task_is_announced() -> None:
    second = build_started()
    second["metadata"] = {
        **second["metadata"],
        "uid": "another",
        "annotations": {"FC_TASK_ATTEMPT_ID": "1"},
    }
    assert await print_logs(FakeLogs(b"hello\n"), build_started(), second, second) == [
        "--- worker/0 attempt 1 ---",
        "[worker/0] hello",
        "[worker/0] hello",
    ]


@pytest.mark.looptime
async def test_restarted_container_is_read_again() -> None:
    again = build_started(status={**RUNNING, "restartCount": 1})
    assert await print_logs(FakeLogs(b"hello\n"), build_started(), again) == [
        "[worker/0] hello",
        "[worker/0] hello",
    ]


@pytest.mark.looptime
async def test_all_containers_are_named() -> None:
    pod = build_started()
    pod["spec"]["initContainers"] = [{"name": "barrier"}]
    pod["status"]["initContainerStatuses"] = [{**build_ended(), "name": "barrier"}]
    lines = await print_logs(FakeLogs(b"hello\n"), pod, query=LogQuery(all_containers=True))
    assert sorted(lines) == ["[worker/0 barrier] hello", "[worker/0 main] hello"]


@pytest.mark.local
def test_run_prints_the_output_of_its_containers(tmp_path: Path) -> None:
    file = write(tmp_path / "f.yaml", build_role("w", 2, "echo hello $FC_TASK_INDEX"))
    state = str(tmp_path / "state")
    code, output = call("run", "--local", "--logs", "--directory", state, file)
    assert code == ExitCode.SUCCEEDED, output
    assert {"[w/0] hello 0", "[w/1] hello 1"} <= set(output.splitlines())
