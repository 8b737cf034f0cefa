"""The fake kubelet on a real API server: Pods take the ways that real kubelets give them."""

from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest

from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.errors import NotFoundError
from framework.kube.resources import PODS, Object
from tests.support.fakes.kubelet import (
    DEFAULT_SCHEDULER,
    FakeKubelet,
    Script,
    run_for,
    run_until_deleted,
)
from tests.support.waiting import HANG_SECONDS


def build_pod(name: str, scheduler: str = DEFAULT_SCHEDULER) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "schedulerName": scheduler,
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "none"}],
        },
    }


def start_kubelet(kube: KubeClient, namespace: str, script: Script, **kwargs: Any) -> FakeKubelet:
    return FakeKubelet(kube, SystemClock(), namespace, choose_script=lambda _: script, **kwargs)


async def wait_for_pod(
    kube: KubeClient, namespace: str, name: str, is_there: Callable[[Object], bool]
) -> Object:
    """Watch a Pod until it is as wanted, or gone; give its last form."""
    events = kube.watch(
        PODS, namespace, field_selector=f"metadata.name={name}", timeout_seconds=HANG_SECONDS
    )
    async with aclosing(events):
        async for event, pod in events:
            if event == "DELETED" or is_there(pod):
                return pod
    raise AssertionError(f"Pod {name} is not as wanted after {HANG_SECONDS} s")


def has_phase(phase: str) -> Callable[[Object], bool]:
    return lambda pod: bool(pod["status"].get("phase") == phase)


@pytest.mark.parametrize(("exit_code", "phase"), [(0, "Succeeded"), (7, "Failed")])
async def test_pod_with_exit_code_ends_in_its_phase(
    kube: KubeClient, namespace: str, exit_code: int, phase: str
) -> None:
    async with start_kubelet(kube, namespace, run_for(0.1, exit_code)):
        await kube.create(PODS, namespace, build_pod("one"))
        pod = await wait_for_pod(kube, namespace, "one", has_phase(phase))
    state = pod["status"]["containerStatuses"][0]["state"]
    assert state["terminated"]["exitCode"] == exit_code


async def test_pods_that_run_have_addresses_of_their_own(kube: KubeClient, namespace: str) -> None:
    async with start_kubelet(kube, namespace, run_until_deleted):
        for name in ("one", "two"):
            await kube.create(PODS, namespace, build_pod(name))
        pods = [
            await wait_for_pod(kube, namespace, name, has_phase("Running"))
            for name in ("one", "two")
        ]
    addresses = {pod["status"]["podIP"] for pod in pods}
    assert len(addresses) == 2
    assert all(address.startswith("10.") for address in addresses)


async def test_deleted_pod_goes_when_the_kubelet_has_seen_it(
    kube: KubeClient, namespace: str
) -> None:
    async with start_kubelet(kube, namespace, run_until_deleted, termination_seconds=0.3):
        await kube.create(PODS, namespace, build_pod("one"))
        await wait_for_pod(kube, namespace, "one", has_phase("Running"))
        await kube.delete(PODS, namespace, "one")
        dying = await kube.get(PODS, namespace, "one")
        assert dying["metadata"]["deletionTimestamp"]
        await wait_for_pod(kube, namespace, "one", lambda _: False)
        with pytest.raises(NotFoundError):
            await kube.get(PODS, namespace, "one")


async def test_pod_of_a_foreign_scheduler_is_left_alone(kube: KubeClient, namespace: str) -> None:
    async with start_kubelet(kube, namespace, run_until_deleted):
        await kube.create(PODS, namespace, build_pod("foreign", "another"))
        await kube.create(PODS, namespace, build_pod("own"))
        await wait_for_pod(kube, namespace, "own", has_phase("Running"))
        foreign = await kube.get(PODS, namespace, "foreign")
    assert "nodeName" not in foreign["spec"]
