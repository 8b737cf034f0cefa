"""Frameworks made to be large, against a whole controller: rows 1 and 5 of issue 10.

The CRD of these tests has none of its limits, as an old one, so that everything reaches the
controller. That the CRD refuses such objects: tests/contract/test_framework_sizes.py.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from framework.api import constants, crd
from tests.support.builders import build_role_wire, build_submission
from tests.support.servers.childprocess import ChildProcess
from tests.support.servers.frameworkcrd import CRDS, wait_ready
from tests.support.servers.frameworkserver import launch_controller, open_local_server
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.waiting import wait_until

FRAMEWORKS = f"/apis/{constants.API_VERSION}/namespaces/default/frameworks"
PODS = "/api/v1/namespaces/default/pods"
MIB = 1024 * 1024
T = TypeVar("T")
# Of a controller that has little to do, with room for what differs between machines.
IDLE_BYTES = 200 * MIB


@dataclass(frozen=True)
class Cluster:
    """An API server whose CRD has no limits, and a controller."""

    http: JsonHttp
    controller: ChildProcess

    def create(self, name: str, *roles: dict[str, Any], **spec: Any) -> None:
        """Create a Framework."""
        body = build_submission(name, *roles, **spec)
        status, answer = self.http.request("POST", FRAMEWORKS, body)
        assert status == 201, answer

    def get(self, name: str) -> dict[str, Any]:
        framework: dict[str, Any] = self.http.request("GET", f"{FRAMEWORKS}/{name}")[1]
        return framework

    def await_blocked(self, name: str, status: str) -> dict[str, str]:
        """Wait until the condition Blocked has a status."""

        def find() -> dict[str, str]:
            found = (c for c in self.list_conditions(name) if c["type"] == "Blocked")
            return next((c for c in found if c["status"] == status), {})

        return self.wait_until(find)

    def await_pod(self, name: str) -> None:
        """Wait until there is a Pod."""
        self.wait_until(lambda: self.http.request("GET", f"{PODS}/{name}")[0] == 200)

    def list_conditions(self, name: str) -> list[dict[str, str]]:
        conditions: list[dict[str, str]] = self.get(name).get("status", {}).get("conditions", [])
        return conditions

    def wait_until(self, find: Callable[[], T]) -> T:
        """Return what ``find`` finds, once it does, while the controller runs."""

        def look() -> T:
            self.controller.raise_if_ended()
            return find()

        return wait_until(look, self.controller.tail, pause_seconds=0.1)

    def read_peak_bytes(self) -> int:
        """Read the most memory that the controller ever had."""
        lines = Path(f"/proc/{self.controller.pid}/status").read_text().splitlines()
        (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
        return int(peak) * 1024

    def read_cpu_seconds(self) -> float:
        """Read the CPU time that the controller has used."""
        fields = Path(f"/proc/{self.controller.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def build_unlimited_crd() -> dict[str, Any]:
    """Build the CRD without any limit of size."""
    manifest = crd.build_crd()
    schema = manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    roles = schema["properties"]["spec"]["properties"]["taskRoles"]
    for key in ("maxItems", "x-kubernetes-validations"):
        del roles[key]
    del roles["items"]["properties"][constants.ABSENT_TASK_INDICES_FIELD]["maxItems"]
    return manifest


def open_cluster(folder: Path, *arguments: str) -> Iterator[Cluster]:
    with open_local_server(folder) as access:
        http = access.open_http()
        manifest = build_unlimited_crd()
        path = f"{CRDS}/{manifest['metadata']['name']}"
        status, current = http.request("GET", path)
        assert status == 200
        manifest["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"]
        status, answer = http.request("PUT", path, manifest)
        assert status == 200, answer
        wait_ready(http, FRAMEWORKS)
        controller = launch_controller(access, folder, *arguments)
        try:
            yield Cluster(http, controller)
        finally:
            controller.terminate()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    yield from open_cluster(tmp_path)


@pytest.fixture
def small_cluster(tmp_path: Path) -> Iterator[Cluster]:
    """One whose controller may use 320 MiB."""
    config = tmp_path / "config.yaml"
    config.write_text(f"memoryLimitBytes: {320 * MIB}\n")
    yield from open_cluster(tmp_path, "--config", str(config))


def test_framework_of_600_000_tasks_is_blocked_and_costs_next_to_nothing(cluster: Cluster) -> None:
    cluster.create("attack", *(build_role_wire(f"a{n}", 10_000) for n in range(60)))
    blocked = cluster.await_blocked("attack", "True")
    version = cluster.get("attack")["metadata"]["resourceVersion"]
    cluster.create("bystander", build_role_wire("worker", 2))
    cluster.await_pod("bystander-worker-1")

    assert blocked["reason"] == "TooManyTasks"
    assert blocked["message"] == (
        "spec.taskRoles: has 600000 Tasks; at most 10000 Tasks are allowed in all roles together: "
        "lower taskNumber, or split the Framework into several"
    )
    assert cluster.get("attack")["metadata"]["resourceVersion"] == version
    assert cluster.read_peak_bytes() < IDLE_BYTES


@pytest.mark.slow
def test_one_role_of_more_tasks_than_fit_into_any_memory_is_blocked(cluster: Cluster) -> None:
    manifest = build_unlimited_crd()
    schema = manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    roles = schema["properties"]["spec"]["properties"]["taskRoles"]
    del roles["items"]["properties"]["taskNumber"]["maximum"]
    path = f"{CRDS}/{manifest['metadata']['name']}"
    current = cluster.http.request("GET", path)[1]
    manifest["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"]
    assert cluster.http.request("PUT", path, manifest)[0] == 200

    cluster.create("attack", build_role_wire("a", 10**12))
    assert cluster.await_blocked("attack", "True")["reason"] == "TooManyTasks"
    assert cluster.read_peak_bytes() < IDLE_BYTES


@pytest.mark.slow
def test_framework_of_many_roles_is_blocked(cluster: Cluster) -> None:
    cluster.create("attack", *({"name": f"a{n}", "taskNumber": 0} for n in range(9_000)))
    assert cluster.await_blocked("attack", "True")["reason"] == "TooManyRoles"
    assert cluster.read_peak_bytes() < IDLE_BYTES


@pytest.mark.slow
def test_350_kb_of_wanted_gaps_delay_nobody(cluster: Cluster) -> None:
    """60,000 indexes, of which one Task of 10,000 is left."""
    gaps = [index for index in range(60_001) if index != 5_000]
    before = cluster.read_cpu_seconds()
    cluster.create("attack", build_role_wire("a", 10_000, absentTaskIndices=gaps))
    cluster.create("bystander", build_role_wire("worker", 1))
    cluster.await_pod("bystander-worker-0")
    cluster.await_pod("attack-a-5000")
    # 16.8 s of them, and for each decision anew, when the gaps were computed for each Task.
    assert cluster.read_cpu_seconds() - before < 8.0


@pytest.mark.slow
def test_pod_templates_take_no_more_memory_than_their_text(cluster: Cluster) -> None:
    """30 of 0.4 MB each, nothing but empty objects: 10 MB of Python's objects each."""
    role = build_role_wire("a", 0)
    role["task"]["pod"]["spec"]["future"] = [{}] * 130_000
    for number in range(30):
        cluster.create(f"attack-{number}", role)
    cluster.create("bystander", build_role_wire("worker", 1))
    cluster.await_pod("bystander-worker-0")
    assert cluster.read_peak_bytes() < IDLE_BYTES


@pytest.mark.slow
def test_many_large_frameworks_do_not_fill_the_memory(small_cluster: Cluster) -> None:
    cluster = small_cluster
    names = [f"large-{number}" for number in range(24)]
    for name in names:
        cluster.create(name, build_role_wire("a", 5_000), executionType="Create")
    reasons = [cluster.await_blocked(names[-1], "True")["reason"]]
    for name in names:
        cluster.wait_until(partial(cluster.list_conditions, name))
    conditions = [condition for name in names for condition in cluster.list_conditions(name)]
    found = [condition for condition in conditions if condition["type"] == "Blocked"]
    admitted = [condition for condition in found if condition["status"] == "False"]
    reasons += [condition["reason"] for condition in found if condition["status"] == "True"]
    assert set(reasons) == {"MemoryBudget"}
    assert 1 <= len(admitted) <= 6
    assert cluster.read_peak_bytes() < 320 * MIB
