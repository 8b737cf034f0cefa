import base64
from typing import Any

import pytest

from framework.kube.resources import CONFIGMAPS, SECRETS, Object
from localcluster.kubelet.environment import (
    Sources,
    build_environment,
    list_env_references,
    read_entries,
)
from localcluster.kubelet.fields import FieldError, PodFacts, resolve_field, resolve_resource

CONFIGMAP = {"data": {"lr": "0.1", "path": "/data"}, "binaryData": {"raw": "/w=="}}
SECRET = {"data": {"password": base64.b64encode(b"pw").decode()}}
SOURCES: Sources = {(CONFIGMAPS, "conf"): CONFIGMAP, (SECRETS, "key"): SECRET}
CLUSTER = {"KUBERNETES_SERVICE_PORT": "6443"}


def build_facts(container: Object) -> PodFacts:
    pod = {
        "metadata": {
            "name": "p",
            "namespace": "ns",
            "uid": "u-1",
            "labels": {"role": "worker", "a/b": 'q"'},
            "annotations": {"x": "y"},
        },
        "spec": {"containers": [container], "serviceAccountName": "trainer"},
    }
    return PodFacts(pod, "local", "127.0.0.1", ("127.64.0.1", "::2"), {"cpu": "2"})


def build(env: list[Object], **fields: Any) -> dict[str, str]:
    container = {"name": "main", "env": env, **fields}
    return build_environment(container, build_facts(container), SOURCES, CLUSTER)


def test_environment_values_expand_earlier_variables() -> None:
    values = {"A": "$(KUBERNETES_SERVICE_PORT)", "B": "$(A)/$(C)", "C": "late"}
    env = [*({"name": name, "value": value} for name, value in values.items()), {"name": "D"}]
    assert build(env) == {**CLUSTER, "A": "6443", "B": "6443/$(C)", "C": "late", "D": ""}


def test_environment_env_from_is_prefixed_and_env_wins() -> None:
    env = build(
        [{"name": "C_lr", "value": "1"}, {"name": "E", "value": "$(C_path)"}],
        envFrom=[
            {"prefix": "C_", "configMapRef": {"name": "conf"}},
            {"secretRef": {"name": "key"}},
        ],
    )
    assert env["C_lr"] == "1"
    assert env["E"] == "/data"
    assert env["password"] == "pw"
    assert env["C_raw"].encode("utf-8", "surrogateescape") == b"\xff"


def test_environment_value_from_reads_keys_and_fields() -> None:
    sources: Object = {
        "UID": {"fieldRef": {"fieldPath": "metadata.uid"}},
        "LR": {"configMapKeyRef": {"name": "conf", "key": "lr"}},
        "PW": {"secretKeyRef": {"name": "key", "key": "password"}},
        "NONE": {"secretKeyRef": {"name": "key", "key": "no", "optional": True}},
        "CPU": {"resourceFieldRef": {"resource": "limits.cpu"}},
    }
    env = build([{"name": name, "valueFrom": source} for name, source in sources.items()])
    assert env == {**CLUSTER, "UID": "u-1", "LR": "0.1", "PW": "pw", "CPU": "2"}


@pytest.mark.parametrize(
    ("value_from", "message"),
    [
        ({"configMapKeyRef": {"name": "no", "key": "k"}}, 'configmap "no" not found'),
        (
            {"configMapKeyRef": {"name": "conf", "key": "no"}},
            "couldn't find key no in ConfigMap ns/conf",
        ),
        ({"fieldRef": {"fieldPath": "spec.priority"}}, "unsupported fieldPath: spec.priority"),
        ({"fileKeyRef": {}}, "unsupported valueFrom: fileKeyRef"),
    ],
)
def test_environment_missing_source_raises_with_its_name(value_from: Object, message: str) -> None:
    with pytest.raises(FieldError, match=message):
        build([{"name": "A", "valueFrom": value_from}])


def test_read_entries_missing_optional_object_is_empty() -> None:
    assert read_entries(SOURCES, CONFIGMAPS, {"name": "no", "optional": True}) == {}


def test_list_env_references_container_names_every_object() -> None:
    secret = {"name": "B", "valueFrom": {"secretKeyRef": {"name": "b", "key": "k"}}}
    env = [{"name": "A", "value": "x"}, secret]
    container = {"name": "main", "envFrom": [{"configMapRef": {"name": "a"}}], "env": env}
    assert list_env_references(container) == {(CONFIGMAPS, "a"), (SECRETS, "b")}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.name", "p"),
        ("metadata.namespace", "ns"),
        ("metadata.labels['role']", "worker"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['x']", "y"),
        ("metadata.labels", 'a/b="q\\""\nrole="worker"'),
        ("spec.nodeName", "local"),
        ("spec.serviceAccountName", "trainer"),
        ("status.podIP", "127.64.0.1"),
        ("status.podIPs", "127.64.0.1,::2"),
        ("status.hostIP", "127.0.0.1"),
    ],
)
def test_resolve_field_path_returns_the_pods_value(path: str, expected: str) -> None:
    assert resolve_field(build_facts({"name": "main"}), path) == expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({"resource": "limits.memory"}, "1610612736"),
        ({"resource": "limits.memory", "divisor": "1Gi"}, "2"),
        ({"resource": "requests.cpu"}, "1"),
        ({"resource": "requests.cpu", "divisor": "1m"}, "500"),
        ({"resource": "limits.cpu", "divisor": "0"}, "2"),
        ({"resource": "requests.memory"}, "0"),
    ],
)
def test_resolve_resource_rounds_up_to_the_divisor(selector: Object, expected: str) -> None:
    resources = {"limits": {"memory": "1.5Gi"}, "requests": {"cpu": "500m"}}
    container = {"name": "main", "resources": resources}
    assert resolve_resource(build_facts(container), selector, container) == expected


def test_resolve_resource_unknown_container_raises() -> None:
    selector = {"resource": "limits.cpu", "containerName": "other"}
    with pytest.raises(FieldError, match="container other not found"):
        resolve_resource(build_facts({"name": "main"}), selector, None)
