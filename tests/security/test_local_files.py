"""Another user of the machine plants files where the local cluster writes its own.

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

from cli.exitcodes import CliError
from cli.local.commands import stop_cluster
from cli.local.state import read_state
from framework.clock import SystemClock, SystemRandom, SystemUids
from localcluster.cluster import ClusterOptions, LocalCluster, LocalClusterError
from localcluster.private_files import ExposedError, make_private_directory, write_private_file
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


def plant_symlink(path: Path, victim: Path) -> None:
    path.symlink_to(victim)


def plant_hard_link(path: Path, victim: Path) -> None:
    path.hardlink_to(victim)


def plant_file(path: Path, victim: Path) -> None:
    path.write_text("apiVersion: v1\n")
    path.chmod(0o666)


def plant_fifo(path: Path, victim: Path) -> None:
    os.mkfifo(path, 0o666)


def plant_kubeconfig(path: Path, victim: Path) -> None:
    """Plant a kubeconfig that looks like one of a local cluster."""
    part = [{"name": "frameworkbarrier-local"}]
    config = {"clusters": part, "users": part, "contexts": part}
    path.write_text(yaml.safe_dump(config))
    path.chmod(0o666)


Plant = Callable[[Path, Path], None]
PLANTS = [plant_symlink, plant_hard_link, plant_file, plant_fifo, plant_kubeconfig]


def give_away(path: Path, owner: int = ATTACKER) -> None:
    if path.is_file() and not path.is_symlink() and path.stat().st_nlink > 1:
        return  # A hard link is the victim's own file.
    os.lchown(path, owner, owner)


def assert_untouched(victim: Path) -> None:
    assert victim.read_text() == VICTIM_TEXT


def assert_without_token(path: Path) -> None:
    assert "token" not in path.read_text()


def assert_private(path: Path) -> None:
    found = path.lstat()
    assert stat.S_ISREG(found.st_mode)
    assert stat.S_IMODE(found.st_mode) == 0o600
    assert (found.st_uid, found.st_nlink) == (os.geteuid(), 1)


@pytest.mark.parametrize("plant", PLANTS)
async def test_kubeconfig_with_planted_temporary_is_private(
    plant: Plant, tmp_path: Path, shared: Path, victim: Path
) -> None:
    temporary = shared / f".config.{os.getpid()}"
    plant(temporary, victim)
    give_away(temporary)
    async with run_cluster(tmp_path, kubeconfig=shared / "config"):
        assert_private(shared / "config")
        assert_untouched(victim)
        if plant in (plant_file, plant_kubeconfig):
            assert_without_token(temporary)


@pytest.mark.parametrize("plant", PLANTS)
async def test_kubeconfig_with_something_planted_at_its_name_is_private_or_refused(
    plant: Plant, tmp_path: Path, shared: Path, victim: Path
) -> None:
    path = shared / "config"
    plant(path, victim)
    give_away(path)
    if plant is plant_kubeconfig:
        # Root may replace it; another user could not, and would be told so.
        async with run_cluster(tmp_path, kubeconfig=path):
            assert_private(path)
        return
    with pytest.raises(LocalClusterError, match=r"--kubeconfig: .* name another file"):
        async with run_cluster(tmp_path, kubeconfig=path):
            pass
    assert_untouched(victim)


async def test_kubeconfig_where_everybody_may_replace_it_is_refused(tmp_path: Path) -> None:
    shared = make_directory_for_all(tmp_path)
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


def make_directory_of_attacker(shared: Path) -> Path:
    (shared / "cluster").mkdir()
    os.chown(shared / "cluster", ATTACKER, ATTACKER)
    return shared / "cluster"


def make_link_to_directory_of_attacker(shared: Path) -> Path:
    target = make_directory_of_attacker(shared)
    (shared / "link").symlink_to(target)
    return shared / "link"


def make_directory_for_all(shared: Path) -> Path:
    (shared / "cluster").mkdir()
    (shared / "cluster").chmod(0o777)
    return shared / "cluster"


def make_directory_for_a_group(shared: Path) -> Path:
    (shared / "cluster").mkdir()
    os.chown(shared / "cluster", os.geteuid(), ATTACKER)
    (shared / "cluster").chmod(0o775)
    return shared / "cluster"


def use_shared_directory_itself(shared: Path) -> Path:
    return shared


EXPOSED = [
    make_directory_of_attacker,
    make_link_to_directory_of_attacker,
    make_directory_for_all,
    make_directory_for_a_group,
    use_shared_directory_itself,
]


@pytest.mark.parametrize("make", EXPOSED)
async def test_directory_that_others_may_change_is_refused(
    make: Callable[[Path], Path], shared: Path
) -> None:
    directory = make(shared)
    with pytest.raises(LocalClusterError, match=r"--directory: .* directory of your own"):
        async with run_cluster(shared, directory=directory):
            pass
    assert list(directory.iterdir()) in ([], [directory])


@pytest.mark.parametrize("make", EXPOSED[:2])
def test_up_in_a_directory_that_others_may_change_writes_nothing(
    make: Callable[[Path], Path], shared: Path
) -> None:
    directory = make(shared)
    command = [sys.executable, "-m", "cli.main", "local", "up", "--directory", str(directory)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=HANG_SECONDS, check=False
    )
    assert done.returncode == 2
    assert "directory of your own" in done.stderr
    assert list(directory.iterdir()) in ([], [directory])


def test_down_by_a_state_file_of_another_user_ends_no_process(shared: Path) -> None:
    directory = make_directory_of_attacker(shared)
    with subprocess.Popen(["sleep", "60"]) as bystander:
        try:
            state = {"pid": bystander.pid, "server": "", "kubeconfig": "", "directory": ""}
            (directory / "state.json").write_text(json.dumps({**state, "started_at": ""}))
            lock = f"import fcntl, sys; f = open({str(directory / 'lock')!r}, 'wb')"
            holder = (
                f"{lock}; fcntl.flock(f, fcntl.LOCK_EX); print(1, flush=True); sys.stdin.read()"
            )
            with subprocess.Popen(
                [sys.executable, "-c", holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            ) as held:
                assert held.stdout is not None
                held.stdout.readline()
                with pytest.raises(CliError, match="belongs to another user"):
                    stop_cluster(str(directory))
                with pytest.raises(CliError, match="belongs to another user"):
                    read_state(directory)
                assert held.stdin is not None
                held.stdin.close()
            assert bystander.poll() is None
        finally:
            bystander.kill()


def test_private_directory_of_ones_own_group_is_taken(tmp_path: Path) -> None:
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
    assert victim.read_text() == VICTIM_TEXT


def test_private_file_that_others_could_replace_is_refused(shared: Path) -> None:
    shared.chmod(0o777)
    with pytest.raises(ExposedError, match="directory of your own"):
        write_private_file(shared / "file", "secret")
