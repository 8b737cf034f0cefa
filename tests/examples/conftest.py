"""One local cluster for the tests of a file, started as a user starts it."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.config import KubeConfig
from tests.examples.commandline import call
from tests.support.servers.frameworkserver import read_kubeconfig


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A local cluster in the background, as ``framework local up --detach`` starts it."""
    directory = str(tmp_path_factory.mktemp("cluster"))
    started = call("local", "up", "--detach", "--directory", directory)
    assert started.returncode == 0, started.stderr
    yield f"{directory}/kubeconfig"
    stopped = call("local", "down", "--directory", directory)
    assert stopped.returncode == 0, stopped.stderr


@pytest.fixture
async def kube(kubeconfig: str) -> AsyncIterator[KubeClient]:
    """The same cluster, for what the command line has no word for."""
    access = read_kubeconfig(Path(kubeconfig))
    config = KubeConfig(server=access.url, token=access.token)
    async with KubeClient(config, user_agent="tests-examples", clock=SystemClock()) as client:
        yield client
