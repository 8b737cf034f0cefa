"""Frameworks made to be large, against a whole controller.

The CRD of these tests has none of its limits, as an old one, so that every Framework reaches the
controller. That the CRD refuses such objects: tests/contract/test_framework_sizes.py.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from framework.api import constants, crd
from tests.support.builders import build_role_wire, build_submission
from tests.support.machine.processes import read_peak_bytes, read_stat
from tests.support.servers.childprocess import ChildProcess
from tests.support.servers.frameworkcrd import CRDS, wait_ready
from tests.support.servers.frameworkserver import open_local_server, start_controller
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.servers.policed import create
from tests.support.waiting import wait_until

FRAMEWORKS = f"/apis/{constants.API_VERSION}/namespaces/default/frameworks"
PODS = "/api/v1/namespaces/default/pods"
MIB = 1024 * 1024
# The memory of a controller that has little to do, with room for what differs between machines.
IDLE_BYTES = 200 * MIB
Object = dict[str, Any]


@dataclass(frozen=True)
class Cluster:
    """An API server whose CRD has no limits, and a controller."""

    http: JsonHttp
    controller: ChildProcess

    def create(self, name: str, *roles: Object, **spec: Any) -> None:
        create(self.http, FRAMEWORKS, build_submission(name, *roles, **spec))

    def get(self, name: str) -> Object:
        framework: Object = self.http.request("GET", f"{FRAMEWORKS}/{name}")[1]
        return framework

    def list_conditions(self, name: str) -> list[dict[str, str]]:
        conditions: list[dict[str, str]] = self.get(name).get("status", {}).get("conditions", [])
        return conditions

    def find_blocked(self, name: str) -> dict[str, str]:
        """Return the condition Blocked; {} if there is none."""
        return next((c for c in self.list_conditions(name) if c["type"] == "Blocked"), {})

    def wait_until_blocked(self, name: str) -> dict[str, str]:
        self.wait_until(lambda: self.find_blocked(name).get("status") == "True")
        return self.find_blocked(name)

    def wait_for_pod(self, name: str) -> None:
        self.wait_until(lambda: self.http.request("GET", f"{PODS}/{name}")[0] == 200)

    def wait_until(self, is_met: Callable[[], object]) -> None:
        """Wait until a condition holds, while the controller runs."""

        def check() -> object:
            self.controller.raise_if_ended()
            return is_met()

        wait_until(check, self.controller.tail, pause_seconds=0.1)

    def read_peak_bytes(self) -> int:
        """Read the most memory that the controller ever had."""
        return read_peak_bytes(self.controller.pid)

    def read_cpu_seconds(self) -> float:
        """Read the CPU time that the controller has used."""
        fields = read_stat(self.controller.pid)
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def remove_limits(self) -> None:
        """Replace the CRD by one without any limit of size or number."""
        manifest = crd.build_crd()
        schema = manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        roles = schema["properties"]["spec"]["properties"]["taskRoles"]
        for key in ("maxItems", "x-kubernetes-validations"):
            del roles[key]
        fields = roles["items"]["properties"]
        del fields[constants.ABSENT_TASK_INDICES_FIELD]["maxItems"]
        del fields["taskNumber"]["maximum"]
        path = f"{CRDS}/{manifest['metadata']['name']}"
        current = self.http.request("GET", path)[1]
        manifest["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"]
        status, answer = self.http.request("PUT", path, manifest)
        assert status == 200, answer
        wait_ready(self.http, FRAMEWORKS)


@contextmanager
def open_cluster(folder: Path, *arguments: str) -> Iterator[Cluster]:
    with (
        open_local_server(folder) as access,
        start_controller(access, folder, *arguments) as controller,
    ):
        cluster = Cluster(access.open_http(), controller)
        cluster.remove_limits()
        yield cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with open_cluster(tmp_path) as cluster:
        yield cluster


def test_framework_of_600_000_tasks_is_blocked_and_uses_little_memory(cluster: Cluster) -> None:
    cluster.create("attack", *(build_role_wire(f"a{n}", 10_000) for n in range(60)))
    blocked = cluster.wait_until_blocked("attack")
    version = cluster.get("attack")["metadata"]["resourceVersion"]
    cluster.create("bystander", build_role_wire("worker", 2))
    cluster.wait_for_pod("bystander-worker-1")

    assert blocked["reason"] == "TooManyTasks"
    assert blocked["message"] == (
        "spec.taskRoles: has 600000 Tasks; at most 10000 Tasks are allowed in all roles together: "
        "lower taskNumber, or split the Framework into several"
    )
    assert cluster.get("attack")["metadata"]["resourceVersion"] == version
    assert cluster.read_peak_bytes() < IDLE_BYTES


@pytest.mark.slow
@pytest.mark.parametrize(
    ("roles", "tasks", "reason"),
    [(1, 10**12, "TooManyTasks"), (9_000, 0, "TooManyRoles")],
    ids=["tasks beyond any memory", "many roles"],
)
def test_framework_beyond_the_limits_is_blocked(
    cluster: Cluster, roles: int, tasks: int, reason: str
) -> None:
    cluster.create("attack", *({"name": f"a{n}", "taskNumber": tasks} for n in range(roles)))
    assert cluster.wait_until_blocked("attack")["reason"] == reason
    assert cluster.read_peak_bytes() < IDLE_BYTES


@pytest.mark.slow
def test_350_kb_of_absent_indexes_delay_no_framework(cluster: Cluster) -> None:
    """60,000 indexes, of which one Task of 10,000 is left."""
    gaps = [index for index in range(60_001) if index != 5_000]
    before = cluster.read_cpu_seconds()
    cluster.create("attack", build_role_wire("a", 10_000, absentTaskIndices=gaps))
    cluster.create("bystander", build_role_wire("worker", 1))
    cluster.wait_for_pod("bystander-worker-0")
    cluster.wait_for_pod("attack-a-5000")
    # Computing the gaps for each Task takes 16.8 s, for each decision.
    assert cluster.read_cpu_seconds() - before < 8.0


@pytest.mark.slow
def test_pod_templates_take_no_more_memory_than_their_text(cluster: Cluster) -> None:
    """30 of 0.4 MB each, nothing but empty objects: 10 MB of Python's objects each."""
    role = build_role_wire("a", 0)
    role["task"]["pod"]["spec"]["future"] = [{}] * 130_000
    for number in range(30):
        cluster.create(f"attack-{number}", role)
    cluster.create("bystander", build_role_wire("worker", 1))
    cluster.wait_for_pod("bystander-worker-0")
    assert cluster.read_peak_bytes() < IDLE_BYTES


@pytest.mark.slow
def test_many_large_frameworks_do_not_fill_the_memory(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(f"memoryLimitBytes: {320 * MIB}\n")
    with open_cluster(tmp_path, "--config", str(config)) as cluster:
        names = [f"large-{number}" for number in range(24)]
        for name in names:
            cluster.create(name, build_role_wire("a", 5_000), executionType="Create")
        cluster.wait_until_blocked(names[-1])
        for name in names:
            cluster.wait_until(partial(cluster.list_conditions, name))
        found = [cluster.find_blocked(name) for name in names]
        blocked = [condition for condition in found if condition.get("status") == "True"]
        admitted = [condition for condition in found if condition.get("status") == "False"]
        assert {condition["reason"] for condition in blocked} == {"MemoryBudget"}
        assert 1 <= len(admitted) <= 6
        assert cluster.read_peak_bytes() < 320 * MIB
