import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.rendezvous.agents import Gang, Publisher
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkserver import open_local_server


@pytest.fixture(scope="session")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    """The local cluster's API server, as a process."""
    with open_local_server(tmp_path_factory.mktemp("api")) as access:
        yield access


@pytest.fixture(scope="session")
def gang_numbers() -> Iterator[int]:
    return itertools.count(1)


@pytest.fixture
def open_gang(api: Access, gang_numbers: Iterator[int]) -> Callable[[], Publisher]:
    """Make a new Framework's ConfigMap, without a roster yet."""
    return lambda: Publisher(api.open_http(), f"job{next(gang_numbers)}")


@pytest.fixture
def gang(api: Access, open_gang: Callable[[], Publisher], tmp_path: Path) -> Gang:
    return Gang(api, open_gang(), tmp_path / "volume")


@pytest.fixture
def volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BARRIER_WORKING_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def grandchild() -> Iterator[Any]:
    """A function that starts a grandchild with these words, as a launcher starts its ssh."""
    parents: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> int:
        code = (
            "import subprocess,sys;"
            "p=subprocess.Popen([sys.executable,'-c','import time;print(1,flush=True);"
            "time.sleep(1000)',*sys.argv[1:]],stdout=subprocess.PIPE);p.stdout.readline();"
            "print(p.pid,flush=True);sys.stdin.read();p.kill();p.wait()"
        )
        parent = subprocess.Popen(
            [sys.executable, "-c", code, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        parents.append(parent)
        assert parent.stdout is not None
        return int(parent.stdout.readline())

    yield start
    for parent in parents:
        parent.communicate()
