import pytest

from framework.kube.resources import Object
from tests.localcluster.network.builders import build_names, build_pod, build_service

A, B = build_pod("a", "10.0.0.2"), build_pod("b", "10.0.0.3")
OF_A, OF_B = ("10.0.0.2",), ("10.0.0.3",)
NAME = "train.default.svc"
HEADLESS = build_service()
ALL_PODS = build_service(publishNotReadyAddresses=True)
BALANCED = build_service(clusterIP="")


def test_service_has_the_addresses_of_its_pods() -> None:
    other = build_pod("c", "10.0.0.4", metadata={"labels": {"app": "other"}})
    elsewhere = build_pod("d", "10.0.0.5", metadata={"namespace": "elsewhere"})
    names = build_names(HEADLESS, A, B, other, elsewhere)
    assert names.find(NAME) == names.find("TRAIN.Default.svc") == ("10.0.0.2", "10.0.0.3")
    assert names.find("train.elsewhere.svc") is None


@pytest.mark.parametrize(
    ("pod", "publishers"),
    [
        (A, [HEADLESS, ALL_PODS]),
        (build_pod("a", "10.0.0.2", is_ready=False), [ALL_PODS]),
        (build_pod("a", "10.0.0.2", metadata={"deletionTimestamp": "now"}), [ALL_PODS]),
        (build_pod("a", "10.0.0.2", status={"phase": "Succeeded"}), []),
        (build_pod("a", "", status={"podIP": None}), []),
    ],
    ids=["ready", "unready", "deleted", "ended", "without an address"],
)
def test_pod_is_published_when_ready_or_when_all_are(pod: Object, publishers: list[Object]) -> None:
    for service in (HEADLESS, ALL_PODS):
        expected = OF_A if service in publishers else None
        assert build_names(service, pod).find(NAME) == expected


def test_service_without_pods_has_a_name_only_if_it_is_not_headless() -> None:
    assert build_names(HEADLESS).find(NAME) is None
    assert build_names(BALANCED).find(NAME) == ()
    assert build_names(build_service(selector={}, clusterIP=""), A).find(NAME) == ()


def test_pod_has_a_name_below_the_service_that_is_its_subdomain() -> None:
    named = build_pod("c", "10.0.0.4", hostname="zero", subdomain="train")
    other = build_pod("d", "10.0.0.5", hostname="one", subdomain="other")
    names = build_names(HEADLESS, A, named, other)
    assert names.find(f"zero.{NAME}") == ("10.0.0.4",)
    assert names.find(f"10-0-0-5.{NAME}") == ("10.0.0.5",)
    for unknown in (f"one.{NAME}", f"10-0-0-4.{NAME}", f"two.{NAME}", "zero.nothing.default.svc"):
        assert names.find(unknown) is None


def test_only_these_other_names_exist() -> None:
    names = build_names(HEADLESS, A)
    for suffix in ("", "svc", "default.svc"):
        assert names.find(suffix) == ()
    for unknown in ("x", "nowhere.svc", "a.b.c", "pod", "10-0-0-2.default.pod", f"_a._tcp.{NAME}"):
        assert names.find(unknown) is None


def test_names_follow_changes() -> None:
    names = build_names(HEADLESS, A, B)
    names.remove_pod(A)
    assert names.find(NAME) == OF_B
    names.set_pod(build_pod("b", "10.0.0.3", is_ready=False))
    assert names.find(NAME) is None
    names.set_pod(B)
    names.apply("DELETED", HEADLESS)
    assert names.find(NAME) is None
    names.apply("ADDED", build_service("again"))
    assert names.find("again.default.svc") == OF_B
