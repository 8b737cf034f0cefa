"""The jobs of the originals' examples, applied by kubectl on a real API server.

The controller and a fake kubelet run each of them to its end.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from framework.kube.client import KubeClient
from framework.kube.resources import PODS, SERVICES, TFJOBS, TRAININGJOBS, Object, Resource
from tests.support.fakes.jobscripts import Ends
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkcrd import ROOT, wait_until_kinds_are_served
from tests.support.servers.frameworkserver import start_controller
from tests.support.servers.rights import run_kubectl
from tests.support.servers.watching import watch_until
from tests.support.waiting import HANG_SECONDS

pytestmark = pytest.mark.kube

DEFINITIONS = ROOT / "deploy" / "kinds"
# The controller starts no TrainingJob before it has listed the scalers.
KINDS = ("tfjob", "trainingjob", "scalein", "scaleout")
ORIGINALS = Path(__file__).parent / "originals"
MEMBERS = ("master-0", "worker-0", "ps-0", "ps-1")
TFJOB_NAMES = {"example-job": "abcd", "gpu-job": "efgh"}
CONDITIONS = ["Created", "WorkersCreated", "WorkersReady", "LauncherCreated", "Running"]


@pytest.fixture(autouse=True)
def controller(framework_crd: None, control_plane: Access, tmp_path: Path) -> Iterator[None]:
    run_kubectl(control_plane, "apply", *(f"-f{DEFINITIONS / file}.yaml" for file in KINDS))
    wait_until_kinds_are_served(control_plane.open_http())
    arguments = ("--kinds", "tfjob,trainingjob")
    with start_controller(control_plane, tmp_path, *arguments) as child:
        yield
        child.raise_if_ended()


async def apply(access: Access, namespace: str, *files: str) -> str:
    arguments = [f"-f{ORIGINALS / file}" for file in files]
    return await asyncio.to_thread(run_kubectl, access, "-n", namespace, "apply", *arguments)


async def wait_for(
    kube: KubeClient, resource: Resource, namespace: str, name: str, **status: Any
) -> Object:
    """Wait until the status of a job has these fields; return the status."""

    def check(_: str, body: Object) -> Object | None:
        found: Object = body.get("status") or {}
        is_met = all(found.get(key) == value for key, value in status.items())
        return found if is_met and body["metadata"]["name"] == name else None

    return await watch_until(kube, resource, namespace, check)


async def list_names(kube: KubeClient, resource: Resource, namespace: str) -> set[str]:
    found = await kube.list(resource, namespace)
    return {body["metadata"]["name"] for body in found["items"]}


def read_tf_config(pod: Object) -> Object:
    (container,) = (c for c in pod["spec"]["containers"] if c["name"] == "tensorflow")
    (text,) = (item["value"] for item in container["env"] if item["name"] == "TF_CONFIG")
    config: Object = json.loads(text)
    return config


async def test_tfjob_of_each_dialect_runs_to_its_end(
    control_plane: Access, kube: KubeClient, namespace: str, ends: Ends
) -> None:
    await apply(control_plane, namespace, "tfjob_snake_case.yaml", "tfjob_camel_case.yaml")
    for name in TFJOB_NAMES:
        await wait_for(kube, TFJOBS, namespace, name, phase="Running", state="Running")
    pods = {f"{name}-{member}" for name in TFJOB_NAMES for member in MEMBERS}
    assert await list_names(kube, PODS, namespace) == pods
    services = await list_names(kube, SERVICES, namespace)
    for name, runtime_id in TFJOB_NAMES.items():
        named = {member.replace("-", f"-{runtime_id}-") for member in MEMBERS}
        assert named <= services
        config = read_tf_config(await kube.get(PODS, namespace, f"{name}-worker-0"))
        addresses = {address for members in config["cluster"].values() for address in members}
        assert addresses == {f"{service}:2222" for service in named}
        assert config["task"] == {"type": "worker", "index": 0}

    ends.is_told.set()
    for name in TFJOB_NAMES:
        status = await wait_for(kube, TFJOBS, namespace, name, phase="Done")
        assert status["state"] == "Succeeded"


async def test_trainingjob_runs_to_its_end_and_its_workers_are_deleted(
    control_plane: Access, kube: KubeClient, namespace: str, ends: Ends
) -> None:
    await apply(control_plane, namespace, "training_job.yaml")
    name = "elastic-training"
    workers = [f"{name}-worker-{index}" for index in range(2)]
    # No barrier holds the launcher of a fake kubelet, so it may run before the workers.
    running = {"phase": "Running", "currentWorkers": workers, "targetWorkers": workers}
    await wait_for(kube, TRAININGJOBS, namespace, name, **running)
    assert set(workers) <= await list_names(kube, SERVICES, namespace)

    ends.is_told.set()
    status = await wait_for(kube, TRAININGJOBS, namespace, name, phase="Succeeded")
    conditions = [condition["type"] for condition in status["conditions"]]
    assert set(conditions) == {*CONDITIONS, "Succeeded"}
    assert conditions[-1] == "Succeeded"
    launcher = {"elastic-training-launcher-0"}

    def check(_: str, body: Object) -> Object | None:
        is_end = body["metadata"]["name"] in launcher and body["status"]["phase"] == "Succeeded"
        return body if is_end else None

    await watch_until(kube, PODS, namespace, check)
    gone = [f"{kind}/{worker}" for kind in ("pod", "service") for worker in workers]
    arguments = ("wait", "--for=delete", f"--timeout={HANG_SECONDS}s", *gone)
    await asyncio.to_thread(run_kubectl, control_plane, "-n", namespace, *arguments)
    assert await list_names(kube, PODS, namespace) == launcher
