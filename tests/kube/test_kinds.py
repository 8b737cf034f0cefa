"""What `framework convert` prints, on a real API server: accepted, run, each Service one Pod."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from framework.kinds.catalog import find_compile
from framework.kube.client import KubeClient
from framework.kube.resources import FRAMEWORKS, Object
from tests.framework.kinds.jobs import build_template, build_tfjob, build_trainingjob
from tests.support.fakes.jobscripts import Ends
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkserver import start_controller
from tests.support.servers.rights import run_kubectl
from tests.support.servers.watching import watch_until

pytestmark = pytest.mark.kube

BOARD = {"logDir": "/logs", "volumes": [{"name": "a", "emptyDir": {}}]}
JOBS = {
    "tfjob": build_tfjob(tensorboard=BOARD),
    "tfjob-services": build_tfjob(
        replicaSpecs=[{"template": build_template(command=[])}, {"tfReplicaType": "PS"}]
    ),
    "trainingjob": build_trainingjob(),
}


@pytest.fixture(autouse=True)
def controller(framework_crd: None, control_plane: Access, tmp_path: Path) -> Iterator[None]:
    with start_controller(control_plane, tmp_path) as child:
        yield
        child.raise_if_ended()


def convert(job: Object, namespace: str) -> list[Object]:
    body = {**job, "metadata": {**job["metadata"], "namespace": namespace}}
    step = find_compile(body)
    assert step is not None
    compiled = step(body)
    return [*compiled.supporting, compiled.framework]


def select_pods(access: Access, namespace: str, service: Object) -> list[str]:
    selector = ",".join(f"{key}={value}" for key, value in service["spec"]["selector"].items())
    text = run_kubectl(access, "-n", namespace, "get", "pods", "-l", selector, "-o", "json")
    return [pod["metadata"]["name"] for pod in json.loads(text)["items"]]


def find(key: str, value: str, name: str) -> Callable[[str, Object], Object | None]:
    """Build the search for a Framework with this field of its status."""

    def check(_: str, body: Object) -> Object | None:
        is_met = (body.get("status") or {}).get(key) == value
        return body if is_met and body["metadata"]["name"] == name else None

    return check


@pytest.mark.parametrize("name", JOBS)
async def test_converted_job_runs_to_its_end_and_each_service_selects_one_pod(
    name: str,
    control_plane: Access,
    kube: KubeClient,
    namespace: str,
    ends: Ends,
    tmp_path: Path,
) -> None:
    objects = convert(JOBS[name], namespace)
    framework, job = objects[-1], objects[-1]["metadata"]["name"]
    file = tmp_path / "converted.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    await asyncio.to_thread(run_kubectl, control_plane, "apply", "-f", str(file))
    total = sum(role["taskNumber"] for role in framework["spec"]["taskRoles"])

    await watch_until(kube, FRAMEWORKS, namespace, find("readyTasks", f"{total}/{total}", job))
    services = [o for o in objects if o["kind"] == "Service" and "tensor" not in str(o["metadata"])]
    pods = [await asyncio.to_thread(select_pods, control_plane, namespace, s) for s in services]
    workers = [pod for (pod,) in pods]
    assert len(set(workers)) == len(services) > 0
    if name == "trainingjob":
        assert workers == [service["metadata"]["name"] for service in services]
    ends.is_told.set()
    ended = await watch_until(kube, FRAMEWORKS, namespace, find("state", "Completed", job))
    completion = ended["status"]["attemptStatus"]["completionStatus"]
    assert completion["type"]["name"] == "Succeeded"
