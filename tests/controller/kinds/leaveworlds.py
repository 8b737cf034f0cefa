"""A TrainingJob on nodes, in virtual time: its workers leave the nodes that are about to go."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from controller.config.nodes import NodesConfig
from framework.api import constants
from framework.api.roster import Roster
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, NODES, PODS, Object
from tests.controller.kinds.scalerworlds import ScaledJob, open_scaled_job, read_roster
from tests.support.builders import NAMESPACE
from tests.support.fakes.storageclient import find_type

ANNOTATION = "frameworkbarrier.io/leave-nodes"
TIMEOUT_SECONDS = 30
NODE_NAMES = ("n0", "n1", "n2", "spare")
BIND_SECONDS = 0.05


class PlacedJob:
    """A TrainingJob with the annotation: Pod number i of its first Pods is on node ``ni``."""

    def __init__(self, scaled: ScaledJob) -> None:
        self.scaled = scaled
        self.jobs = scaled.jobs
        self.agent = scaled.agent
        self.annotation: str | None = f"timeoutSeconds={TIMEOUT_SECONDS}"
        self.cordoned: set[str] = set()
        config = replace(self.jobs.world.config, nodes=NodesConfig(is_watched=True))
        self.jobs.world.config = config
        nodes = find_type(self.jobs.world.storage, NODES)
        for name in NODE_NAMES:
            self.jobs.world.storage.create(nodes, None, {"metadata": {"name": name}})

    async def run(self, **worker: Any) -> None:
        """Create the job, on the controller that runs, and wait until it trains."""
        body = self.jobs.build()
        body["spec"]["etReplicaSpecs"]["worker"].update(worker)
        if self.annotation is not None:
            body["metadata"]["annotations"] = {ANNOTATION: self.annotation}
        await self.jobs.world.user.create(self.jobs.resource, NAMESPACE, body)
        await self.jobs.wait_for_phase("Running")
        await asyncio.sleep(5)

    async def schedule(self) -> None:
        """Bind each new Pod to a node that is not cordoned, until cancelled."""
        pods = find_type(self.jobs.world.storage, PODS)
        seen = 0
        while True:
            changed = self.jobs.world.storage.resource_version != seen
            seen = self.jobs.world.storage.resource_version
            for pod in self.jobs.world.list_objects(PODS) if changed else ():
                if not pod["spec"].get("nodeName"):
                    name = pod["metadata"]["name"]
                    body = {
                        "apiVersion": "v1",
                        "kind": "Binding",
                        "metadata": {"name": name},
                        "target": {"kind": "Node", "name": self._choose_node(name)},
                    }
                    storage = self.jobs.world.storage
                    storage.bind(pods, NAMESPACE, name, body)
            await asyncio.sleep(BIND_SECONDS)

    def _choose_node(self, pod: str) -> str:
        preferred = {"elastic-launcher-0": "n0", "elastic-worker-0": "n1", "elastic-worker-1": "n2"}
        node = preferred.get(pod, "spare")
        return "spare" if node in self.cordoned else node

    async def cordon(self, *names: str, is_cordoned: bool = True) -> None:
        for name in names:
            (self.cordoned.add if is_cordoned else self.cordoned.discard)(name)
            patch = {"spec": {"unschedulable": is_cordoned}}
            await self.jobs.world.user.patch(NODES, None, name, patch)

    def find_pod(self, name: str) -> Object | None:
        return self.jobs.find(PODS, f"elastic-{name}")

    def read_uid(self, name: str) -> str:
        """The UID of a Pod; "" if there is none."""
        pod = self.find_pod(name)
        return "" if pod is None else str(pod["metadata"]["uid"])

    def read_node(self, name: str) -> str:
        pod = self.find_pod(name)
        return "" if pod is None else str(pod["spec"].get("nodeName"))

    def read_roster(self) -> Roster:
        configmap = self.jobs.find(CONFIGMAPS, "elastic-attempt")
        assert configmap is not None
        roster = read_roster(configmap)
        assert roster is not None
        return roster

    def list_hosts(self) -> list[int]:
        """The workers in the host files: the members of the newest roster."""
        role = self.read_roster().find_role("worker")
        assert role is not None
        return [member.index for member in role.members]

    async def wait_for_hosts(self, *indexes: int, **limit: float) -> float:
        return await self.jobs.world.wait_for(
            f"host files with {indexes}", lambda: self.list_hosts() == [*indexes], **limit
        )

    async def wait_for_new_pod(self, name: str, uid: str, **limit: float) -> float:
        return await self.jobs.world.wait_for(
            f"another Pod of {name}", lambda: self.read_uid(name) not in {"", uid}, **limit
        )

    def read_retries(self, index: int) -> tuple[int, int, int]:
        """Attempt, counted retries, and number of times that a worker has left."""
        framework = self.scaled.find(FRAMEWORKS, "elastic")
        roles = framework["status"]["attemptStatus"]["taskRoleStatuses"]
        (role,) = [role for role in roles if role["name"] == "worker"]
        task = next(t for t in role["taskStatuses"] if t["index"] == index)
        leaves = (task.get(constants.LEAVES_FIELD) or {}).get("count", 0)
        retries = task["retryPolicyStatus"]["accountableRetriedCount"]
        return task["attemptStatus"]["id"], retries, leaves


@asynccontextmanager
async def open_placed_job() -> AsyncGenerator[PlacedJob]:
    """A world with nodes, a scheduler, and a TrainingJob's kubelet and agent; no controller."""
    async with open_scaled_job() as scaled:
        placed = PlacedJob(scaled)
        scheduler = asyncio.create_task(placed.schedule(), name="scheduler")
        try:
            yield placed
        finally:
            scheduler.cancel()
            await asyncio.gather(scheduler, return_exceptions=True)
