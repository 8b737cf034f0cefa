"""Restarts in place on a real API server: how many writes an epoch takes.

Controller, agents and their commands are processes, with the shipped rights and policies. A fake
kubelet starts the agents, and gives the Pods addresses of the loopback network.
"""

import asyncio
import base64
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType

from framework.api import constants
from framework.api.epochreports import parse_end
from framework.api.naming import build_gang_key_name
from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.resources import FRAMEWORKS, PODS, SECRETS, Object
from rendezvous.volume.install import SITE_DIRECTORY
from tests.kube.test_gang import expand_env
from tests.rendezvous.agents import list_children
from tests.support.builders import build_role_wire, build_submission, build_template_wire
from tests.support.fakes.kubelet import FakeKubelet, FakePod
from tests.support.servers.childprocess import build_own_address, find_free_ports
from tests.support.servers.controlplane import Access
from tests.support.servers.deployed import Deployed, apply_role
from tests.support.servers.frameworkcrd import ROOT
from tests.support.servers.frameworkserver import build_env
from tests.support.servers.policed import ACCOUNT as AGENT
from tests.support.servers.policed import AGENTS, Policed
from tests.support.servers.rights import AuditLog, Right, apply_kustomization, write_overlay
from tests.support.servers.watching import wait_until_completed
from tests.support.waiting import wait_until_async

NAME, COUNT = "healed", 4
ENDED, STARTED = constants.PROCESS_ENDED_ANNOTATION, constants.EPOCH_STARTED_ANNOTATION
ACKNOWLEDGED = constants.ACKNOWLEDGED_GENERATION_ANNOTATION
COMMAND = 'echo runs in $FB_EPOCH; while [ ! -e "$GATE" ]; do sleep 0.1; done'
REPORT = Right("", "pods", "patch")
STATUS = Right(constants.GROUP, "frameworks/status", "update")
ROSTER = Right("", "configmaps", "patch")


class HealedGang:
    """A gang whose commands restart in their Pods."""

    def __init__(
        self,
        policed: Policed,
        kube: KubeClient,
        folder: Path,
        command: Sequence[str] = ("sh", "-c", COMMAND),
        settings: Mapping[str, str] = MappingProxyType({}),
        count: int = COUNT,
        max_restarts: int = 9,
    ) -> None:
        self.count = self.real = count
        self.max_restarts = max_restarts
        self.policed = policed
        self.kube = kube
        self.folder = folder
        self.command = command
        self.settings = settings
        self.gate = folder / "gate"
        (self.port,) = find_free_ports(1)
        for name in ("namespace", "drain"):
            overlay = write_overlay(folder / name, AGENTS / name, policed.namespace)
            apply_kustomization(policed.access, overlay)
        self.writes = AuditLog.open(policed.access, policed.namespace, "*")
        self.agents: dict[str, asyncio.subprocess.Process] = {}

    def build(self) -> Object:
        env = [
            {"name": "GATE", "value": str(self.gate)},
            {"name": "FB_BARRIER_PORT", "value": str(self.port)},
        ]
        key = {"name": "key", "secret": {"secretName": build_gang_key_name(NAME)}}
        template = build_template_wire(serviceAccountName=AGENT, volumes=[key])
        template["spec"]["containers"][0]["env"] = env
        role = build_role_wire("worker", self.count, task={"pod": template})
        in_place = {
            constants.MAX_RESTARTS_FIELD: self.max_restarts,
            constants.WITHIN_SECONDS_FIELD: 3600,
        }
        role[constants.RECOVERY_FIELD] = {constants.IN_PLACE_FIELD: in_place}
        return build_submission(NAME, role)

    async def run_pod(self, pod: FakePod) -> None:
        """Start the agent as a kubelet does, and end the Pod with its code."""
        index = int(pod.name.rpartition("-")[2])
        pod.address = build_own_address(index)
        await pod.initialize()
        folder = self.folder / pod.name
        folder.mkdir()
        self._write_account(pod, folder)
        await self._write_gang_key(pod, folder)
        env = build_env() | expand_env(pod.body["spec"]["containers"][0]["env"], pod)
        host, _, port = self.policed.access.url.rpartition("//")[2].rpartition(":")
        env |= {
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": port,
            constants.SERVICE_ACCOUNT_DIR_ENV: str(folder),
            constants.WORKING_DIR_ENV: str(folder / "volume"),
            constants.TERMINATION_LOG_ENV: str(folder / "termination-log"),
            "FB_GANG_KEY_FILE": str(folder / constants.GANG_KEY),
            **self.settings,
        }
        site = folder / "volume" / SITE_DIRECTORY
        site.parent.mkdir(parents=True)
        site.symlink_to(ROOT / "rendezvous" / "site")
        command = [sys.executable, "-m", "rendezvous", "run", "--", *self.command]
        with (folder / "log").open("wb") as log:
            child = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log, env=env)
        self.agents[pod.name] = child
        try:
            await pod.start()
            await pod.finish(await child.wait())
        finally:
            if child.returncode is None:
                self.kill_commands([pod.name])
                child.kill()
                await child.wait()

    def _write_account(self, pod: FakePod, folder: Path) -> None:
        """Write what a kubelet mounts of the account, with a token of this Pod."""
        (folder / "token").write_text(self.policed.create_token(pod.name))
        (folder / "namespace").write_text(pod.namespace)
        if self.policed.access.ca_file is not None:
            (folder / "ca.crt").write_bytes(Path(self.policed.access.ca_file).read_bytes())

    async def _write_gang_key(self, pod: FakePod, folder: Path) -> None:
        (folder / constants.GANG_KEY).write_bytes(await self.read_gang_key(pod))

    async def read_gang_key(self, pod: FakePod) -> bytes:
        """Read the content of the mounted file."""
        secret = await self.kube.get(SECRETS, pod.namespace, build_gang_key_name(NAME))
        return base64.b64decode(secret["data"][constants.GANG_KEY])

    def kill_commands(self, pods: list[str]) -> None:
        """Kill them together: an epoch that one leads to must not end another one first."""
        for child in [pid for pod in pods for pid in list_children(self.agents[pod].pid)]:
            os.kill(child, signal.SIGKILL)

    def read_log(self, pod: str) -> str:
        return (self.folder / pod / "log").read_text()

    def has_started(self, pod: str, epoch: int) -> bool:
        return f"runs in {epoch}\n" in self.read_log(pod)

    def read_annotation(self, index: int, name: str) -> str:
        pod = self.policed.read(f"{NAME}-worker-{index}")
        return str((pod["metadata"].get("annotations") or {}).get(name, ""))

    def read_recovery(self, *names: str) -> object:
        """Read a field of the stored recovery."""
        return self.read_attempt("recovery", *names)

    def read_attempt(self, *names: str) -> object:
        """Read a field of the stored status of the attempt."""
        path = f"/apis/{constants.API_VERSION}/namespaces/{self.policed.namespace}/frameworks"
        found = self.policed.admin.request("GET", f"{path}/{NAME}")[1].get("status") or {}
        for name in ("attemptStatus", *names):
            found = (found or {}).get(name)
        return found

    def count_reports(self, epoch: int) -> int:
        """Count the Pods that reported the end of their process in an epoch."""
        reports = [parse_end(self.read_annotation(index, ENDED)) for index in range(self.count)]
        return sum(report is not None and report.epoch == epoch for report in reports)

    async def wait_until_settled(self) -> None:
        """Wait until all that the start of a gang leads to is written."""

        path = f"/apis/{constants.API_VERSION}/namespaces/{self.policed.namespace}/frameworks"
        maps = f"/api/v1/namespaces/{self.policed.namespace}/configmaps"

        def is_settled() -> bool:
            status = self.policed.admin.request("GET", f"{path}/{NAME}")[1].get("status") or {}
            roles = (status.get("attemptStatus") or {}).get("taskRoleStatuses") or ()
            states = [task["state"] for role in roles for task in role["taskStatuses"]]
            is_running = states == ["AttemptRunning"] * self.count
            acknowledged = {self.read_annotation(i, ACKNOWLEDGED) for i in range(self.real)}
            return (
                is_running
                and status["state"] == states[0]
                and acknowledged == {read_generation(status["attemptStatus"]["configMapName"])}
            )

        def read_generation(name: str) -> str:
            metadata = self.policed.admin.request("GET", f"{maps}/{name}")[1]["metadata"]
            return str(metadata["annotations"][constants.GENERATION_ANNOTATION])

        await wait_until_async(is_settled)

    async def wait_for_epoch(self, epoch: int) -> None:
        for index in range(self.count):
            pod = f"{NAME}-worker-{index}"
            started = partial(self.has_started, pod, epoch)
            await wait_until_async(started, partial(self.read_log, pod))
        await wait_until_async(lambda: self.read_annotation(0, STARTED).endswith(f" {epoch}"))
        await wait_until_async(lambda: self.read_recovery("startBarrier", "startedEpoch") == epoch)


def deploy(access: Access, namespace: str, folder: Path) -> tuple[Deployed, Policed]:
    """Give the controller its rights in a namespace; nothing runs yet."""
    deployed = Deployed(access, apply_role(access, "namespaced", namespace, folder), folder)
    return deployed, Policed(access.open_http(), access, f"/api/v1/namespaces/{namespace}")


@contextlib.asynccontextmanager
async def run_gang(gang: HealedGang, namespace: str) -> AsyncIterator[frozenset[str]]:
    """Run a gang, from when all that its start leads to is written; give the UIDs of its Pods."""
    kube = gang.kube
    async with FakeKubelet(kube, SystemClock(), namespace, choose_script=lambda _: gang.run_pod):
        await kube.create(FRAMEWORKS, namespace, gang.build())
        await wait_until_async(lambda: len(gang.agents) == gang.count)
        await gang.wait_for_epoch(0)
        await gang.wait_until_settled()
        yield await list_uids(kube, namespace)


async def list_uids(kube: KubeClient, namespace: str) -> frozenset[str]:
    return frozenset(p["metadata"]["uid"] for p in (await kube.list(PODS, namespace))["items"])


async def test_epoch_takes_four_writes_and_one_per_failed_member(
    policies: None, audited_plane: Access, kube: KubeClient, namespace: str, tmp_path: Path
) -> None:
    deployed, policed = deploy(audited_plane, namespace, tmp_path)
    gang = HealedGang(policed, kube, tmp_path)
    clock = SystemClock()
    windows: list[tuple[datetime, datetime, int]] = []
    child = deployed.launch()
    try:
        async with run_gang(gang, namespace) as uids:
            for epoch, failed in enumerate([(1,), (0, 2), (0, 1, 2, 3)]):
                begin = clock.now()
                gang.kill_commands([f"{NAME}-worker-{index}" for index in failed])
                await gang.wait_for_epoch(epoch + 1)
                windows.append((begin, clock.now(), gang.count_reports(epoch)))
            assert await list_uids(kube, namespace) == uids
            gang.gate.touch()
            status = (await wait_until_completed(kube, namespace, NAME))["status"]
    finally:
        assert child.terminate() == 0
    assert status["attemptStatus"]["completionStatus"]["code"] == 0
    assert status["attemptStatus"]["recovery"]["epoch"] == len(windows)
    for begin, end, reports in windows:
        assert reports >= 1
        assert gang.writes.count_writes(begin, end) == {REPORT: 1 + reports, STATUS: 2, ROSTER: 1}
    assert gang.writes.read_refused() == set()
