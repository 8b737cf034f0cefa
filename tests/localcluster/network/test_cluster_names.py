import pytest

from framework.kube.resources import Object
from localcluster.network.cluster_names import ClusterNames, Records, Target
from tests.localcluster.network.builders import build_names, build_pod, build_service


def find_addresses(names: ClusterNames, name: str) -> tuple[str, ...] | None:
    records = names.find(name)
    return None if records is None else records.addresses


A, B = build_pod("a", "10.0.0.2"), build_pod("b", "10.0.0.3")


def test_service_stands_for_its_pods() -> None:
    other = build_pod("c", "10.0.0.4", metadata={"labels": {"app": "other"}})
    elsewhere = build_pod("d", "10.0.0.5", metadata={"namespace": "elsewhere"})
    names = build_names(build_service(), A, B, other, elsewhere)
    assert find_addresses(names, "train.default.svc") == ("10.0.0.2", "10.0.0.3")
    assert find_addresses(names, "TRAIN.Default.svc") == ("10.0.0.2", "10.0.0.3")
    assert find_addresses(names, "train.elsewhere.svc") is None


@pytest.mark.parametrize(
    ("pod", "publishers"),
    [
        (build_pod("p", "10.0.0.9"), [False, True]),
        (build_pod("p", "10.0.0.9", is_ready=False), [True]),
        (build_pod("p", "10.0.0.9", metadata={"deletionTimestamp": "now"}), [True]),
        (build_pod("p", "10.0.0.9", status={"phase": "Succeeded"}), []),
        (build_pod("p", "", status={"podIP": None}), []),
    ],
)
def test_pod_is_published_when_ready_or_when_all_are(pod: Object, publishers: list[bool]) -> None:
    publishing = [
        of_all
        for of_all in (False, True)
        if find_addresses(
            build_names(build_service(publishNotReadyAddresses=of_all), pod), "train.default.svc"
        )
    ]
    assert publishing == publishers


def test_headless_service_without_pods_is_no_name_and_another_is_an_empty_one() -> None:
    assert build_names(build_service()).find("train.default.svc") is None
    names = build_names(build_service(clusterIP=""))
    assert names.find("train.default.svc") == Records()


def test_service_without_selector_stands_for_nobody() -> None:
    names = build_names(build_service(selector={}, clusterIP=""), A)
    assert find_addresses(names, "train.default.svc") == ()


def test_pod_has_a_name_below_the_service_that_is_its_subdomain() -> None:
    named = build_pod("c", "10.0.0.4", hostname="zero", subdomain="train")
    other = build_pod("d", "10.0.0.5", hostname="one", subdomain="other")
    names = build_names(build_service(), A, named, other)
    assert find_addresses(names, "zero.train.default.svc") == ("10.0.0.4",)
    assert find_addresses(names, "one.train.default.svc") is None
    assert find_addresses(names, "10-0-0-5.train.default.svc") == ("10.0.0.5",)
    assert find_addresses(names, "10-0-0-4.train.default.svc") is None
    assert find_addresses(names, "nobody.train.default.svc") is None
    assert find_addresses(names, "zero.nothing.default.svc") is None


def test_port_names_each_pod_with_the_port_it_listens_on() -> None:
    container = {"ports": [{"name": "grpc", "containerPort": 2222}]}
    named = build_pod("c", "10.0.0.4", hostname="zero", subdomain="train", containers=[container])
    ports = [
        {"name": "grpc", "port": 80, "targetPort": "grpc", "protocol": "TCP"},
        {"name": "logs", "port": 514, "protocol": "UDP"},
    ]
    names = build_names(build_service(ports=ports), named)
    host = "zero.train.default.svc.cluster.local"
    grpc, logs = Target(host, 2222, ("10.0.0.4",)), Target(host, 514, ("10.0.0.4",))
    assert names.find("_grpc._tcp.train.default.svc") == Records(targets=(grpc,))
    assert names.find("_logs._udp.train.default.svc") == Records(targets=(logs,))
    assert names.find("train.default.svc") == Records(("10.0.0.4",), (grpc, logs))
    assert names.find("_tcp.train.default.svc") == Records()
    assert names.find("_grpc._udp.train.default.svc") is None
    assert names.find("_x._tcp.train.default.svc") is None
    assert names.find("_sctp.train.default.svc") is None


@pytest.mark.parametrize("name", ["", "svc", "pod", "default.svc", "default.pod"])
def test_names_that_others_end_with_exist(name: str) -> None:
    assert build_names(build_service()).find(name) == Records()


@pytest.mark.parametrize("name", ["x", "nowhere.svc", "a.b.c", "x.default.pod", "a.nowhere.pod"])
def test_other_names_do_not_exist(name: str) -> None:
    assert build_names(build_service(), A).find(name) is None


def test_pod_address_has_a_name() -> None:
    assert find_addresses(build_names(build_service()), "10-0-0-7.default.pod") == ("10.0.0.7",)


def test_names_follow_changes() -> None:
    names = build_names(build_service(), A, B)
    names.remove_pod(A)
    assert find_addresses(names, "train.default.svc") == ("10.0.0.3",)
    names.set_pod(build_pod("b", "10.0.0.3", is_ready=False))
    assert names.find("train.default.svc") is None
    names.set_pod(B)
    names.apply("DELETED", build_service())
    assert names.find("train.default.svc") is None
    names.apply("ADDED", build_service("again"))
    assert find_addresses(names, "again.default.svc") == ("10.0.0.3",)
