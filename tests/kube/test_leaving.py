"""Tasks leave before their nodes go, on a real API server: cordon, taint, eviction.

The controller has the rights and the arguments of deploy/base and deploy/nodes. A fake kubelet runs
the Pods, and agents are played by the test: they acknowledge the newest generation of the roster.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
import yaml

from framework.api import constants
from framework.api.naming import build_configmap_name
from framework.api.roster import Roster, decode_stored_roster
from framework.clock import SystemClock
from framework.kube.client import KubeClient, PatchContent
from framework.kube.errors import ApiError
from framework.kube.resources import CONFIGMAPS, EVENTS, FRAMEWORKS, NODES, PODS, Object, Resource
from tests.support.builders import build_role_wire, build_submission
from tests.support.fakes.kubelet import FakeKubelet, run_until_deleted
from tests.support.servers.childprocess import ChildProcess
from tests.support.servers.controlplane import Access
from tests.support.servers.deployed import Deployed
from tests.support.servers.frameworkcrd import ROOT, wait_until_kinds_are_served
from tests.support.servers.rights import Right, apply_kustomization, expand_rules, run_kubectl
from tests.support.servers.watching import wait_for_event
from tests.support.waiting import HANG_SECONDS, wait_until_async

pytestmark = pytest.mark.kube

NAME, COUNT = "leaver", 3
COMPONENT = ROOT / "deploy" / "nodes"
SPOT = "aws-node-termination-handler/spot-itn"
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True)


class LeavingGang:
    """Workers on the nodes n0 to n2; their successors go to the node spare."""

    def __init__(
        self, kube: KubeClient, namespace: str, name: str = NAME, count: int = COUNT
    ) -> None:
        self.kube = kube
        self.namespace = namespace
        self.name = name
        self.indexes = [*range(count)]

    def choose_node(self, pod: Object) -> str:
        names = pod["metadata"]["annotations"]
        index, attempt = names[constants.TASK_INDEX], names[constants.TASK_ATTEMPT_ID]
        return self.node("spare" if attempt != "0" else f"n{index}")

    def node(self, name: str) -> str:
        return f"{self.namespace}-{name}"

    async def create_nodes(self) -> None:
        for name in ("n0", "n1", "n2", "spare"):
            body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.node(name)}}
            await self.kube.create(NODES, None, body)

    async def start(self, timeout_seconds: int = 600, **fields: object) -> None:
        await self.create_nodes()
        role = build_role_wire("worker", len(self.indexes), **fields)
        leave = {constants.TIMEOUT_SECONDS_FIELD: timeout_seconds}
        role[constants.RECOVERY_FIELD] = {constants.LEAVE_NODES_FIELD: leave}
        await self.kube.create(FRAMEWORKS, self.namespace, build_submission(self.name, role))
        await self.wait_for(lambda roster: self.list_members(roster) == self.indexes)
        for index in self.indexes:
            await self.acknowledge(index)

    async def acknowledge(self, index: int) -> None:
        """Write what the agent of a worker writes when it has applied the newest generation."""
        roster = await self.read_roster()
        assert roster is not None
        key = constants.ACKNOWLEDGED_GENERATION_ANNOTATION
        patch = {"metadata": {"annotations": {key: str(roster.generation)}}}
        await self.kube.patch(PODS, self.namespace, self.pod(index), patch)

    def pod(self, index: int) -> str:
        return f"{self.name}-worker-{index}"

    async def evict(self, index: int) -> None:
        name = self.pod(index)
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": self.namespace},
        }
        eviction = Resource("", "v1", f"pods/{name}/eviction", "Eviction", namespaced=True)
        await self.kube.create(eviction, self.namespace, body)

    async def cordon(self, name: str) -> None:
        await self.kube.patch(NODES, None, self.node(name), {"spec": {"unschedulable": True}})

    async def taint(self, name: str, key: str) -> None:
        taints = [{"key": key, "value": "1", "effect": "NoSchedule"}]
        await self.kube.patch(
            NODES, None, self.node(name), {"spec": {"taints": taints}}, content=PatchContent.MERGE
        )

    async def read_roster(self) -> Roster | None:
        found = await self.kube.get(CONFIGMAPS, self.namespace, build_configmap_name(self.name))
        stored = (found.get("binaryData") or {}).get(constants.ROSTER_KEY)
        return decode_stored_roster(stored) if stored else None

    @staticmethod
    def list_members(roster: Roster) -> list[int]:
        workers = roster.find_role("worker")
        return [] if workers is None else [member.index for member in workers.members]

    async def wait_for(self, check: Callable[[Roster], bool]) -> Roster:
        async with asyncio.timeout(HANG_SECONDS):
            while True:
                try:
                    roster = await self.read_roster()
                except ApiError:
                    roster = None
                if roster is not None and check(roster):
                    return roster
                await asyncio.sleep(0.05)

    async def wait_for_task(self, index: int, check: Callable[[Object], bool]) -> Object:
        async with asyncio.timeout(HANG_SECONDS):
            while True:
                body = await self.kube.get(FRAMEWORKS, self.namespace, self.name)
                roles = body["status"]["attemptStatus"]["taskRoleStatuses"]
                (workers,) = [role for role in roles if role["name"] == "worker"]
                task: Object = workers["taskStatuses"][index]
                if check(task):
                    return task
                await asyncio.sleep(0.05)

    async def wait_for_replacement(self, index: int) -> Object:
        """Wait until the next attempt of a worker is a member of a complete gang."""
        task = await self.wait_for_task(
            index,
            lambda task: task["state"] == "AttemptRunning" and task["attemptStatus"]["id"] == 1,
        )
        await self.wait_for(lambda r: r.complete and self.list_members(r) == self.indexes)
        found = await self.kube.get(PODS, self.namespace, self.pod(index))
        assert found["spec"]["nodeName"] == self.node("spare")
        return task

    async def wait_for_reason(self, reason: str) -> dict[str, str]:
        """Wait for an Event of a reason, which comes after the status; give messages by reason."""
        await wait_for_event(self.kube, self.namespace, reason)
        events = (await self.kube.list(EVENTS, self.namespace))["items"]
        return {event["reason"]: event["message"] for event in events}


def count_retries(task: Object) -> tuple[int, int]:
    retries = task["retryPolicyStatus"]
    return retries["totalRetriedCount"], retries["accountableRetriedCount"]


def write_overlay(folder: Path, components: Sequence[str]) -> Path:
    """Write the overlay of a user. Without ``nodes``, it has the argument and lacks the right."""
    content: Object = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["base"],
    }
    folder.mkdir()
    (folder / "base").symlink_to(ROOT / "deploy" / "base")
    for name in components:
        (folder / name).symlink_to(ROOT / "deploy" / name)
    content["components"] = [*components]
    if "nodes" not in components:
        patch = [
            {
                "op": "add",
                "path": "/spec/template/spec/containers/0/args/-",
                "value": "--watch-nodes",
            }
        ]
        target = {"kind": "Deployment", "name": "framework-controller"}
        content["patches"] = [{"target": target, "patch": yaml.safe_dump(patch)}]
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(content))
    return folder


@asynccontextmanager
async def run_leaving(
    plane: Access, gang: LeavingGang, folder: Path, components: Sequence[str]
) -> AsyncIterator[tuple[Deployed, ChildProcess]]:
    """Run the controller, deployed with these components, and a kubelet for the Pods of a gang."""
    overlay = write_overlay(folder / "overlay", components)
    deployed = Deployed(plane, apply_kustomization(plane, overlay), folder)
    if "kinds" in components:
        wait_until_kinds_are_served(plane.open_http())
    child = deployed.launch()
    kubelet = FakeKubelet(
        gang.kube,
        SystemClock(),
        gang.namespace,
        choose_script=lambda _: run_until_deleted,
        choose_node=gang.choose_node,
    )
    try:
        async with kubelet:
            yield deployed, child
        child.raise_if_ended()
    finally:
        child.terminate()
        for name in components:
            rights = f"framework-controller-{name}"
            run_kubectl(plane, "delete", "clusterrole,clusterrolebinding", rights)


Running = tuple[LeavingGang, Deployed, ChildProcess]
RunGang = Callable[..., AbstractAsyncContextManager[Running]]


@pytest.fixture
def run_gang(
    framework_crd: None, audited_plane: Access, kube: KubeClient, namespace: str, tmp_path: Path
) -> RunGang:
    """Run the controller, deployed with the named components, and a kubelet."""

    @asynccontextmanager
    async def run(*components: str) -> AsyncIterator[Running]:
        gang = LeavingGang(kube, namespace)
        async with run_leaving(audited_plane, gang, tmp_path, components) as (deployed, child):
            yield gang, deployed, child

    return run


async def test_cordoned_node_is_left_after_its_agent_acknowledges(run_gang: RunGang) -> None:
    async with run_gang("nodes") as (gang, deployed, _):
        await gang.start()
        await gang.cordon("n1")
        roster = await gang.wait_for(lambda r: [e.index for e in r.leaving] == [1])
        assert (gang.list_members(roster), roster.complete) == ([0, 2], False)
        task = await gang.wait_for_task(1, lambda task: "leaving" in task["attemptStatus"])
        assert task["attemptStatus"]["leaving"]["reason"] == "NodeCordoned"
        found = await gang.kube.get(PODS, gang.namespace, gang.pod(1))
        assert "deletionTimestamp" not in found["metadata"]
        await gang.acknowledge(1)
        task = await gang.wait_for_replacement(1)
        assert count_retries(task) == (1, 0)
        assert task["leaves"]["count"] == 1
        reasons = await gang.wait_for_reason("TaskLeaving")
        assert reasons["TaskLeaving"] == f"worker/1 leaves: node {gang.node('n1')} is cordoned"
        assert "NodesNotWatched" not in reasons
        granted = expand_rules(yaml.safe_load_all((COMPONENT / "clusterrole.yaml").read_text()))
        used = deployed.audit.read_used()
        assert granted == {Right("", "nodes", "list"), Right("", "nodes", "watch")}
        assert granted <= used
        assert deployed.audit.read_refused() == set()


async def test_spot_taint_is_left_at_the_deadline_by_an_agent_that_is_silent(
    run_gang: RunGang,
) -> None:
    async with run_gang("nodes") as (gang, _, _):
        await gang.start(timeout_seconds=2)
        await gang.taint("n2", SPOT)
        task = await gang.wait_for_replacement(2)
        assert count_retries(task) == (1, 0)
        reasons = await gang.wait_for_reason("TaskLeaving")
        assert reasons["TaskLeaving"].endswith(f"has the taint {SPOT}:NoSchedule")
        assert "LeaveTimedOut" in await gang.wait_for_reason("LeaveTimedOut")


async def test_elastic_gang_goes_on_while_a_node_is_left(run_gang: RunGang) -> None:
    async with run_gang("nodes") as (gang, _, _):
        await gang.start(minMemberCount=2)
        await gang.cordon("n0")
        roster = await gang.wait_for(lambda r: [e.index for e in r.leaving] == [0])
        assert (gang.list_members(roster), roster.complete) == ([1, 2], True)
        for index in range(COUNT):
            await gang.acknowledge(index)
        assert count_retries(await gang.wait_for_replacement(0)) == (1, 0)


async def test_eviction_is_not_counted_and_a_budget_gives_time_to_leave(run_gang: RunGang) -> None:
    async with run_gang("nodes") as (gang, _, _):
        await gang.start()
        await gang.evict(1)
        task = await gang.wait_for_replacement(1)
        assert count_retries(task) == (1, 0)
        reasons = await gang.wait_for_reason("TaskLeaving")
        assert reasons["TaskLeaving"].endswith("EvictionByEvictionAPI")
        selector = {"matchLabels": {constants.FRAMEWORK_NAME: NAME}}
        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": NAME},
            "spec": {"maxUnavailable": 0, "selector": selector},
        }
        await gang.kube.create(BUDGETS, gang.namespace, budget)
        with pytest.raises(ApiError) as refused:
            await gang.evict(2)
        assert refused.value.status == 429
        await gang.cordon("n2")
        await gang.wait_for(lambda r: [e.index for e in r.leaving] == [2])
        await gang.acknowledge(2)
        assert count_retries(await gang.wait_for_replacement(2)) == (1, 0)


async def test_controller_without_the_right_runs_and_says_what_is_missing(
    run_gang: RunGang,
) -> None:
    async with run_gang() as (gang, _, child):
        read = child.log.read_text
        await wait_until_async(lambda: "apply deploy/nodes" in read(), read)
        await gang.start()
        await gang.cordon("n1")
        await gang.evict(0)
        assert count_retries(await gang.wait_for_replacement(0)) == (1, 0)
        reasons = await gang.wait_for_reason("NodesNotWatched")
        assert "nodes are not known" in reasons["NodesNotWatched"]
        child.raise_if_ended()
        task = await gang.wait_for_task(1, lambda _: True)
        assert "leaving" not in task["attemptStatus"]
