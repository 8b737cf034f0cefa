from ipaddress import IPv4Network

import pytest

from localcluster.network.addresses import AddressPool, choose_block, list_candidates, parse_routes
from localcluster.network.pod_network import NetworkError

ROUTES = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t0000F40A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
"""


def test_parse_routes_reads_networks() -> None:
    assert parse_routes(ROUTES) == [IPv4Network("0.0.0.0/0"), IPv4Network("10.244.0.0/16")]


def test_choose_block_leaves_out_what_this_machine_reaches() -> None:
    assert str(choose_block([IPv4Network("0.0.0.0/0")])) == "10.244.0.0/16"
    assert str(choose_block(parse_routes(ROUTES))) == "10.245.0.0/16"
    assert str(choose_block([IPv4Network("10.0.0.0/8")])) == "172.16.0.0/16"
    private = [IPv4Network("10.0.0.0/8"), IPv4Network("172.16.0.0/12")]
    assert str(choose_block(private)) == "198.18.0.0/16"
    assert choose_block(list_candidates()) == IPv4Network("198.18.0.0/16")


def test_address_pool_gives_each_pod_its_own_and_used_ones_last() -> None:
    pool = AddressPool(IPv4Network("10.0.0.0/29"))
    assert str(pool.gateway) == "10.0.0.1"
    assert [pool.take(uid) for uid in ("a", "b", "a")] == ["10.0.0.2", "10.0.0.3", "10.0.0.2"]
    pool.give_back("a")
    pool.give_back("a")
    assert [pool.take(uid) for uid in "cdef"] == ["10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.2"]
    with pytest.raises(NetworkError):
        pool.take("g")
