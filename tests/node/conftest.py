"""The node that `make test-node` started, with our controller deployed on it."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.cluster import Cluster, open_cluster

_numbers = itertools.count(1)
# Looks at what all the others have done.
_LAST_MODULE = "test_rights.py"
# Longer than each of the few waits of a test, whose failure says more.
_TEST_SECONDS = 2400


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folder = str(Path(__file__).parent) + os.sep
    for item in items:
        if str(item.path).startswith(folder):
            item.add_marker(pytest.mark.timeout(_TEST_SECONDS))
    items.sort(key=lambda item: item.path.name == _LAST_MODULE)


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """The node, with controller, admission and network policies as docs/install.md says."""
    found = open_cluster(os.environ)
    if found is None:
        pytest.skip("no node: run these tests with `make test-node`")
    found.deploy()
    return found


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """An empty namespace that enforces Pod Security's level `restricted`."""
    name = f"team-{next(_numbers)}"
    cluster.create_namespace(name, pod_security="restricted")
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")
