import pytest

from framework.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    FRAMEWORKS,
    LEASES,
    NODES,
    PODS,
    Resource,
)
from tests.support.builders.cases import cases

POD = "/api/v1/namespaces/a/pods"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@cases(
    "resource arguments path",
    {
        "all namespaces": (PODS, (), "/api/v1/pods"),
        "collection": (PODS, ("a",), POD),
        "object": (PODS, ("a", "b"), f"{POD}/b"),
        "subresource": (PODS, ("a", "b", "status"), f"{POD}/b/status"),
        "group": (
            FRAMEWORKS,
            ("a", "b"),
            "/apis/frameworkcontroller.microsoft.com/v1/namespaces/a/frameworks/b",
        ),
        "lease": (LEASES, ("a", "b"), "/apis/coordination.k8s.io/v1/namespaces/a/leases/b"),
        "cluster-scoped": (NODES, (None, "n"), "/api/v1/nodes/n"),
        "dots": (CUSTOM_RESOURCE_DEFINITIONS, (None, "a.b"), f"{CRDS}/a.b"),
        "quoted slash": (PODS, ("a", "b/../c"), f"{POD}/b%2F..%2Fc"),
    },
)
def test_path_of_resource_is_that_of_the_api(
    resource: Resource, arguments: tuple[str | None, ...], path: str
) -> None:
    assert resource.path(*arguments) == path


@cases(
    "resource arguments",
    {
        "empty name, the path of the collection": (PODS, ("a", "")),
        "empty namespace": (PODS, ("", "b")),
        "dot dot": (PODS, ("a", "..")),
        "name without namespace": (PODS, (None, "b")),
        "namespace of a cluster-scoped resource": (NODES, ("a", "b")),
        "subresource without name": (PODS, ("a", None, "status")),
    },
)
def test_path_of_another_resource_is_never_built(
    resource: Resource, arguments: tuple[str | None, ...]
) -> None:
    with pytest.raises(ValueError, match=r".+"):
        resource.path(*arguments)


def test_api_version_of_core_has_no_group() -> None:
    assert PODS.api_version == "v1"
    assert LEASES.api_version == "coordination.k8s.io/v1"
