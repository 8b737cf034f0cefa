"""The harness itself: what it starts is a real API server whose controllers work."""

import subprocess
from typing import Any

from tests.support.machine.prerequisites import skip_test
from tests.support.servers.controlplane import Access
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.waiting import wait_until


def create_configmap(http: JsonHttp, namespace: str, name: str, **metadata: Any) -> dict[str, Any]:
    body = {"metadata": {"name": name, **metadata}}
    status, answer = http.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", body)
    assert status == 201, answer
    created: dict[str, Any] = answer
    return created


def test_apiserver_without_token_refuses(control_plane: Access) -> None:
    stranger = JsonHttp(control_plane.url, "no-such-token", control_plane.ca_file)
    assert stranger.request("GET", "/api/v1/namespaces")[0] == 401


def test_kubectl_with_kubeconfig_reaches_the_server(control_plane: Access) -> None:
    if control_plane.kubectl is None:
        skip_test("kubectl not found: install it")
    done = subprocess.run(
        [
            control_plane.kubectl,
            "--kubeconfig",
            control_plane.kubeconfig,
            "get",
            "namespace",
            "default",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Active" in done.stdout


def test_garbage_collector_removes_what_a_deleted_owner_leaves(
    http: JsonHttp, namespace: str
) -> None:
    owner = create_configmap(http, namespace, "owner")
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
    }
    create_configmap(http, namespace, "owned", ownerReferences=[reference])
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    assert http.request("DELETE", f"{path}/owner")[0] == 200
    wait_until(lambda: http.request("GET", f"{path}/owned")[0] == 404)


def test_namespace_when_deleted_is_emptied_and_goes(http: JsonHttp, namespace: str) -> None:
    create_configmap(http, namespace, "content")
    path = f"/api/v1/namespaces/{namespace}"
    assert http.request("DELETE", path)[0] == 200
    wait_until(lambda: http.request("GET", path)[0] == 404)
