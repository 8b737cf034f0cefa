"""A TrainingJob with scalers in virtual time: the world plays the agent of its launcher, too."""

import asyncio
import base64
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from framework.api import constants
from framework.api.roster import Roster, decode_roster
from framework.api.scalerequest import ScaleResult, decode_request, encode_result
from framework.kube.resources import (
    CONFIGMAPS,
    FRAMEWORKS,
    PODS,
    SCALE_INS,
    SCALE_OUTS,
    Object,
    Resource,
)
from rendezvous.core.scaling import has_members_as_asked
from tests.controller.kinds.jobworlds import Jobs, open_jobs
from tests.support.builders import NAMESPACE

LAUNCHER = "elastic-launcher-0"
RESOURCES = {"ScaleIn": SCALE_INS, "ScaleOut": SCALE_OUTS}


def build_scaler_wire(kind: str, name: str, **spec: Any) -> Object:
    """A scaler of the job of these worlds; of one worker, if the spec does not say it."""
    workers = {"toDelete" if kind == "ScaleIn" else "toAdd": {"count": 1}}
    return {
        "apiVersion": "kai.alibabacloud.com/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"selector": {"name": "elastic"}, **workers, **spec},
    }


class Agent:
    """The agent in the container of the launcher: acknowledges, and carries out requests once."""

    def __init__(self, jobs: Jobs) -> None:
        self.jobs = jobs
        self.scripts: list[str] = []
        """UIDs of the scalers whose script has run."""
        self.code = 0
        """Exit code of each script."""
        self.is_silent = False
        """Whether it answers no request."""
        self.is_busy = False
        """Whether processes of the launcher reach the workers that leave their nodes."""
        self.can_report = True
        """Whether it may patch the Pod of the launcher."""
        self.record = ScaleResult("", 0)
        self.shown: Roster | None = None
        """The newest generation in the host files."""

    async def play(self) -> None:
        """Do what is to be done, until cancelled."""
        # Without a change there is nothing to be done, and the reads copy two objects.
        seen = None
        while True:
            version = self.jobs.world.storage.resource_version
            current = (version, self.is_silent, self.is_busy, self.can_report)
            if current != seen:
                seen = current
                await self._observe()
            await asyncio.sleep(0.2)

    async def _observe(self) -> None:
        pod = self.jobs.find(PODS, LAUNCHER)
        configmap = self.jobs.find(CONFIGMAPS, "elastic-attempt")
        if pod and configmap and (pod.get("status") or {}).get("phase") == "Running":
            await self._step(configmap)

    async def _step(self, configmap: Object) -> None:
        roster = read_roster(configmap)
        if roster is not None and roster.complete:
            self.shown = roster
        text = (configmap.get("binaryData") or {}).get(constants.SCALER_KEY)
        annotations: dict[str, str] = {}
        request = None if text is None else decode_request(text)
        if request is not None and request.uid != self.record.uid:
            if self.is_silent or not has_members_as_asked(request, roster):
                return
            if request.script:
                self.scripts.append(request.uid)
            message = f"the script ended with {self.code}" if self.code else ""
            self.record = ScaleResult(request.uid, self.code if request.script else 0, message)
        if self.record.uid:
            annotations[constants.SCALER_RESULT_ANNOTATION] = encode_result(self.record)
        is_held = self.shown is not None and bool(self.shown.leaving) and self.is_busy
        if self.shown is not None and not is_held:
            generation = str(self.shown.generation)
            annotations[constants.ACKNOWLEDGED_GENERATION_ANNOTATION] = generation
        if not self.can_report:
            return
        patch = {"metadata": {"annotations": annotations}}
        await self.jobs.world.user.patch(PODS, NAMESPACE, LAUNCHER, patch)


class ScaledJob:
    """The TrainingJob of a world, its scalers and its agent."""

    def __init__(self, jobs: Jobs) -> None:
        self.jobs = jobs
        self.agent = Agent(jobs)

    async def run(self, **spec: Any) -> None:
        """Create the job, and wait until it runs."""
        await self.jobs.create(**spec)
        await self.jobs.wait_for_phase("Running")

    async def create(self, kind: str, name: str, **spec: Any) -> Object:
        body = build_scaler_wire(kind, name, **spec)
        return await self.jobs.world.user.create(RESOURCES[kind], NAMESPACE, body)

    def find(self, resource: Resource, name: str) -> Object:
        found = self.jobs.find(resource, name)
        assert found is not None
        return found

    def read_conditions(self, kind: str, name: str) -> list[str]:
        status = self.find(RESOURCES[kind], name).get("status") or {}
        return [condition["type"] for condition in status.get("conditions") or ()]

    def read_end(self, kind: str, name: str) -> tuple[str, str, str]:
        """The last condition of a scaler."""
        last = self.find(RESOURCES[kind], name)["status"]["conditions"][-1]
        return last["type"], last.get("reason", ""), last.get("message", "")

    async def wait_for_end(self, kind: str, name: str, *, seconds: float = 120.0) -> str:
        """Wait until a scaler has ended; return its last condition."""

        def has_ended() -> bool:
            return bool({"ScaleSucceeded", "ScaleFailed"} & set(self.read_conditions(kind, name)))

        await self.jobs.world.wait_for(f"end of {name}", has_ended, seconds=seconds)
        return self.read_end(kind, name)[0]

    async def edit(self, change: Callable[[Object], object]) -> None:
        """Change the job, as its user does."""
        job = self.jobs.read()
        change(job)
        await self.jobs.world.user.replace(self.jobs.resource, NAMESPACE, "elastic", job)

    async def scale(self, replicas: int) -> None:
        """Change ``replicas`` of the workers, as kubectl scale does."""
        await self.edit(
            lambda job: job["spec"]["etReplicaSpecs"]["worker"].update(replicas=replicas)
        )

    def list_workers(self) -> list[int]:
        """The indexes of the workers' Pods."""
        names = (pod["metadata"]["name"] for pod in self.jobs.world.list_objects(PODS))
        return sorted(int(n.rpartition("-")[2]) for n in names if n.startswith("elastic-worker-"))

    def has_request(self) -> bool:
        configmap = self.find(CONFIGMAPS, "elastic-attempt")
        return constants.SCALER_KEY in (configmap.get("binaryData") or {})

    def read_annotations(self) -> dict[str, str]:
        return dict(self.find(FRAMEWORKS, "elastic")["metadata"]["annotations"])


def read_roster(configmap: Object) -> Roster | None:
    """The published roster."""
    stored = (configmap.get("binaryData") or {}).get(constants.ROSTER_KEY)
    return None if stored is None else decode_roster(base64.b64decode(stored))


@asynccontextmanager
async def open_scaled_job() -> AsyncGenerator[ScaledJob]:
    """A world with a TrainingJob's kubelet and agent; no controller runs yet."""
    async with open_jobs("TrainingJob") as jobs:
        scaled = ScaledJob(jobs)
        agent = asyncio.create_task(scaled.agent.play(), name="agent")
        try:
            yield scaled
        finally:
            agent.cancel()
            await asyncio.gather(agent, return_exceptions=True)
