"""A worker of a TrainingJob leaves its node before that goes, on a real API server.

The controller has the rights and the arguments of deploy/base, deploy/kinds and deploy/nodes, and
the policies of deploy/admission are installed. The test plays the agent of the launcher, with the
token of its Pod.
"""

from pathlib import Path

import pytest

from framework.api import constants
from framework.api.constants import LEAVE_NODES_ANNOTATION
from framework.kube.client import KubeClient
from framework.kube.resources import PODS, TRAININGJOBS, Object
from tests.framework.kinds.jobs import build_trainingjob
from tests.kube.test_leaving import LeavingGang, count_retries, run_leaving
from tests.support.servers.controlplane import Access
from tests.support.servers.policed import Policed, acknowledge
from tests.support.servers.watching import watch_until
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.kube

NAME, LAUNCHER = "elastic", "elastic-launcher-0"


class LeavingJob(LeavingGang):
    """A TrainingJob with a launcher and two workers; the agent of the launcher acknowledges."""

    def __init__(self, kube: KubeClient, namespace: str, policed: Policed) -> None:
        super().__init__(kube, namespace, NAME, count=2)
        self.policed = policed

    async def run(self) -> None:
        """Create the job, and wait until it trains and its agent has acknowledged that."""
        await self.create_nodes()
        job = build_trainingjob()
        job["metadata"]["namespace"] = self.namespace
        job["metadata"]["annotations"] = {LEAVE_NODES_ANNOTATION: "timeoutSeconds=86400"}
        await self.kube.create(TRAININGJOBS, self.namespace, job)
        await watch_until(self.kube, TRAININGJOBS, self.namespace, find_running)
        await self.wait_for(lambda r: r.complete and self.list_members(r) == self.indexes)
        await self.acknowledge_as_launcher()

    async def acknowledge_as_launcher(self) -> None:
        """Write what the agent writes when its host files have the newest generation."""
        roster = await self.read_roster()
        assert roster is not None
        pod = await self.kube.get(PODS, self.namespace, LAUNCHER)
        agent = self.policed.open_agent(LAUNCHER, account=pod["spec"]["serviceAccountName"])
        patch = acknowledge(str(roster.generation))
        # The authorizer knows the RoleBinding of the job a moment after it is stored.
        await wait_until_async(lambda: self.policed.patch(agent, LAUNCHER, patch)[0] == 200)

    async def read_uids(self, *pods: str) -> list[str]:
        found = [await self.kube.get(PODS, self.namespace, pod) for pod in pods]
        return [pod["metadata"]["uid"] for pod in found]


def find_running(_: str, job: Object) -> Object | None:
    return job if (job.get("status") or {}).get("phase") == "Running" else None


async def test_worker_leaves_a_cordoned_node_when_its_launcher_does_not_use_it_any_more(
    policies: None,
    audited_plane: Access,
    kube: KubeClient,
    namespace: str,
    tmp_path: Path,
) -> None:
    access = audited_plane
    policed = Policed(access.open_http(), access, f"/api/v1/namespaces/{namespace}")
    job = LeavingJob(kube, namespace, policed)
    async with run_leaving(access, job, tmp_path, ("kinds", "nodes")) as (deployed, _):
        await job.run()
        others = (LAUNCHER, job.pod(0))
        before = await job.read_uids(*others)
        await job.cordon("n1")
        roster = await job.wait_for(lambda r: [each.index for each in r.leaving] == [1])
        assert (job.list_members(roster), roster.complete) == ([0], True)
        task = await job.wait_for_task(1, lambda task: "leaving" in task["attemptStatus"])
        assert task["attemptStatus"]["leaving"]["reason"] == "NodeCordoned"
        leaving = await kube.get(PODS, namespace, job.pod(1))
        assert "deletionTimestamp" not in leaving["metadata"]
        await job.acknowledge_as_launcher()
        task = await job.wait_for_replacement(1)
        assert count_retries(task) == (1, 0)
        assert task[constants.LEAVES_FIELD]["count"] == 1
        assert await job.read_uids(*others) == before
        assert await job.read_uids(job.pod(1)) != [leaving["metadata"]["uid"]]
        status = (await kube.get(TRAININGJOBS, namespace, NAME))["status"]
        assert (status["phase"], status["restartCount"]) == ("Running", 0)
        reasons = await job.wait_for_reason("TaskLeaving")
        assert reasons["TaskLeaving"] == f"worker/1 leaves: node {job.node('n1')} is cordoned"
        assert not {"LeaveTimedOut", "NodesNotWatched"} & reasons.keys()
        assert deployed.audit.read_refused() == set()
