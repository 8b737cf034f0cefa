"""Pods with network namespaces of their own: real processes, real sockets, real names."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from framework.kube.resources import SERVICES, Object
from localcluster.network.choice import NetworkChoice
from tests.localcluster.kubelet.nodes import (
    Node,
    build_container,
    build_pod,
    find_condition,
    open_node,
)
from tests.localcluster.network.builders import build_service

pytestmark = pytest.mark.local

# As a gRPC server does: every address, always the same port. Sends its name to each client.
SERVER = """
import socket
server = socket.create_server(("", 2222))
print("listening", flush=True)
while True:
    connection, _ = server.accept()
    connection.sendall(socket.gethostname().encode())
    connection.close()
"""
ASK = """
import socket, sys
for address in sys.argv[1:]:
    with socket.create_connection((address, 2222), 240) as connection:
        print(connection.makefile().read(), flush=True)
"""
RESOLVE = """
import socket, sys
for name in sys.argv[1:]:
    try:
        found = sorted({entry[4][0] for entry in socket.getaddrinfo(name, 2222, socket.AF_INET)})
    except socket.gaierror as e:
        found = [e.strerror]
    print(name, *found, flush=True)
"""


VOLUMES = [{"name": "scratch", "emptyDir": {}}]
MOUNTS = [{"name": "scratch", "mountPath": "/scratch"}]
PORTS = [{"name": "grpc", "port": 80, "targetPort": 2222}]
# By default the resolver asks twice and waits 5 s for each answer.
PATIENT_RESOLVER: dict[str, Any] = {
    "dnsConfig": {
        "options": [{"name": "timeout", "value": "30"}, {"name": "attempts", "value": "5"}]
    }
}


def build_python(code: str, *words: str, name: str = "main") -> Object:
    return build_command(sys.executable, "-c", code, *words, name=name)


def build_command(*command: str, name: str = "main") -> Object:
    return {"name": name, "image": "any", "command": list(command)}


async def start_server(node: Node, name: str, *, is_ready: bool = True, **spec: Any) -> str:
    """Start a server and return its address, once it is as ready as it will be."""
    # A late answer does not make it unready again.
    probe = {"tcpSocket": {"port": 2222 if is_ready else 2223}, "periodSeconds": 1}
    probe |= {"timeoutSeconds": 60, "failureThreshold": 100}
    pod = build_pod(name, build_python(SERVER) | {"readinessProbe": probe}, **spec)
    pod["metadata"]["labels"] = {"app": "train"}
    await node.create(pod)
    await node.wait_for_phase(name, "Running")
    await node.wait_for_log(name, "listening")

    def is_up(pod: Object) -> bool:
        ready = find_condition(pod, "Ready").get("status") == "True"
        return ready is is_ready and bool(pod["status"].get("podIP"))

    pod = await node.wait_for(name, is_up)
    return str(pod["status"]["podIP"])


async def run_python(node: Node, code: str, *words: str) -> str:
    """Run a program as a Pod and return what it prints."""
    pod = await node.finish(build_pod("client", build_python(code, *words), **PATIENT_RESOLVER))
    output = await node.read_log("client")
    assert pod["status"]["phase"] == "Succeeded", output
    return output


async def resolve(node: Node, *names: str) -> dict[str, list[str]]:
    lines = (await run_python(node, RESOLVE, *names)).splitlines()
    return {line.split()[0]: line.split()[1:] for line in lines}


async def test_pods_on_the_same_port_reach_one_another_by_address(node: Node) -> None:
    addresses = [await start_server(node, f"w-{i}") for i in range(2)]
    assert len(set(addresses)) == 2
    assert await run_python(node, ASK, *addresses) == "w-0\nw-1\n"


async def test_service_name_is_that_of_its_ready_pods(node: Node) -> None:
    for service in (
        build_service(ports=PORTS),
        build_service("all", ports=PORTS, publishNotReadyAddresses=True),
        build_service("balanced", ports=PORTS, clusterIP=""),
    ):
        await node.client.create(SERVICES, "default", service)
    ready = sorted([await start_server(node, f"w-{i}") for i in range(2)])
    unready = await start_server(node, "late", is_ready=False)
    expected = {
        "train": ready,
        "train.default": ready,
        "train.default.svc.cluster.local": ready,
        "balanced": ready,
        "all": sorted([*ready, unready]),
        # Not looked for in the search domains of this machine.
        "unknown.default.svc.cluster.local.": ["Name", "or", "service", "not", "known"],
    }
    assert await resolve(node, *expected) == expected


async def test_pod_with_hostname_and_subdomain_has_a_name_and_knows_it(node: Node) -> None:
    await node.client.create(SERVICES, "default", build_service(ports=PORTS))
    address = await start_server(node, "w-0", hostname="zero", subdomain="train")
    found = await resolve(node, "zero.train", "zero.train.default.svc.cluster.local", "zero")
    assert found["zero.train"] == [address]
    assert found["zero.train.default.svc.cluster.local"] == [address]
    assert found["zero"] != [address]
    container = build_container("hostname; getent hosts one; getent hosts alias; cat /etc/hosts")
    pod = build_pod("own", container, hostname="one", subdomain="train")
    pod["spec"]["hostAliases"] = [{"ip": "192.0.2.9", "hostnames": ["alias"]}]
    ended = await node.finish(pod)
    output = await node.read_log("own")
    own = ended["status"]["podIP"]
    assert output.startswith("one\n")
    assert f"{own}\tone.train.default.svc.cluster.local\tone\n" in output
    assert "192.0.2.9" in output


async def test_pod_reaches_the_api_server_and_no_server_of_this_machine(node: Node) -> None:
    script = """
import os, socket, sys, urllib.request, urllib.error
host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
try:
    urllib.request.urlopen(f"http://{host}:{port}/api")
except urllib.error.HTTPError as e:
    print(e.code)
print(socket.gethostbyname("kubernetes.default") == host)
port = int(sys.argv[1])
for address in ("127.0.0.1", host):
    try:
        socket.create_connection((address, port), 240)
    except ConnectionRefusedError:
        print("refused")
"""
    port = node.address.rpartition(":")[2]
    assert await run_python(node, script, port) == "401\nTrue\nrefused\nrefused\n"


async def test_containers_of_a_pod_share_its_loopback_interface(node: Node) -> None:
    ask = "until exec 3<>/dev/tcp/127.0.0.1/2222; do sleep 0.1; done 2>/dev/null; cat <&3; exit 0"
    server = build_python(SERVER, name="server")
    await node.create(build_pod("both", build_command("bash", "-c", ask), server))
    await node.wait_for_phase("both", "Running")
    await node.wait_for_log("both", "both")


async def test_http_and_exec_probes_and_hooks_work_inside(node: Node) -> None:
    serve = [sys.executable, "-m", "http.server", "8080", "--bind", "0.0.0.0"]
    touch = "until (exec 3<>/dev/tcp/127.0.0.1/8080; touch /scratch/up); do sleep 0.1; done"
    container = build_command(*serve) | {
        "ports": [{"name": "web", "containerPort": 8080}],
        "volumeMounts": MOUNTS,
        "lifecycle": {"postStart": {"exec": {"command": ["bash", "-c", touch]}}},
        "startupProbe": {
            "exec": {"command": ["test", "-e", "/scratch/up"]},
            "timeoutSeconds": 60,
            "periodSeconds": 1,
        },
        "readinessProbe": {"httpGet": {"path": "/", "port": "web"}, "periodSeconds": 1},
    }
    await node.create(build_pod("web", container, volumes=VOLUMES))
    await node.wait_for("web", lambda p: find_condition(p, "Ready").get("status") == "True")


async def test_processes_of_a_pod_hold_no_namespace_open(node: Node) -> None:
    look = "ls -l /proc/self/fd"
    # The file is complete when it has its name.
    write = f"{look} >/scratch/part && mv /scratch/part /scratch/fds"
    hook = {"exec": {"command": ["sh", "-c", write]}}
    container = build_container(
        f"{look}; until [ -e /scratch/fds ]; do sleep 0.1; done; cat /scratch/fds",
        volumeMounts=MOUNTS,
        lifecycle={"postStart": hook},
    )
    await node.finish(build_pod("p", container, volumes=VOLUMES))
    output = await node.read_log("p")
    assert output.count("/proc/") >= 2
    assert "net:[" not in output


async def test_pods_of_two_clusters_have_separate_networks(tmp_path: Path) -> None:
    options = {"network": NetworkChoice.NAMESPACE}
    async with (
        open_node(tmp_path / "one", **options) as one,
        open_node(tmp_path / "two", **options) as two,
    ):
        addresses = await asyncio.gather(start_server(one, "of-one"), start_server(two, "of-two"))
        assert await run_python(one, ASK, addresses[0]) == "of-one\n"
        assert await run_python(two, ASK, addresses[1]) == "of-two\n"


async def test_pod_of_the_host_network_reaches_this_machine(node: Node) -> None:
    ask = f"exec 3<>/dev/tcp/127.0.0.1/{node.address.rpartition(':')[2]} && echo reached"
    await node.finish(build_pod("host", build_command("bash", "-c", ask), hostNetwork=True))
    assert await node.read_log("host") == "reached\n"


async def test_the_kubelet_reaches_a_server_that_listens_in_its_pod_only(tmp_path: Path) -> None:
    """As TensorBoard does by default: on 127.0.0.1."""
    server = SERVER.replace('("", 2222)', '("127.0.0.1", 2222)')
    async with open_node(tmp_path, network=NetworkChoice.NAMESPACE) as node:
        uids = {}
        for name in ("one", "two"):
            pod = await node.create(build_pod(name, build_python(server)))
            uids[name] = pod["metadata"]["uid"]
            await node.wait_for_phase(name, "Running")
            await node.wait_for_log(name, "listening")
        for name, uid in uids.items():
            reader, writer = await node.kubelet.connect(uid, 2222)
            assert await reader.read() == name.encode()
            writer.close()
        with pytest.raises(ConnectionRefusedError):
            await node.kubelet.connect(uids["one"], 2223)
        with pytest.raises(OSError, match="the Pod does not run on this node"):
            await node.kubelet.connect("other", 2222)
