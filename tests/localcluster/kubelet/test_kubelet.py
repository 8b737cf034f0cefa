import asyncio
from pathlib import Path
from typing import Any

import pytest

from framework.kube.resources import NODES, PODS, Object
from localcluster.kubelet.container.forkserver_process import ForkServerProcess
from localcluster.kubelet.container.sandbox import Isolation, IsolationError, detect_namespaces
from localcluster.kubelet.pod.admission import Capacity
from tests.localcluster.kubelet.nodes import (
    Node,
    build_container,
    build_pod,
    find_condition,
    find_container,
    open_node,
    run_node,
    serve,
)
from tests.support.measuring.pace import expect_within
from tests.support.waiting import HANG_SECONDS

pytestmark = pytest.mark.local


def is_bound(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName"))


async def test_kubelet_node_is_registered_and_ready(tmp_path: Path) -> None:
    capacity = Capacity(extended={"nvidia.com/gpu": 2})
    async with open_node(tmp_path, capacity=capacity) as node:
        registered = await node.client.get(NODES, None, "local")
    assert registered["status"]["allocatable"]["nvidia.com/gpu"] == "2"
    ready = next(c for c in registered["status"]["conditions"] if c["type"] == "Ready")
    assert ready["status"] == "True"


async def test_kubelet_gated_pod_runs_once_its_gates_are_removed(node: Node) -> None:
    gates = [{"name": "x.io/gate"}]
    await node.create(build_pod("p", build_container("true"), schedulingGates=gates))
    await node.finish(build_pod("marker", build_container("true")))
    assert not is_bound(await node.client.get(PODS, "default", "p"))
    await node.client.patch(PODS, "default", "p", {"spec": {"schedulingGates": None}})
    assert (await node.wait_for_phase("p", "Succeeded"))["spec"]["nodeName"] == "local"


async def test_kubelet_pod_that_does_not_fit_has_a_reason_and_runs_later(
    tmp_path: Path,
) -> None:
    limits: dict[str, Any] = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    capacity = Capacity(extended={"nvidia.com/gpu": 1})
    async with open_node(tmp_path, capacity=capacity) as node:
        await node.create(build_pod("first", build_container("sleep 600", **limits)))
        await node.wait_for_phase("first", "Running")
        await node.create(build_pod("second", build_container("true", **limits)))
        refused = await node.wait_for(
            "second", lambda pod: find_condition(pod, "PodScheduled").get("reason")
        )
        await node.delete("first", grace_seconds=1)
        await node.wait_for_phase("second", "Succeeded")
    condition = find_condition(refused, "PodScheduled")
    assert condition["reason"] == "Unschedulable"
    assert condition["message"] == "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    assert refused["status"]["phase"] == "Pending"


async def test_kubelet_stop_ends_pods_and_fails_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("kubelet._SHUTDOWN_GRACE_SECONDS", "kubelet._SHUTDOWN_LIMIT_SECONDS"):
        monkeypatch.setattr(f"localcluster.kubelet.{name}", HANG_SECONDS)
    monkeypatch.setattr("localcluster.kubelet.pod.worker._LAST_STATUS_SECONDS", HANG_SECONDS)
    async with serve() as served:
        async with run_node(served, tmp_path) as node:
            await node.create(build_pod("p", build_container("sleep 600")))
            await node.wait_for_phase("p", "Running")
        pod = await served.client.get(PODS, "default", "p")
    assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Failed", "NodeShutdown")
    assert find_container(pod)["state"]["terminated"]["exitCode"] == 143


async def test_kubelet_logs_outlive_their_pod(node: Node) -> None:
    pod = build_pod("p", build_container("echo said"))
    pod["metadata"]["labels"] = {"FC_FRAMEWORK_NAME": "f"}
    await node.finish(pod)
    await node.delete("p", grace_seconds=0)
    await node.wait_until_deleted("p")
    kept = node.kubelet.logs.list_kept("default", {"FC_FRAMEWORK_NAME": "f"})
    assert [(log.pod, log.container) for log in kept] == [("p", "main")]
    assert await node.read_log("p", uid=kept[0].uid) == "said\n"


async def test_kubelet_many_pods_start_within_a_second(node: Node) -> None:
    inits = (build_container("true", "init"),)
    pods = [build_pod(f"p-{i}", build_container("true"), inits=inits) for i in range(5)]
    with expect_within(1):
        ended = await asyncio.gather(*map(node.finish, pods))
    assert {pod["status"]["phase"] for pod in ended} == {"Succeeded"}


async def test_detect_namespaces_forbidden_root_names_the_remedy(
    server: ForkServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("localcluster.kubelet.container.sandbox._list_candidates", list)
    with pytest.raises(IsolationError, match='use isolation "paths"'):
        await detect_namespaces(Isolation.ROOT, tmp_path, server)
    assert not (await detect_namespaces(Isolation.AUTO, tmp_path, server)).private_root
