"""framework.kube.resources: paths, and the requests that a wrong path would turn into."""

import pytest

from framework.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    FRAMEWORKS,
    LEASES,
    NODES,
    PODS,
    Resource,
)


@pytest.mark.parametrize(
    ("resource", "arguments", "path"),
    [
        pytest.param(PODS, (), "/api/v1/pods", id="all-namespaces"),
        pytest.param(PODS, ("a",), "/api/v1/namespaces/a/pods", id="collection"),
        pytest.param(PODS, ("a", "b"), "/api/v1/namespaces/a/pods/b", id="object"),
        pytest.param(
            PODS, ("a", "b", "status"), "/api/v1/namespaces/a/pods/b/status", id="subresource"
        ),
        pytest.param(
            FRAMEWORKS,
            ("a", "b"),
            "/apis/frameworkcontroller.microsoft.com/v1/namespaces/a/frameworks/b",
            id="group",
        ),
        pytest.param(
            LEASES,
            ("a", "b"),
            "/apis/coordination.k8s.io/v1/namespaces/a/leases/b",
            id="coordination",
        ),
        pytest.param(NODES, (None, "n"), "/api/v1/nodes/n", id="cluster-scoped"),
        pytest.param(
            CUSTOM_RESOURCE_DEFINITIONS,
            (None, "frameworks.x.y"),
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/frameworks.x.y",
            id="dots",
        ),
        pytest.param(
            PODS, ("a", "b/../c"), "/api/v1/namespaces/a/pods/b%2F..%2Fc", id="slash-quoted"
        ),
    ],
)
def test_path_of_resource_is_that_of_the_api(
    resource: Resource, arguments: tuple[str | None, ...], path: str
) -> None:
    assert resource.path(*arguments) == path


@pytest.mark.parametrize(
    ("resource", "arguments"),
    [
        pytest.param(PODS, ("a", ""), id="empty-name-would-be-the-collection"),
        pytest.param(PODS, ("", "b"), id="empty-namespace"),
        pytest.param(PODS, ("a", ".."), id="dot-dot"),
        pytest.param(PODS, (None, "b"), id="name-without-namespace"),
        pytest.param(NODES, ("a", "b"), id="namespace-of-cluster-scoped"),
        pytest.param(PODS, ("a", None, "status"), id="subresource-without-name"),
    ],
)
def test_path_that_would_mean_something_else_raises(
    resource: Resource, arguments: tuple[str | None, ...]
) -> None:
    with pytest.raises(ValueError, match=r".+"):
        resource.path(*arguments)


def test_api_version_of_core_has_no_group() -> None:
    assert PODS.api_version == "v1"
    assert LEASES.api_version == "coordination.k8s.io/v1"
