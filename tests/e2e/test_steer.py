"""A gang that a user scales, removes Tasks from, retries, stops and deletes, by commands."""

import json

import pytest

from framework.kube.resources import FRAMEWORKS, PODS
from tests.support.servers.commandline import Answer, call_framework
from tests.support.servers.gang import NAMESPACE, GangCluster, build_gang, build_role

pytestmark = pytest.mark.local

TITLE = "framework.frameworkcontroller.microsoft.com/gang"


class User:
    """Somebody with a shell on the cluster of a test."""

    def __init__(self, world: GangCluster) -> None:
        self._world = world
        self._kubeconfig = str(world.cluster.kubeconfig_path)

    async def call(self, *arguments: str, code: int = 0) -> Answer:
        answer = await call_framework(self._kubeconfig, *arguments)
        assert answer.code == code, answer
        return answer

    async def list_pods(self) -> list[str]:
        listed = await self._world.client.list(PODS, NAMESPACE)
        return sorted(pod["metadata"]["name"] for pod in listed["items"])


@pytest.mark.slow
async def test_gang_is_steered_from_start_to_deletion(world: GangCluster) -> None:
    user = User(world)
    gang = build_gang(build_role("worker", 3, has_barrier=False))
    gang["spec"]["executionType"] = "Create"
    await world.create(gang)

    answer = await user.call("start", "gang")
    assert answer.out == f"{TITLE} started\n"
    answer = await user.call("scale", "gang", "worker=4", "--wait")
    assert answer.out == f"{TITLE} scaled\n"
    assert await user.list_pods() == [f"gang-worker-{i}" for i in range(4)]

    await user.call("remove", "framework/gang", "worker/1", "--wait")
    assert await user.list_pods() == [f"gang-worker-{i}" for i in (0, 2, 3)]
    await user.call("scale", "gang", "worker=2", "--current-replicas", "worker=3", "--wait")
    assert await user.list_pods() == ["gang-worker-0", "gang-worker-2"]
    await user.call("remove", "--undo", "gang", "worker/1", "--wait")
    assert await user.list_pods() == [f"gang-worker-{i}" for i in range(3)]

    before = world.list_pods()["gang-worker-0"]
    for number in (1, 2):
        await user.call("retry", "gang", "worker/0", "--wait")
        await world.wait_for_pod("gang-worker-0", len(before) + number - 1)
        assert len(world.list_pods()["gang-worker-0"]) == len(before) + number

    await user.call("wait", "gang", "--for", "condition=Running")
    answer = await user.call("stop", "gang", "--wait", "-o", "json")
    assert json.loads(answer.out)["spec"]["executionType"] == "Stop"
    assert await user.list_pods() == []
    answer = await user.call("wait", "gang", code=1)
    assert "Succeeded=True can never come" in answer.err
    await user.call("start", "gang", code=2)

    answer = await user.call("delete", "gang")
    assert answer.out == 'framework.frameworkcontroller.microsoft.com "gang" deleted\n'
    assert (await world.client.list(FRAMEWORKS, NAMESPACE))["items"] == []
    await user.call("delete", "gang", code=1)
    await user.call("delete", "gang", "--ignore-not-found")
