"""Pods: defaults, validation, what may change, binding and status; quantities."""

from typing import Any

import pytest

from localcluster.apiserver.model.errors import Object
from localcluster.apiserver.model.quantities import canonical_quantity
from localcluster.apiserver.storage import StatusError
from tests.localcluster.storage.worlds import NAMESPACE, World, pod


def test_new_pod_gets_the_defaults(world: World) -> None:
    body = pod(
        "p", container={"env": [{"name": "A", "value": ""}], "ports": [{"containerPort": 80}]}
    )
    body["spec"]["volumes"] = [{"name": "v"}, {"name": "c", "configMap": {"name": "m"}}]
    body["status"] = {"phase": "Running"}
    created = world.create("pods", body)
    spec = created["spec"]
    container = spec["containers"][0]
    assert created["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert created["metadata"]["generation"] == 1
    assert (spec["restartPolicy"], spec["dnsPolicy"]) == ("Always", "ClusterFirst")
    assert spec["terminationGracePeriodSeconds"] == 30
    assert (spec["schedulerName"], spec["enableServiceLinks"]) == ("default-scheduler", True)
    assert spec["serviceAccountName"] == "default"
    assert container["terminationMessagePath"] == "/dev/termination-log"
    assert container["terminationMessagePolicy"] == "File"
    assert container["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert container["env"] == [{"name": "A"}]
    assert spec["volumes"][0] == {"name": "v", "emptyDir": {}}
    assert spec["volumes"][1]["configMap"]["defaultMode"] == 0o644


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("a", "Always"),
        ("a:latest", "Always"),
        ("host:5000/a", "Always"),
        ("host:5000/a:1", "IfNotPresent"),
        ("a@sha256:00", "IfNotPresent"),
    ],
)
def test_pull_policy_follows_the_tag(world: World, image: str, policy: str) -> None:
    created = world.create("pods", pod("p", container={"image": image}))
    assert created["spec"]["containers"][0]["imagePullPolicy"] == policy


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        (
            {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
            "Burstable",
        ),
    ],
)
def test_quality_of_service_follows_the_resources(
    world: World, resources: Object, expected: str
) -> None:
    created = world.create("pods", pod("p", container={"resources": resources}))
    assert created["status"]["qosClass"] == expected


INVALID: list[Any] = [
    ({"containers": []}, "spec.containers", "Required value"),
    ({"container": {"name": "A"}}, "spec.containers[0].name", "RFC 1123 label"),
    ({"container": {"name": ""}}, "spec.containers[0].name", "Required value"),
    ({"container": {"image": ""}}, "spec.containers[0].image", "Required value"),
    (
        {"initContainers": [{"name": "main", "image": "i"}]},
        "spec.initContainers[0].name",
        "Duplicate",
    ),
    ({"restartPolicy": "Often"}, "spec.restartPolicy", '"Always", "OnFailure", "Never"'),
    ({"container": {"imagePullPolicy": "x"}}, "spec.containers[0].imagePullPolicy", "Unsupported"),
    ({"container": {"env": [{"name": "a=b"}]}}, "spec.containers[0].env[0].name", "printable"),
    ({"container": {"env": [{"name": ""}]}}, "spec.containers[0].env[0].name", "Required"),
    (
        {"container": {"env": [{"name": "a", "valueFrom": {}}]}},
        "spec.containers[0].env[0].valueFrom",
        "must specify one of",
    ),
    (
        {"container": {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}},
        "spec.containers[0].volumeMounts[0].name",
        'Not found: "v"',
    ),
    ({"volumes": [{"name": "v"}, {"name": "v"}]}, "spec.volumes[1].name", "Duplicate"),
    ({"volumes": [{"name": "v", "secret": {}}]}, "spec.volumes[0].secret.secretName", "Required"),
    (
        {"container": {"resources": {"limits": {"cpu": 1}, "requests": {"cpu": 2}}}},
        "spec.containers[0].resources.requests",
        "must be less than or equal to cpu limit of 1",
    ),
    (
        {"container": {"resources": {"limits": {"cpu": "-1"}}}},
        "limits[cpu]",
        "greater than or equal",
    ),
    ({"container": {"resources": {"limits": {"gpu": "1"}}}}, "limits[gpu]", "fully qualified"),
    ({"container": {"ports": [{"containerPort": 70000}]}}, "ports[0].containerPort", "65535"),
    (
        {"initContainers": [{"name": "i", "image": "i", "readinessProbe": {"exec": {}}}]},
        "spec.initContainers[0].readinessProbe",
        "may not be set for init containers without restartPolicy=Always",
    ),
    ({"hostname": "A"}, "spec.hostname", "RFC 1123 label"),
    ({"activeDeadlineSeconds": 0}, "spec.activeDeadlineSeconds", "between 1"),
]


@pytest.mark.parametrize(("spec", "path", "text"), INVALID, ids=[path for _, path, _ in INVALID])
def test_invalid_pod_is_unprocessable_and_says_where(
    world: World, spec: Object, path: str, text: str
) -> None:
    with pytest.raises(StatusError) as caught:
        world.create("pods", pod("p", **spec))
    assert (caught.value.code, caught.value.reason) == (422, "Invalid")
    assert caught.value.message.startswith('Pod "p" is invalid: ')
    faults = [cause for cause in caught.value.causes if cause.field.endswith(path)]
    assert faults, caught.value.message
    assert text in faults[0].message


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            {"container": {"image": 1}},
            "number into Go struct field Container.spec.containers.image",
        ),
        ({"containers": {}}, r"object into Go struct field PodSpec.spec.containers of type \[\]v1"),
        (
            {"hostNetwork": "yes"},
            "string into Go struct field PodSpec.spec.hostNetwork of type bool",
        ),
        ({"terminationGracePeriodSeconds": 1.5}, "number 1.5 into Go struct field"),
        ({"container": {"resources": {"limits": {"cpu": "abc"}}}}, "quantities must match"),
        ({"nodeSelector": {"a": 1}}, r"PodSpec.spec.nodeSelector of type string"),
    ],
)
def test_wrong_types_in_a_pod_are_bad_requests(world: World, spec: Object, text: str) -> None:
    with pytest.raises(StatusError, match=text) as caught:
        world.create("pods", pod("p", **spec))
    assert caught.value.code == 400
    assert 'Pod in version "v1" cannot be handled as a Pod: ' in caught.value.message


@pytest.mark.parametrize(
    ("change", "allowed"),
    [
        ({"containers": [{"name": "main", "image": "image:2"}]}, True),
        ({"activeDeadlineSeconds": 10}, True),
        ({"containers": [{"name": "main", "image": "image:1", "command": ["x"]}]}, False),
        (
            {"containers": [{"name": "b", "image": "b"}, {"name": "main", "image": "image:1"}]},
            False,
        ),
        ({"restartPolicy": "Never"}, False),
        ({"nodeName": "other"}, False),
        ({"terminationGracePeriodSeconds": 5}, False),
        ({"tolerations": []}, False),
    ],
)
def test_only_some_of_a_pods_spec_may_change(
    world: World, change: Object, *, allowed: bool
) -> None:
    world.create("pods", pod("p"))
    if allowed:
        assert world.merge("pods", "p", {"spec": change})["metadata"]["generation"] == 2
        return
    with pytest.raises(StatusError, match="Forbidden") as caught:
        world.merge("pods", "p", {"spec": change})
    assert caught.value.code == 422


def test_deadline_may_only_shrink(world: World) -> None:
    world.create("pods", pod("p", activeDeadlineSeconds=10))
    world.merge("pods", "p", {"spec": {"activeDeadlineSeconds": 5}})
    for worse in (6, None):
        with pytest.raises(StatusError):
            world.merge("pods", "p", {"spec": {"activeDeadlineSeconds": worse}})


def test_status_writes_touch_status_labels_and_annotations_only(world: World) -> None:
    world.create("pods", pod("p"))
    patch = {
        "metadata": {"annotations": {"a": "b"}, "ownerReferences": [{"uid": "x"}]},
        "spec": {"nodeName": "elsewhere"},
        "status": {"phase": "Running", "podIP": "10.0.0.1"},
    }
    updated = world.merge("pods", "p", patch, "status")
    assert updated["status"]["phase"] == "Running"
    assert updated["status"]["podIPs"] == [{"ip": "10.0.0.1"}]
    assert updated["status"]["qosClass"] == "BestEffort"
    assert updated["metadata"]["annotations"] == {"a": "b"}
    assert "ownerReferences" not in updated["metadata"]
    assert "nodeName" not in updated["spec"]
    assert updated["metadata"]["generation"] == 1


def ended(name: str, code: int) -> Object:
    return {"name": name, "state": {"terminated": {"exitCode": code}}}


def alive(name: str) -> Object:
    return {"name": name, "state": {"running": {}}}


@pytest.mark.parametrize(
    ("policy", "before", "after", "allowed"),
    [
        ("Never", ended("main", 1), alive("main"), False),
        ("OnFailure", ended("main", 1), alive("main"), True),
        ("OnFailure", ended("main", 0), alive("main"), False),
        ("Always", ended("main", 0), alive("main"), True),
        ("Never", alive("main"), ended("main", 0), True),
    ],
)
def test_ended_container_lives_again_only_by_its_restart_policy(
    world: World,
    policy: str,
    before: Object,
    after: Object,
    *,
    allowed: bool,
) -> None:
    world.create("pods", pod("p", restartPolicy=policy))
    world.merge("pods", "p", {"status": {"containerStatuses": [before]}}, "status")
    patch = {"status": {"containerStatuses": [after]}}
    if allowed:
        world.merge("pods", "p", patch, "status")
        return
    with pytest.raises(StatusError, match="may not be transitioned to non-terminated state"):
        world.merge("pods", "p", patch, "status")


@pytest.mark.parametrize(
    "addresses", [["no address"], ["10.0.0.1", "10.0.0.2"], ["10.0.0.1", "::1", "::2"]]
)
def test_bad_pod_addresses_are_invalid(world: World, addresses: list[str]) -> None:
    world.create("pods", pod("p"))
    status = {"podIPs": [{"ip": address} for address in addresses]}
    with pytest.raises(StatusError, match=r"status\.podIPs") as caught:
        world.merge("pods", "p", {"status": status}, "status")
    assert caught.value.code == 422


def test_dual_stack_addresses_are_kept(world: World) -> None:
    world.create("pods", pod("p"))
    status = {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "2001:db8::1"}]}
    updated = world.merge("pods", "p", {"status": status}, "status")
    assert updated["status"]["podIP"] == "10.0.0.1"


def test_writes_of_the_pod_ignore_status(world: World) -> None:
    world.create("pods", pod("p"))
    before = world.storage.resource_version
    world.merge("pods", "p", {"status": {"phase": "Failed"}})
    assert world.get("pods", "p")["status"]["phase"] == "Pending"
    assert world.storage.resource_version == before


def test_binding_assigns_a_node_once(world: World) -> None:
    world.create("pods", pod("p"))
    world.bind("p", "one")
    bound = world.get("pods", "p")
    assert bound["spec"]["nodeName"] == "one"
    assert [c["type"] for c in bound["status"]["conditions"]] == ["PodScheduled"]
    with pytest.raises(StatusError, match='already assigned to node "one"') as caught:
        world.bind("p", "two")
    assert caught.value.code == 409


def test_unknown_subresource_is_not_allowed(world: World) -> None:
    world.create("pods", pod("p"))
    with pytest.raises(StatusError) as caught:
        world.storage.create_subresource(world.type("pods"), NAMESPACE, "p", "exec", {})
    assert caught.value.code == 405


def test_priority_class_sets_the_priority(world: World) -> None:
    rt = world.type("priorityclasses")
    world.storage.create(rt, None, {"metadata": {"name": "high"}, "value": 7})
    created = world.create("pods", pod("p", priorityClassName="high"))
    assert created["spec"]["priority"] == 7
    with pytest.raises(StatusError, match="no PriorityClass with name none") as caught:
        world.create("pods", pod("q", priorityClassName="none"))
    assert caught.value.code == 403


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ("1", "1"),
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1e3", "1e3"),
        ("2000", "2k"),
        ("0", "0"),
        ("0Mi", "0"),
        ("-1", "-1"),
        ("100", "100"),
        ("1E", "1E"),
        ("512", "512"),
        ("0.5Gi", "512Mi"),
    ],
)
def test_quantities_come_back_in_canonical_form(given: str, canonical: str) -> None:
    assert canonical_quantity(given) == canonical


@pytest.mark.parametrize("text", ["", "abc", "1 Gi", "1X", "1Gii", "--1", "1e", "e3", "."])
def test_malformed_quantity_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="quantities must match"):
        canonical_quantity(text)
