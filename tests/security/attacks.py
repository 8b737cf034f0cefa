"""The attacks of a hostile tenant, as a program: ``python -m tests.security.attacks NAME``.

Started by ``test_attacks`` in a process of its own, so that the attack takes no time of the
test's event loop. It has the token of a tenant who may create, change and delete Frameworks, Pods
and ConfigMaps in one namespace. Each attack has a bounded rate and time. The program writes a line
to standard output after each round, with the HTTP status codes of the server's answers.
"""

import asyncio
import base64
import gzip
import itertools
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeAlias

from framework.api import constants
from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.config import KubeConfig
from tests.support.builders import build_role_wire, build_submission
from tests.support.fakes.kubelet import FakeKubelet, run_for
from tests.support.servers.controlplane import Access
from tests.support.servers.jsonhttp import JsonHttp

TENANT_TOKEN_ENV = "ATTACK_TOKEN"
NAMESPACE_ENV = "ATTACK_NAMESPACE"
HEALTH_PORT_ENV = "ATTACK_HEALTH_PORT"
MAX_SECONDS = 120.0
PAUSE_SECONDS = 0.2

Object: TypeAlias = dict[str, Any]
MERGE = "application/merge-patch+json"


class Tenant:
    """Sends the requests of one tenant, and remembers the answers of a round."""

    def __init__(self, http: JsonHttp, namespace: str) -> None:
        self._http = http
        self.namespace = namespace
        self.codes: list[int] = []

    def send(self, method: str, path: str, body: Any = None, **options: str) -> int:
        """Send one request, give the status code; 0 without an answer."""
        try:
            code, _ = self._http.request(method, path, body, **options)
        except OSError:
            code = 0
        self.codes.append(code)
        return code

    @property
    def frameworks(self) -> str:
        return f"/apis/{constants.API_VERSION}/namespaces/{self.namespace}/frameworks"

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    @property
    def configmaps(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/configmaps"


def create_huge_frameworks(tenant: Tenant) -> Iterator[None]:
    """60 roles of 10,000 Tasks in one object of 18 kB."""
    roles = [build_role_wire(f"r{number}", constants.MAX_TASK_NUMBER) for number in range(60)]
    for number in itertools.count():
        body = build_submission(f"huge{number}", *roles)
        tenant.send("POST", tenant.frameworks, body)
        yield


def churn_large_pods(tenant: Tenant) -> Iterator[None]:
    """Labelled Pods with an argument of 200 kB that looks like many tokens, deleted."""
    container = {"name": "main", "image": "local/none:1", "args": ["eyJ" * 66_000]}
    for number in itertools.count():
        name = f"large{number}"
        labels = {constants.FRAMEWORK_NAME: "gang"}
        body = {"metadata": {"name": name, "labels": labels}, "spec": {"containers": [container]}}
        tenant.send("POST", tenant.pods, body)
        tenant.send("DELETE", f"{tenant.pods}/{name}", {"gracePeriodSeconds": 0})
        yield


def edit_absent_indexes(tenant: Tenant) -> Iterator[None]:
    """As many absent indexes as the server takes, in a Framework that changes."""
    role = build_role_wire("worker", constants.MAX_TASK_NUMBER)
    # 50,000 indexes are 350 kB; a server with the CRD's bounds refuses them.
    for count in (50_000, constants.MAX_TASK_NUMBER - 1):
        role[constants.ABSENT_TASK_INDICES_FIELD] = list(range(1, count + 1))
        tenant.send("POST", tenant.frameworks, build_submission("absent", role))
    for number in itertools.count():
        edit = {"metadata": {"annotations": {"edit": str(number)}}}
        tenant.send("PATCH", f"{tenant.frameworks}/absent", edit, content_type=MERGE)
        yield


def write_bombs(tenant: Tenant) -> Iterator[None]:
    """A ConfigMap named as a gang's, with 42 kB of gzip that unpack to 42 MB of JSON."""
    roster = b'{"version":1,"roles":[' + b"0," * 21_000_000 + b"0]}"
    packed = base64.b64encode(gzip.compress(roster)).decode()
    tenant.send("POST", tenant.frameworks, build_submission("gang", build_role_wire()))
    labels = {constants.FRAMEWORK_NAME: "gang"}
    annotations = {
        constants.ROSTER_VERSION_ANNOTATION: constants.ROSTER_VERSION,
        constants.GENERATION_ANNOTATION: "1",
    }
    for number in itertools.count():
        metadata = {"name": f"bomb{number}-attempt", "labels": labels, "annotations": annotations}
        body = {"metadata": metadata, "binaryData": {constants.ROSTER_KEY: packed}}
        tenant.send("POST", tenant.configmaps, body)
        edit = {"metadata": {"annotations": {constants.GENERATION_ANNOTATION: str(number + 2)}}}
        for name in (f"bomb{number}-attempt", "gang-attempt"):
            body = edit | {"binaryData": {constants.ROSTER_KEY: packed}}
            tenant.send("PATCH", f"{tenant.configmaps}/{name}", body, content_type=MERGE)
        yield


def create_large_templates(tenant: Tenant) -> Iterator[None]:
    """Pod templates of 320 kB of empty lists, of which Python would make objects for each Pod.

    One Framework, because the API server itself needs long for each write of such an object.
    """
    role = build_role_wire("worker", 60)
    role["task"]["pod"]["junk"] = [[[[]]]] * 40_000
    role["frameworkAttemptCompletionPolicy"] = {
        "minFailedTaskCount": -1,
        "minSucceededTaskCount": -1,
    }
    tenant.send("POST", tenant.frameworks, build_submission(f"template{os.getpid()}", role))
    while True:
        yield


def edit_hot_frameworks(tenant: Tenant) -> Iterator[None]:
    """Hundreds of Frameworks, each edit of which makes the controller decide and write a status."""
    names = [f"hot{number}" for number in range(300)]
    for name in names:
        body = build_submission(name, build_role_wire(), executionType="Create")
        tenant.send("POST", tenant.frameworks, body)
    for number, name in enumerate(itertools.cycle(names)):
        edit = {"spec": {"description": f"edit {number}"}}
        tenant.send("PATCH", f"{tenant.frameworks}/{name}", edit, content_type=MERGE)
        if number % 40 == 0:
            yield


def hold_half_requests(tenant: Tenant) -> Iterator[None]:
    """Requests without an end to the controller's health port, as many as it takes."""
    port = int(os.environ[HEALTH_PORT_ENV])
    held: list[socket.socket] = []
    while True:
        for _ in range(100):
            with suppress(OSError):
                connection = socket.create_connection(("127.0.0.1", port), 0.5)
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: ")
                held.append(connection)
        # As many as one process of the attacker may hold; the oldest give way.
        while len(held) > 900:
            held.pop(0).close()
        tenant.codes.append(len(held))
        yield


def retry_without_end(tenant: Tenant) -> Iterator[None]:
    """Tasks that fail at once, and a Pod of 400 kB that is refused, retried without end.

    The first round sends nothing, so that the time before the first pauses is measured as well.
    """
    yield
    failing = build_role_wire("worker", 3)
    refused = build_role_wire("worker", 1)
    container = refused["task"]["pod"]["spec"]["containers"][0]
    container["env"] = [{"name": "=bad", "value": "x" * 400_000}]
    for name, role in (("fails", failing), ("refused", refused)):
        role["task"]["retryPolicy"] = {"fancyRetryPolicy": False, "maxRetryCount": -1}
        tenant.send("POST", tenant.frameworks, build_submission(name, role))
    while True:
        yield


ATTACKS: dict[str, Callable[[Tenant], Iterator[None]]] = {
    "huge": create_huge_frameworks,
    "redaction": churn_large_pods,
    "absent": edit_absent_indexes,
    "bomb": write_bombs,
    "health": hold_half_requests,
    "templates": create_large_templates,
    "hot": edit_hot_frameworks,
    "retries": retry_without_end,
}
# By attack: how many times longer another Framework may take, and the seconds on top. The requests
# of these delay those of all others at the API server itself, which needs several times the CPU
# time of the controller. Measured on two idle cores: 1.5 times for ``hot``, 1.6 for ``templates``;
# beside other programs up to 2.2 times, and up to 5 times (0.3 to 0.8 s).
LIMITS = {"hot": (3.0, 1.0), "templates": (3.0, 1.0)}


async def run_attack(name: str, access: Access, tenant: Tenant) -> None:
    """Attack until killed or the time is over, beside a kubelet for the tenant's Pods."""
    config = KubeConfig(server=access.url, token=access.token, ca_file=access.ca_file)
    script = run_for(0.0, 1)
    end = time.monotonic() + MAX_SECONDS
    async with (
        KubeClient(config, user_agent="tests-kubelet", clock=SystemClock()) as kube,
        FakeKubelet(kube, SystemClock(), tenant.namespace, choose_script=lambda _pod: script),
    ):
        for _ in ATTACKS[name](tenant):
            print(tenant.codes, flush=True)
            tenant.codes.clear()
            await asyncio.sleep(PAUSE_SECONDS)
            if time.monotonic() > end:
                return


def main() -> None:
    """Run the attack that the first argument names."""
    access = Access.from_env(os.environ)
    if access is None:
        raise SystemExit("no API server: run this beside tests.support.servers.controlplane")
    http = JsonHttp(access.url, os.environ[TENANT_TOKEN_ENV], access.ca_file)
    asyncio.run(run_attack(sys.argv[1], access, Tenant(http, os.environ[NAMESPACE_ENV])))


if __name__ == "__main__":
    main()
