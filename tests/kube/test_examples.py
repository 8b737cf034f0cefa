"""Examples on a real API server: accepted as they are, Pods as their templates, scaling."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from framework.clock import SystemClock
from framework.kube.client import KubeClient
from tests.examples.passing import check_all, check_originals, read_all
from tests.examples.rescaling import walk_through
from tests.examples.stage import Stage, read_documents
from tests.support.fakes.kubelet import FakeKubelet, run_until_deleted
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkserver import start_controller
from tests.support.servers.jsonhttp import JsonHttp


@pytest.fixture(autouse=True)
def controller(framework_crd: None, control_plane: Access, tmp_path: Path) -> Iterator[None]:
    with start_controller(control_plane, tmp_path) as child:
        yield
        child.raise_if_ended()


@pytest.fixture
async def kubelet(kube: KubeClient, namespace: str) -> AsyncIterator[None]:
    async with FakeKubelet(
        kube, SystemClock(), namespace, choose_script=lambda _: run_until_deleted
    ):
        yield


async def test_pods_of_our_examples_equal_their_templates(
    kube: KubeClient, http: JsonHttp, namespace: str
) -> None:
    await check_all(kube, http, namespace, read_all())


async def test_pods_of_the_originals_examples_equal_their_templates(
    kube: KubeClient, http: JsonHttp, namespace: str
) -> None:
    await check_originals(kube, http, namespace)


async def test_rescaling_walk_through(kubelet: None, kube: KubeClient, namespace: str) -> None:
    await walk_through(Stage(kube, namespace, read_documents("rescale.yaml")))
