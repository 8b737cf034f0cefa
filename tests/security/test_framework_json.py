"""Frameworks whose JSON together is more than the controller's memory, against a whole controller.

Each of them is legal: 1.2 MB and one Task. Nothing but the controller bounds how many are kept.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from framework.api import constants
from tests.support.builders import build_role_wire, build_submission
from tests.support.machine.processes import read_peak_bytes
from tests.support.servers.childprocess import ChildProcess
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkserver import launch_controller, open_local_server
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.servers.policed import create
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow
MIB = 2**20
LIMIT_BYTES = 400 * MIB
# What the limit promises: rooms for JSON and turns, what a controller needs, and 100 MiB more.
PEAK_BYTES = 300 * MIB
ARGUMENT_BYTES = 1_200_000
TENANTS = ("hostile-a", "hostile-b", "hostile-c")
COUNT = 120
MERGE = "application/merge-patch+json"
Object = dict[str, Any]


class Cluster:
    """An API server, and a controller whose memory is less than all Frameworks."""

    def __init__(self, access: Access, folder: Path) -> None:
        self.http: JsonHttp = access.open_http()
        self._access = access
        self._folder = folder
        config = folder / "config.yaml"
        config.write_text(f"memoryLimitBytes: {LIMIT_BYTES}\n")
        self._arguments = ("--config", str(config))
        self.peaks: list[int] = []
        self.controller: ChildProcess | None = None

    def start(self) -> None:
        self.controller = launch_controller(self._access, self._folder, *self._arguments)

    def stop(self) -> None:
        if self.controller is not None:
            self.peaks.append(read_peak_bytes(self.controller.pid))
            self.controller.terminate()
            self.controller = None

    def wait_until(self, is_met: Callable[[], object]) -> None:
        controller = self.controller
        assert controller is not None

        def check() -> object:
            controller.raise_if_ended()
            return is_met()

        wait_until(check, controller.tail, pause_seconds=0.2)

    def get(self, namespace: str, name: str) -> Object:
        found: Object = self.http.request("GET", f"{frameworks(namespace)}/{name}")[1]
        return found

    def wait_for_reason(self, namespace: str, name: str) -> str:
        """Wait until a Framework is decided; return the reason of its condition Blocked."""
        found: list[str] = []

        def is_decided() -> bool:
            conditions = self.get(namespace, name).get("status", {}).get("conditions", [])
            found[:] = [c["reason"] for c in conditions if c["type"] == "Blocked"]
            return bool(found)

        self.wait_until(is_decided)
        return found[0]

    def complete(self, namespace: str, name: str) -> None:
        """Let the only Pod of a Framework succeed, and wait until the Framework is Completed."""
        path = f"/api/v1/namespaces/{namespace}/pods/{name}-worker-0"
        self.wait_until(lambda: self.http.request("GET", path)[0] == 200)
        status = {"status": {"phase": "Succeeded"}}
        code, answer = self.http.request("PATCH", f"{path}/status", status, content_type=MERGE)
        assert code == 200, answer
        self.wait_until(
            lambda: self.get(namespace, name)["status"]["state"] in ("AttemptDeleting", "Completed")
        )


def frameworks(namespace: str) -> str:
    return f"/apis/{constants.API_VERSION}/namespaces/{namespace}/frameworks"


def build_large(name: str) -> Object:
    role = build_role_wire("worker", 1)
    role["task"]["pod"]["spec"]["containers"][0]["args"] = ["x" * ARGUMENT_BYTES]
    return build_submission(name, role)


@contextmanager
def open_cluster(folder: Path) -> Iterator[Cluster]:
    with open_local_server(folder) as access:
        cluster = Cluster(access, folder)
        for name in (*TENANTS, "bystander"):
            create(cluster.http, "/api/v1/namespaces", {"metadata": {"name": name}})
        try:
            yield cluster
        finally:
            cluster.stop()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with open_cluster(tmp_path) as cluster:
        yield cluster


def find_large(number: int) -> tuple[str, str]:
    """Return namespace and name of a large Framework."""
    return TENANTS[number % len(TENANTS)], f"large-{number}"


def create_large(cluster: Cluster, numbers: range) -> None:
    for number in numbers:
        namespace, name = find_large(number)
        create(cluster.http, frameworks(namespace), build_large(name))


def delete(cluster: Cluster, numbers: list[int]) -> None:
    for number in numbers:
        namespace, name = find_large(number)
        code, answer = cluster.http.request("DELETE", f"{frameworks(namespace)}/{name}")
        assert code == 200, answer


def test_more_json_than_memory_harms_no_bystander(cluster: Cluster) -> None:
    """120 Frameworks are listed at the start, the others come by the watch. Then a restart."""
    assert 3 * COUNT * ARGUMENT_BYTES > LIMIT_BYTES
    create_large(cluster, range(COUNT))
    cluster.start()
    create_large(cluster, range(COUNT, 3 * COUNT))
    small = build_submission("small", build_role_wire("worker"))
    create(cluster.http, frameworks("bystander"), small)
    cluster.complete("bystander", "small")

    reasons = [cluster.wait_for_reason(*find_large(number)) for number in range(3 * COUNT)]
    assert set(reasons) == {"MemoryBudget", "NotBlocked"}
    assert reasons.count("MemoryBudget") > COUNT

    cluster.stop()
    cluster.start()
    waiting = [number for number, reason in enumerate(reasons) if reason == "MemoryBudget"]
    delete(cluster, [number for number in range(3 * COUNT) if number != waiting[0]])
    cluster.complete(*find_large(waiting[0]))
    cluster.stop()
    assert max(cluster.peaks) < PEAK_BYTES
