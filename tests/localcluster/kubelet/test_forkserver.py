"""The fork server is killed, stopped, or asked for more than its connection holds."""

import asyncio
import gc
import os
import signal
from pathlib import Path

import pytest

from localcluster.kubelet.container.forkserver_process import ForkServerProcess
from localcluster.kubelet.container.process import ContainerProcess, LaunchSpec
from localcluster.kubelet.container.sandbox import NO_NAMESPACES
from localcluster.stdio import Stdio
from tests.localcluster.kubelet.nodes import is_alive
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.local


def start(server: ForkServerProcess, *argv: str, stdout: int | None = None) -> ContainerProcess:
    spec = LaunchSpec(list(argv), {"PATH": os.environ["PATH"]}, "/", NO_NAMESPACES)
    return ContainerProcess(server, spec, None if stdout is None else Stdio(stdout=stdout))


def get_pid(server: ForkServerProcess) -> int:
    assert server.pid is not None
    return server.pid


async def test_fork_server_killed_ends_its_containers_and_starts_again(
    server: ForkServerProcess,
) -> None:
    marker = f"{86400 + os.getpid()}.7"
    container = start(server, "sleep", marker)
    await container.started()
    killed = get_pid(server)

    os.kill(killed, signal.SIGKILL)

    assert await container.wait() == 137
    await wait_until_async(lambda: not is_alive(marker))
    container.terminate()
    assert await start(server, "true").wait() == 0
    assert server.pid != killed


@pytest.mark.slow
async def test_fork_server_that_stands_still_gets_all_requests_later(
    server: ForkServerProcess, tmp_path: Path
) -> None:
    assert await start(server, "true").wait() == 0
    os.kill(get_pid(server), signal.SIGSTOP)
    with (tmp_path / "output").open("wb") as file:
        # Linux takes some 280 such messages before it asks the sender to wait.
        containers = [
            start(server, "sh", "-c", f"echo {i}; exit {i % 7}", stdout=file.fileno())
            for i in range(320)
        ]
    os.kill(get_pid(server), signal.SIGCONT)

    codes = await asyncio.gather(*(container.wait() for container in containers))

    assert codes == [i % 7 for i in range(320)]
    printed = (tmp_path / "output").read_text().split()
    assert sorted(map(int, printed)) == list(range(320))


async def test_container_has_only_the_three_standard_files(
    server: ForkServerProcess, tmp_path: Path
) -> None:
    with (tmp_path / "output").open("wb") as file:
        first = start(server, "sleep", "600")
        await first.started()
        assert await start(server, "ls", "/proc/self/fd", stdout=file.fileno()).wait() == 0
        await first.kill()
    # The fourth is the directory that it lists.
    assert (tmp_path / "output").read_text().split() == ["0", "1", "2", "3"]


def read_children(pid: int) -> str:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text()


async def test_fork_server_leaves_no_ended_child(server: ForkServerProcess) -> None:
    assert await asyncio.gather(*(start(server, "true").wait() for _ in range(5))) == [0] * 5
    assert read_children(get_pid(server)) == ""


async def test_stop_while_nobody_waits_for_a_container_reports_no_error(
    server: ForkServerProcess,
) -> None:
    errors: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    container = start(server, "sleep", "600")
    await container.started()
    waiter = asyncio.create_task(container.wait())
    await asyncio.sleep(0)
    waiter.cancel()
    await asyncio.wait([waiter])

    await server.stop()
    del container, waiter
    gc.collect()

    assert errors == []


def count_open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_failed_start_leaves_no_open_file(server: ForkServerProcess) -> None:
    assert await start(server, "true").wait() == 0
    # Files that earlier tests left must not be closed between the two counts.
    gc.collect()
    before = count_open_files()

    with pytest.raises(ValueError, match="unmarshallable"):
        start(server, object())  # type: ignore[arg-type]  # what cannot be sent

    assert count_open_files() == before
