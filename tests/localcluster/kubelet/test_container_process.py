import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest

from localcluster.kubelet.container.forkserver_process import ForkServerProcess
from localcluster.kubelet.container.process import ContainerProcess, LaunchSpec, Namespaces
from localcluster.kubelet.container.sandbox import NO_NAMESPACES, Isolation, detect_namespaces
from localcluster.stdio import StartError, Stdio
from tests.localcluster.kubelet.nodes import is_alive
from tests.support.servers.frameworkcrd import ROOT
from tests.support.waiting import HANG_SECONDS, wait_until_async

pytestmark = pytest.mark.local
# Starts a container and prints the id of its first process.
DRIVER = """
import asyncio, os, pathlib
from localcluster.kubelet.container.forkserver_process import ForkServerProcess
from localcluster.kubelet.container.process import *

async def main():
    folder = pathlib.Path({folder!r})
    spec = LaunchSpec(["sleep", "{marker}"], dict(os.environ), "/", {namespaces!r},
                      log=folder / "log", root=folder / "root")
    container = ContainerProcess(ForkServerProcess(), spec)
    await container.started()
    print(container.init_pid, flush=True)
    await container.wait()

asyncio.run(main())
"""


@pytest.fixture(params=["private root", "none"])
async def namespaces(
    request: pytest.FixtureRequest, tmp_path: Path, server: ForkServerProcess
) -> Namespaces:
    if request.param == "none":
        return NO_NAMESPACES
    return await detect_namespaces(Isolation.ROOT, tmp_path, server)


def build_spec(
    script: str, tmp_path: Path, namespaces: Namespaces, cwd: str = "/", **fields: Any
) -> LaunchSpec:
    root = tmp_path / "root"
    root.mkdir(exist_ok=True)
    return LaunchSpec(
        argv=["sh", "-c", script],
        env={"PATH": os.environ["PATH"]},
        cwd=cwd,
        namespaces=namespaces,
        log=tmp_path / "log",
        root=root,
        hostname="pod-0",
        **fields,
    )


@contextlib.asynccontextmanager
async def start(server: ForkServerProcess, spec: LaunchSpec) -> AsyncGenerator[ContainerProcess]:
    container = ContainerProcess(server, spec)
    try:
        yield container
    finally:
        await container.kill()


async def run(server: ForkServerProcess, spec: LaunchSpec) -> int:
    async with start(server, spec) as container:
        await container.started()
        return await container.wait()


async def wait_for_line(path: Path, text: str) -> None:
    await wait_until_async(lambda: path.exists() and text in path.read_text())


def find_on_host(*paths: str) -> list[str]:
    return [path for path in paths if Path(path).exists()]


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)])
async def test_container_process_exit_code_is_the_commands(
    server: ForkServerProcess, script: str, code: int, tmp_path: Path, namespaces: Namespaces
) -> None:
    assert await run(server, build_spec(script, tmp_path, namespaces)) == code


async def test_container_process_output_is_logged_line_by_line_and_whole(
    server: ForkServerProcess, tmp_path: Path, namespaces: Namespaces
) -> None:
    script = "echo out; echo err >&2; seq 1 50000; printf part"
    await run(server, build_spec(script, tmp_path, namespaces))
    lines = [line.split(" ", 3)[1:] for line in (tmp_path / "log").read_text().splitlines()]
    assert [line for line in lines if line[0] == "stderr"] == [["stderr", "F", "err"]]
    assert [line for line in lines if line[0] == "stdout"] == [
        ["stdout", "F", "out"],
        *(["stdout", "F", str(i)] for i in range(1, 50001)),
        ["stdout", "P", "part"],
    ]


async def test_container_process_end_leaves_no_orphan(
    server: ForkServerProcess, tmp_path: Path, namespaces: Namespaces
) -> None:
    marker = f"{86400 + os.getpid()}.1"
    code = await run(server, build_spec(f"setsid sleep {marker} & sleep 0.1", tmp_path, namespaces))
    assert code == 0
    assert not is_alive(marker)


async def test_container_process_kill_leaves_no_orphan(
    server: ForkServerProcess,
    tmp_path: Path,
    namespaces: Namespaces,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    marker = f"{86400 + os.getpid()}.2"
    monkeypatch.setattr(
        "localcluster.kubelet.container.process._KILL_TIMEOUT_SECONDS", HANG_SECONDS
    )
    script = f"trap '' TERM; setsid sleep {marker} & echo up; while :; do sleep 1; done"
    async with start(server, build_spec(script, tmp_path, namespaces)) as container:
        await wait_for_line(tmp_path / "log", "up")
        container.terminate()
        assert await container.kill() == 137
    assert not is_alive(marker)


async def test_container_process_kubelet_killed_ends_the_container(
    tmp_path: Path, namespaces: Namespaces
) -> None:
    marker = f"{86400 + os.getpid()}.3"
    (tmp_path / "root").mkdir()
    driver = DRIVER.format(marker=marker, namespaces=namespaces, folder=str(tmp_path))
    kubelet = await asyncio.create_subprocess_exec(
        sys.executable, "-c", driver, stdout=subprocess.PIPE, cwd=ROOT
    )
    assert kubelet.stdout is not None
    init = os.pidfd_open(int(await kubelet.stdout.readline()))
    # The kernel sets the command line at the end of exec, after it has closed the report.
    await wait_until_async(lambda: is_alive(marker))

    kubelet.kill()
    await kubelet.wait()

    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(init, ended.set)
    await ended.wait()
    asyncio.get_running_loop().remove_reader(init)
    os.close(init)
    assert not is_alive(marker)


@pytest.fixture
async def private(tmp_path: Path, server: ForkServerProcess) -> Namespaces:
    return await detect_namespaces(Isolation.ROOT, tmp_path, server)


async def test_private_root_has_its_mounts_and_the_host_is_unchanged(
    server: ForkServerProcess, tmp_path: Path, private: Namespaces
) -> None:
    volume = tmp_path / "volume"
    (volume / "deep").mkdir(parents=True)
    hosts = tmp_path / "hosts"
    hosts.write_text("127.64.0.1 pod-0\n")
    deep = "/usr/local/lib/kubelet-test"
    targets = ["/mnt/kubelet-test", "/kubelet-test/a/b", deep, "/var/run/kt"]
    mounts = [(str(volume), target, False) for target in targets]
    mounts += [
        (str(volume), "/mnt/kubelet-test/deep/inner", False),
        (str(volume), "/kubelet-test/ro", True),
        (str(hosts), "/etc/hosts", False),
        (str(hosts), "/dev/termination-log", False),
    ]
    script = (
        f"for d in {' '.join(targets)}; do echo x >$d/file || exit 1; done; "
        "touch /mnt/kubelet-test/deep/inner/y || exit 2; "
        "! touch /kubelet-test/ro/z 2>/dev/null || exit 3; "
        "cat /etc/hosts; cat /dev/termination-log; hostname; pwd; "
        "test -e /usr/bin/env && test -c /dev/null && ls /usr/local/lib >/dev/null || exit 4; "
        "touch /own /mnt/own || exit 5; test -e /proc/self/exe || exit 6"
    )

    code = await run(server, build_spec(script, tmp_path, private, mounts=mounts))

    log = (tmp_path / "log").read_text()
    assert code == 0, log
    printed = [line.rsplit(" F ", 1)[1] for line in log.splitlines()]
    assert printed == ["127.64.0.1 pod-0", "127.64.0.1 pod-0", "pod-0", "/"]
    assert (volume / "file").exists()
    assert (volume / "y").exists()
    assert not find_on_host("/mnt/kubelet-test", "/kubelet-test", deep, "/own", "/mnt/own")
    assert list((tmp_path / "root").iterdir()) == []


async def test_private_root_working_directory_is_made(
    server: ForkServerProcess, tmp_path: Path, private: Namespaces
) -> None:
    spec = build_spec("pwd; touch here", tmp_path, private, cwd="/kubelet-work/x")
    assert await run(server, spec) == 0
    assert "/kubelet-work/x" in (tmp_path / "log").read_text()
    assert not find_on_host("/kubelet-work")


async def test_private_root_bad_mount_is_a_start_error(
    server: ForkServerProcess, tmp_path: Path, private: Namespaces
) -> None:
    async with start(
        server, build_spec("true", tmp_path, private, mounts=[("/tmp", "/", False)])
    ) as bad:
        with pytest.raises(StartError, match="cannot be mounted at /"):
            await bad.started()


async def test_private_root_joined_command_sees_the_containers_root(
    server: ForkServerProcess, tmp_path: Path, private: Namespaces
) -> None:
    spec = build_spec("touch /only-here; echo up; sleep 600", tmp_path, private)
    output = os.memfd_create("output")
    async with start(server, spec) as container:
        await container.started()
        await wait_for_line(tmp_path / "log", "up")
        command = ["sh", "-c", "ls -d /only-here; hostname"]
        join = LaunchSpec(command, spec.env, "/", private, join=container.init_pid)
        joined = ContainerProcess(server, join, Stdio(stdout=output))
        await joined.started()
        assert await joined.wait() == 0
    assert os.pread(output, 100, 0) == b"/only-here\npod-0\n"
    os.close(output)


ORDINARY_DRIVER = """
import asyncio, os, pathlib
from localcluster.kubelet.container.forkserver_process import ForkServerProcess
from localcluster.kubelet.container.process import *
from localcluster.kubelet.container.sandbox import *

async def main():
    base = pathlib.Path.cwd() / "own"
    server = ForkServerProcess()
    found = await detect_namespaces(Isolation.AUTO, base, server)
    if not found.private_root:
        print("forbidden")
        return
    (base / "volume").mkdir()
    spec = LaunchSpec(
        ["sh", "-c", "id -un; echo x >/mnt/kubelet-test/file"], {"PATH": os.environ["PATH"]}, "/",
        found, log=base / "log", root=base / "trial-root",
        mounts=[(str(base / "volume"), "/mnt/kubelet-test", False)],
    )
    container = ContainerProcess(server, spec)
    await container.started()
    print(found.user, await container.wait(), (base / "log").read_text().split()[-1],
          (base / "volume/file").exists())
    await server.stop()

asyncio.run(main())
"""


@pytest.fixture
def public_copy() -> Iterator[Path]:
    """A copy of the packages that every user may read, in a directory that every user may enter."""
    directory = Path(tempfile.mkdtemp())
    directory.chmod(0o777)
    try:
        ignore = shutil.ignore_patterns("__pycache__")
        for package in ("framework", "localcluster"):
            shutil.copytree(ROOT / package, directory / package, ignore=ignore)
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def find_public_python(runuser: str) -> str | None:
    """Return an interpreter that other users may run and that is new enough."""
    for name in ("python3.13", "python3.12", "python3.11", "python3"):
        path = shutil.which(name, path="/usr/local/bin:/usr/bin:/bin")
        check = "import sys; sys.exit(sys.version_info < (3, 11))"
        command = [runuser, "-u", "nobody", "--", path or "false", "-c", check]
        if path and subprocess.run(command, check=False).returncode == 0:
            return path
    return None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_private_root_ordinary_user_gets_one_in_a_user_namespace(public_copy: Path) -> None:
    runuser = shutil.which("runuser")
    python = find_public_python(runuser) if runuser else None
    if runuser is None or python is None:
        pytest.skip("needs runuser and a Python 3.11 that user nobody may run: install python3")
    answer = subprocess.run(
        [runuser, "-u", "nobody", "--", python, "-c", ORDINARY_DRIVER],
        cwd=public_copy,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.stdout.strip() == "forbidden":
        pytest.skip("this host forbids user namespaces to ordinary users")
    assert answer.stdout.split() == ["True", "0", "nobody", "True"], answer.stderr
