"""Another user of the machine creates files at the names of the local cluster's own.

The attacker's files are made by root and given to another user, so these tests need root.
"""

import json
import os
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from cli.exitcodes import CliError
from cli.local.commands import stop_cluster
from cli.local.state import read_state
from cli.main import main
from framework.clock import SystemClock, SystemRandom, SystemUids
from localcluster.cluster import ClusterOptions, LocalCluster, LocalClusterError
from localcluster.private_files import (
    ExposedError,
    make_private_directory,
    read_regular_file,
    write_private_file,
)
from tests.support.waiting import HANG_SECONDS

pytestmark = [
    pytest.mark.local,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user"),
]

ATTACKER = 65534
VICTIM_TEXT = "the victim's own\n"


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A directory like /tmp."""
    directory = tmp_path / "shared"
    directory.mkdir()
    directory.chmod(0o1777)
    return directory


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file of the user who runs the cluster; nothing may change it."""
    path = tmp_path / "victim"
    path.write_text(VICTIM_TEXT)
    path.chmod(0o644)
    return path


@pytest.fixture
def open_umask() -> Iterator[None]:
    """A umask that takes nothing away."""
    before = os.umask(0)
    yield
    os.umask(before)


@asynccontextmanager
async def run_cluster(tmp_path: Path, **options: Path) -> AsyncIterator[LocalCluster]:
    cluster = LocalCluster(
        ClusterOptions(
            directory=options.get("directory", tmp_path / "cluster"),
            kubeconfig_path=options.get("kubeconfig"),
            with_kubelet=False,
            with_controller=False,
        ),
        clock=SystemClock(),
        uids=SystemUids(),
        random=SystemRandom(),
    )
    async with cluster:
        yield cluster


def write_for_all(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o666)


PART = [{"name": "frameworkbarrier-local"}]
LOCAL_KUBECONFIG = yaml.safe_dump({"clusters": PART, "users": PART, "contexts": PART})
PLANTS: dict[str, Callable[[Path, Path], object]] = {
    "symlink": Path.symlink_to,
    "hard_link": Path.hardlink_to,
    "file": lambda path, _: write_for_all(path, "apiVersion: v1\n"),
    "fifo": lambda path, _: os.mkfifo(path, 0o666),
    "kubeconfig": lambda path, _: write_for_all(path, LOCAL_KUBECONFIG),
}


def plant(name: str, path: Path, victim: Path) -> None:
    """Create a file of the attacker; a hard link is the victim's own file."""
    PLANTS[name](path, victim)
    if name != "hard_link":
        os.lchown(path, ATTACKER, ATTACKER)


def read(path: Path) -> str:
    return path.read_text()


def assert_private(path: Path) -> None:
    found = path.lstat()
    assert stat.S_ISREG(found.st_mode)
    assert stat.S_IMODE(found.st_mode) == 0o600
    assert (found.st_uid, found.st_nlink) == (os.geteuid(), 1)


@pytest.mark.parametrize("name", PLANTS)
async def test_kubeconfig_with_planted_temporary_is_private(
    name: str, tmp_path: Path, shared: Path, victim: Path
) -> None:
    temporary = shared / f".config.{os.getpid()}"
    plant(name, temporary, victim)
    async with run_cluster(tmp_path, kubeconfig=shared / "config"):
        assert_private(shared / "config")
        assert read(victim) == VICTIM_TEXT
        if name in {"file", "kubeconfig"}:
            assert "token" not in read(temporary)


@pytest.mark.parametrize("name", PLANTS)
async def test_kubeconfig_with_a_planted_file_at_its_name_is_private_or_refused(
    name: str, tmp_path: Path, shared: Path, victim: Path
) -> None:
    path = shared / "config"
    plant(name, path, victim)
    if name == "kubeconfig":
        # Root may replace it; another user could not, and would be refused.
        async with run_cluster(tmp_path, kubeconfig=path):
            assert_private(path)
        return
    with pytest.raises(LocalClusterError, match=r"--kubeconfig: .* name another file"):
        async with run_cluster(tmp_path, kubeconfig=path):
            pass
    assert read(victim) == VICTIM_TEXT


async def test_kubeconfig_that_every_user_may_replace_is_refused(tmp_path: Path) -> None:
    shared = make_directory(tmp_path, 0o777)
    with pytest.raises(LocalClusterError, match="every user may replace files"):
        async with run_cluster(tmp_path / "own", kubeconfig=shared / "config"):
            pass
    assert not (shared / "config").exists()


async def test_everything_written_with_an_open_umask_is_private(
    open_umask: None, shared: Path
) -> None:
    directory = shared / "cluster"
    async with run_cluster(shared, directory=directory):
        for path in (directory, *directory.rglob("*")):
            assert path.stat().st_mode & 0o022 == 0 or path.is_symlink()
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        assert_private(directory / "kubeconfig")


def make_directory(shared: Path, mode: int = 0o755, owner: int = 0, group: int = 0) -> Path:
    directory = shared / "cluster"
    directory.mkdir()
    os.chown(directory, owner, group)
    directory.chmod(mode)
    return directory


def make_directory_of_attacker(shared: Path) -> Path:
    return make_directory(shared, owner=ATTACKER, group=ATTACKER)


def make_link_to_directory_of_attacker(shared: Path) -> Path:
    (shared / "link").symlink_to(make_directory_of_attacker(shared))
    return shared / "link"


EXPOSED: dict[str, Callable[[Path], Path]] = {
    "attacker": make_directory_of_attacker,
    "link": make_link_to_directory_of_attacker,
    "all": lambda shared: make_directory(shared, 0o777),
    "group": lambda shared: make_directory(shared, 0o775, group=ATTACKER),
    "shared": lambda shared: shared,
}


@pytest.mark.parametrize("name", EXPOSED)
async def test_directory_that_others_may_change_is_refused(name: str, shared: Path) -> None:
    directory = EXPOSED[name](shared)
    with pytest.raises(LocalClusterError, match=r"--directory: .* directory of your own"):
        async with run_cluster(shared, directory=directory):
            pass
    assert list(directory.iterdir()) in ([], [directory])


@pytest.mark.parametrize("name", ["attacker", "link"])
def test_up_in_a_directory_that_others_may_change_writes_nothing(name: str, shared: Path) -> None:
    directory = EXPOSED[name](shared)
    command = [sys.executable, "-m", "cli.main", "local", "up", "--directory", str(directory)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=HANG_SECONDS, check=False
    )
    assert done.returncode == 2
    assert "directory of your own" in done.stderr
    assert list(directory.iterdir()) in ([], [directory])


HOLD_LOCK = """
import fcntl, sys
lock = open(sys.argv[1], "wb")
fcntl.flock(lock, fcntl.LOCK_EX)
print(1, flush=True)
sys.stdin.read()
"""


def test_down_by_a_state_file_of_another_user_ends_no_process(shared: Path) -> None:
    directory = make_directory_of_attacker(shared)
    command = [sys.executable, "-c", HOLD_LOCK, str(directory / "lock")]
    with (
        subprocess.Popen(["sleep", "100000"]) as bystander,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder,
    ):
        try:
            assert holder.stdout is not None
            holder.stdout.readline()
            state = {"server": "", "kubeconfig": "", "directory": "", "started_at": ""}
            (directory / "state.json").write_text(json.dumps({"pid": bystander.pid, **state}))
            with pytest.raises(CliError, match="belongs to another user"):
                stop_cluster(str(directory))
            with pytest.raises(CliError, match="belongs to another user"):
                read_state(directory)
            assert bystander.poll() is None
        finally:
            holder.kill()
            bystander.kill()


def test_private_directory_of_the_own_group_is_accepted(tmp_path: Path) -> None:
    directory = tmp_path / "mine"
    directory.mkdir()
    directory.chmod(0o775)
    make_private_directory(directory)
    make_private_directory(directory / "deeper" / "still")
    assert stat.S_IMODE((directory / "deeper" / "still").stat().st_mode) == 0o700


def test_private_file_replaces_a_link_and_leaves_its_target(
    open_umask: None, shared: Path, victim: Path
) -> None:
    (shared / "file").symlink_to(victim)
    write_private_file(shared / "file", "secret")
    assert_private(shared / "file")
    assert read(victim) == VICTIM_TEXT


def test_private_file_that_others_could_replace_is_refused(shared: Path) -> None:
    shared.chmod(0o777)
    with pytest.raises(ExposedError, match="directory of your own"):
        write_private_file(shared / "file", "secret")


def test_file_is_not_read_through_a_link(victim: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        read_regular_file(tmp_path / "link", 100)
    assert read_regular_file(victim, 100).decode() == VICTIM_TEXT


WHOSE = {
    "namespace": "default", "pod": "p", "uid": "u", "labels": {"FC_FRAMEWORK_NAME": "gang"},
    "annotations": {}, "firstContainer": "c", "startedAt": "2026-01-01T00:00:00Z",
}  # fmt: skip


def keep_log(directory: Path, pod: str = "p", **changed: object) -> Path:
    """Write the log of a Pod; return the file that says whose it is."""
    path = directory / "logs" / f"default_{pod}_u"
    path.mkdir(parents=True)
    (path / "c.log").write_text("2026-01-01T00:00:00Z stdout F hello\n")
    (path / "pod.json").write_text(json.dumps(WHOSE | {"pod": pod} | changed))
    return path / "pod.json"


def print_logs(*words: str) -> str:
    return CliRunner().invoke(main, ["logs", *words], catch_exceptions=False).output


@pytest.mark.parametrize(("owner", "is_read"), [(0, True), (ATTACKER, False)])
def test_logs_are_not_read_from_the_runtime_directory_of_another_user(
    *, owner: int, is_read: bool, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = shared / "frameworkbarrier"
    keep_log(directory)
    os.chown(directory, owner, owner)
    monkeypatch.setenv("HOME", str(shared))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(shared))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert ("hello" in print_logs("gang")) == is_read


@pytest.mark.parametrize(
    "changed",
    [
        {"labels": [1]},
        {"labels": {"FC_FRAMEWORK_NAME": 1}},
        {"startedAt": 5},
        {"startedAt": "x"},
        {"startedAt": "2026-01-01T00:00:00"},
        {"uid": None},
    ],
    ids=str,
)
def test_kept_log_with_an_invalid_description_is_skipped(
    changed: dict[str, object], tmp_path: Path
) -> None:
    keep_log(tmp_path, "valid")
    keep_log(tmp_path, "invalid", **changed)
    assert print_logs("gang", "--directory", str(tmp_path)) == "hello\n"


def test_kept_logs_with_a_fifo_or_nested_description_are_skipped(tmp_path: Path) -> None:
    keep_log(tmp_path, "valid")
    fifo = keep_log(tmp_path, "fifo")
    fifo.unlink()
    os.mkfifo(fifo)
    keep_log(tmp_path, "nested").write_text("[" * 60_000 + "]" * 60_000)
    assert print_logs("gang", "--directory", str(tmp_path)) == "hello\n"


def test_kept_log_of_a_pod_with_a_strange_index_is_no_task(tmp_path: Path) -> None:
    labels = {"FC_FRAMEWORK_NAME": "gang", "FC_TASKROLE_NAME": "w", "FC_TASK_INDEX": "z"}
    keep_log(tmp_path, labels=labels)
    output = print_logs("gang", "w/3", "--directory", str(tmp_path))
    assert "has no Task w/3: its Tasks are w (no Tasks)" in output
