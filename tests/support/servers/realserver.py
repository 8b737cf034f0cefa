"""Fixtures of a real API server, each test in a namespace of its own.

The ``conftest.py`` of a folder whose tests need one imports them: tests/kube, tests/security.
Without the programs the tests are skipped. If several processes run the tests (``-n``), each has a
server of its own: some tests run a controller of all namespaces, which would act on the Frameworks
of other tests beside their controllers.
"""

import itertools
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack

import pytest

from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.config import KubeConfig
from tests.support.machine.prerequisites import MissingPrerequisiteError
from tests.support.servers.controlplane import (
    SERVER_ENV,
    USE_KUBECONFIG_ENV,
    Access,
    open_control_plane,
)
from tests.support.servers.frameworkcrd import install_crd, wait_ready
from tests.support.servers.jsonhttp import JsonHttp

# The number of processes that run the tests; pytest-xdist sets it.
PROCESSES_ENV = "PYTEST_XDIST_WORKER_COUNT"
_ACCESS = pytest.StashKey[Access]()
_numbers = itertools.count(1)


def leave_out_shared(env: Mapping[str, str]) -> Mapping[str, str]:
    """Leave the server of the environment out if another process of this run uses it, too.

    Raises:
        pytest.fail.Exception: it is an existing cluster, which cannot be started once more.
    """
    if int(env.get(PROCESSES_ENV, "1")) == 1:
        return env
    if env.get(USE_KUBECONFIG_ENV) == "1":
        pytest.fail("tests on an existing cluster need one process: run pytest without -n")
    return {name: value for name, value in env.items() if name != SERVER_ENV}


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest) -> Access:
    """The server of this process.

    Each ``conftest.py`` that imports the fixture has one of its own; all of them use one server.
    """
    config = request.config
    if _ACCESS not in config.stash:
        opened = ExitStack()
        try:
            config.stash[_ACCESS] = opened.enter_context(
                open_control_plane(leave_out_shared(os.environ), build=False)
            )
        except MissingPrerequisiteError as e:
            pytest.skip(str(e))
        config.add_cleanup(opened.close)
    return config.stash[_ACCESS]


@pytest.fixture(scope="session")
def audited_plane(control_plane: Access) -> Access:
    """The control plane, with kubectl and an audit log."""
    if control_plane.kubectl is None or control_plane.audit_log is None:
        pytest.skip("needs kubectl and an audit log: let make test-kube start the control plane")
    return control_plane


@pytest.fixture(scope="session")
def http(control_plane: Access) -> JsonHttp:
    return control_plane.open_http()


@pytest.fixture(scope="session")
def framework_crd(http: JsonHttp) -> None:
    """The Framework CRD, served."""
    install_crd(http)


@pytest.fixture
def namespace(http: JsonHttp) -> Iterator[str]:
    """An empty namespace whose ServiceAccount is there, so that Pods can be created."""
    name = f"test-{os.getpid()}-{next(_numbers)}"
    status, answer = http.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    assert status == 201, answer
    wait_ready(http, f"/api/v1/namespaces/{name}/serviceaccounts/default")
    yield name
    http.request("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
async def kube(control_plane: Access) -> AsyncIterator[KubeClient]:
    config = KubeConfig(
        server=control_plane.url, token=control_plane.token, ca_file=control_plane.ca_file
    )
    async with KubeClient(config, user_agent="tests-kube", clock=SystemClock()) as client:
        yield client
