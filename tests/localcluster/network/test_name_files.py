from typing import Any

import pytest

from framework.kube.resources import Object
from localcluster.network.name_files import (
    ResolverSettings,
    parse_resolv_conf,
    render_hosts,
    render_resolv_conf,
)

HOST = ResolverSettings(["192.0.2.1"], ["example.com"], {"timeout": "1"})


SERVER = "nameserver 10.244.0.1"
SEARCH = "search ml.svc.cluster.local svc.cluster.local cluster.local example.com"
CONFIG = {
    "nameservers": ["192.0.2.7"],
    "searches": ["x"],
    "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
}


def build_pod(**spec: Any) -> Object:
    return {"metadata": {"name": "p", "namespace": "ml"}, "spec": spec}


def test_render_hosts_pod_knows_its_name_and_aliases() -> None:
    aliases = [{"ip": "10.0.0.1", "hostnames": ["a", "b"]}]
    text = render_hosts(build_pod(hostAliases=aliases), "p", ("10.244.0.2", "fd00::2"))
    assert "127.0.0.1\tlocalhost\n" in text
    assert "10.244.0.2\tp\nfd00::2\tp\n" in text
    assert text.endswith("10.0.0.1\ta\tb\n")


def test_render_hosts_pod_of_a_subdomain_has_its_full_name_first() -> None:
    text = render_hosts(build_pod(hostname="zero", subdomain="train"), "zero", ("10.244.0.2",))
    assert "10.244.0.2\tzero.train.ml.svc.cluster.local\tzero\n" in text


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, [SERVER, SEARCH, "options ndots:5"]),
        ({"dnsPolicy": "Default"}, [SERVER, "search example.com", "options timeout:1"]),
        (
            {"dnsPolicy": "None", "dnsConfig": CONFIG},
            ["nameserver 192.0.2.7", "search x", "options ndots:2 edns0"],
        ),
        (
            {"dnsConfig": {"options": [{"name": "ndots", "value": "1"}]}},
            [SERVER, SEARCH, "options ndots:1"],
        ),
    ],
    ids=["cluster", "default", "none", "cluster with options"],
)
def test_render_resolv_conf_follows_policy_and_config(spec: Object, expected: list[str]) -> None:
    text = render_resolv_conf(build_pod(**spec), "10.244.0.1", HOST)
    assert text.splitlines()[1:] == expected


def test_parse_resolv_conf_reads_servers_search_and_options() -> None:
    text = "# x\nnameserver 192.0.2.1\n\nsearch a b\noptions timeout:1 rotate\nsearch c\n"
    assert parse_resolv_conf(text) == ResolverSettings(
        ["192.0.2.1"], ["c"], {"timeout": "1", "rotate": ""}
    )
