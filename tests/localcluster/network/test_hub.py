import contextlib
import gc
import os
import resource
import signal
import socket
import subprocess
import sys
from ipaddress import IPv4Network

import pytest

from localcluster.network.cluster_names import ClusterNames
from localcluster.network.namespaces import HubProcess, NamespaceNetwork
from localcluster.network.pod_network import NetworkError
from tests.localcluster.network.builders import close_listener
from tests.support.servers.frameworkcrd import ROOT
from tests.support.waiting import HANG_SECONDS

pytestmark = pytest.mark.local
PODS = 50


async def start() -> HubProcess:
    hub = HubProcess("10.244.0.1", in_user_namespace=os.geteuid() != 0)
    await hub.ready()
    return hub


def test_hub_more_pairs_of_pods_than_the_kernel_remembers_neighbours_meet() -> None:
    # It remembers 1024 for all namespaces together.
    mesh = subprocess.run(
        [sys.executable, "-m", "tests.localcluster.network.mesh", str(PODS)],
        capture_output=True,
        check=False,
        text=True,
        cwd=ROOT,
        timeout=HANG_SECONDS,
    )
    assert mesh.stdout == f"{PODS * PODS}\n", mesh.stderr


async def test_hub_serves_requests_after_one_that_the_kernel_refuses() -> None:
    hub = await start()
    try:
        first = await hub.attach("10.244.0.2")
        with pytest.raises(NetworkError, match="make device"):
            await hub.attach("10.244.0.2")
        second = await hub.attach("10.244.0.3")
        os.close(first)
        os.close(second)
    finally:
        await hub.stop()


async def test_hub_killed_fails_every_request() -> None:
    hub = await start()
    os.kill(hub.pid, signal.SIGKILL)
    for _ in range(2):
        with pytest.raises(NetworkError, match="the network of Pods"):
            await hub.attach("10.244.0.2")
    await hub.stop()


BOOT = """
import sys
sys.path.insert(0, sys.argv[1])
import localcluster.network.hub as hub
def refuse(*_):
    raise OSError(95, "not here")
hub.{function} = refuse
hub.main()
"""


@pytest.mark.parametrize("function", ["syscalls.unshare", "Netlink.add_pair"])
async def test_network_that_the_kernel_does_not_make_is_an_error(
    function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    boot = BOOT.format(function=function)
    monkeypatch.setattr("localcluster.child_program._BOOT", boot)
    with pytest.raises(NetworkError, match="not here"):
        await NamespaceNetwork.open(
            IPv4Network("10.244.0.0/16"), close_listener, ClusterNames(), in_user_namespace=False
        )


async def test_socket_without_room_for_it_in_this_process_is_an_error() -> None:
    hub, filling = await start(), list[int]()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, limits[0]), limits[1]))
    # Files that earlier tests left must not be closed while no descriptor is free.
    gc.collect()
    try:
        with contextlib.suppress(OSError):
            while True:
                filling.append(os.open(os.devnull, os.O_RDONLY))
        with pytest.raises(NetworkError, match="too many open files"):
            await hub.open_socket(socket.SOCK_STREAM)
    finally:
        for descriptor in filling:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    (await hub.open_socket(socket.SOCK_STREAM)).close()
    await hub.stop()
