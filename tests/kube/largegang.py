"""A large gang that restarts in place: its first members are real agents, the others are light.

One of the real ones serves the start barrier. Light members decide, watch and connect as agents do,
and have no process.
"""

import asyncio
from pathlib import Path

from framework.kube.client import KubeClient
from framework.kube.resources import Object
from tests.kube.test_restart_in_place import ENDED, NAME, HealedGang
from tests.support.fakes.kubelet import NODE_NAME, FakePod
from tests.support.fakes.lightmember import LightMember, Site
from tests.support.servers.childprocess import ChildProcess, build_own_address
from tests.support.servers.deployed import Deployed
from tests.support.servers.policed import Policed, annotate
from tests.support.waiting import PAUSE_SECONDS, wait_until_async


class LargeGang(HealedGang):
    """A gang of which most members are light."""

    def __init__(
        self, policed: Policed, kube: KubeClient, folder: Path, count: int, real: int
    ) -> None:
        super().__init__(policed, kube, folder, count=count, max_restarts=100)
        self.real = real
        self.members: dict[int, LightMember] = {}
        self._site: Site | None = None

    def build(self) -> Object:
        body = super().build()
        # Without a write of the scheduler for each Pod.
        template = body["spec"]["taskRoles"][0]["task"]["pod"]
        template["spec"]["nodeName"] = NODE_NAME
        return body

    async def run_pod(self, pod: FakePod) -> None:
        index = int(pod.name.rpartition("-")[2])
        if index < self.real:
            await super().run_pod(pod)
            return
        pod.address = build_own_address(index)
        if self._site is None:
            key = (await self.read_gang_key(pod)).strip().rpartition(b":")[2]
            self._site = Site(self.kube, NAME, "worker", self.port, key, self.report)
        self.members[index] = LightMember(self._site, pod, index)
        await pod.run_at_once()
        await self.members[index].run()

    async def report(self, pod: FakePod, text: str) -> None:
        """Write the report as the agent of the Pod."""

        def write() -> None:
            agent = self.policed.open_agent(pod.name)
            status, answer = self.policed.patch(agent, pod.name, annotate(**{ENDED: text}))
            assert status == 200, answer

        await asyncio.to_thread(write)

    def list_epochs(self, index: int) -> list[int]:
        """List the epochs of which a member has started the process."""
        if index in self.members:
            return [epoch for epoch, _ in self.members[index].starts]
        lines = self.read_log(f"{NAME}-worker-{index}").splitlines()
        return [int(line.rpartition(" ")[2]) for line in lines if line.startswith("runs in ")]

    def is_running(self, index: int, epoch: int) -> bool:
        """Return whether a member runs in an epoch; of a real one, whether it has begun to."""
        if index in self.members:
            return self.members[index].epoch == epoch
        return self.list_epochs(index)[-1:] == [epoch]

    def kill_member(self, index: int) -> None:
        if index in self.members:
            self.members[index].kill_process()
        else:
            self.kill_commands([f"{NAME}-worker-{index}"])

    async def wait_for_epoch(self, epoch: int) -> None:
        """Wait until all members run in an epoch, and this is stored."""

        def find_late() -> list[int]:
            return [i for i in range(self.count) if epoch not in self.list_epochs(i)[-1:]]

        await wait_until_async(lambda: not find_late(), lambda: f"{epoch}: {find_late()}")
        await wait_until_async(lambda: self.read_recovery("startBarrier", "startedEpoch") == epoch)


class Controller:
    """The controller, which is started again when it ends, as a Deployment does it.

    It also ends when a busy machine does not let it renew its Lease.
    """

    def __init__(self, deployed: Deployed, *options: str) -> None:
        self._deployed = deployed
        self._options = options
        self.child = deployed.launch(*options)
        self.ends = 0

    async def supervise(self) -> None:
        while True:
            await wait_until_ended(self.child)
            self.ends += 1
            self.child = self._deployed.launch(*self._options)


async def wait_until_ended(child: ChildProcess) -> None:
    # Nothing tells the event loop of the end of a ChildProcess.
    while child.is_running():  # noqa: ASYNC110  on a process
        await asyncio.sleep(PAUSE_SECONDS)
