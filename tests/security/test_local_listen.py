"""The local cluster's API server is reached from this machine only."""

import socket
from pathlib import Path

import pytest

from framework.clock import SystemClock, SystemRandom, SystemUids
from localcluster.cluster import ClusterOptions, LocalCluster

pytestmark = pytest.mark.local

LISTENING = "0A"
LOOPBACK = "0100007F"  # 127.0.0.1 as /proc/net/tcp writes it


def list_listening_addresses(port: int) -> set[str]:
    """List the addresses at which this machine listens on a port."""
    lines = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    sockets = [fields[1].split(":") for fields in lines if fields[3] == LISTENING]
    return {address for address, hexadecimal in sockets if int(hexadecimal, 16) == port}


async def test_local_server_listens_on_loopback_only(tmp_path: Path) -> None:
    options = ClusterOptions(directory=tmp_path, with_kubelet=False, with_controller=False)
    cluster = LocalCluster(options, clock=SystemClock(), uids=SystemUids(), random=SystemRandom())
    async with cluster:
        port = int(cluster.kube_config.server.split(":")[2].partition("/")[0])
        assert list_listening_addresses(port) == {LOOPBACK}


def test_list_listening_addresses_finds_a_server_of_all_addresses() -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:
        assert list_listening_addresses(server.getsockname()[1]) == {"00000000"}
