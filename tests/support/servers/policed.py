"""A namespace under the policies of deploy/admission, and clients with chosen rights in it.

The policies apply to the whole cluster, so a module applies them only for its own tests.
"""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from framework.api import constants
from framework.kube.resources import Object
from tests.support.builders import build_framework_wire, build_role_wire
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkcrd import ROOT
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.servers.rights import apply_kustomization, run_kubectl, write_overlay
from tests.support.waiting import wait_until

ADMISSION = ROOT / "deploy" / "admission"
AGENTS = ROOT / "deploy" / "agents"
ACCOUNT = "frameworkbarrier"
OWN, OTHER = "gang-worker-0", "gang-worker-1"
ACKNOWLEDGED = constants.ACKNOWLEDGED_GENERATION_ANNOTATION
MERGE = "application/merge-patch+json"
FC = constants.FRAMEWORK_NAME
# Creates Pods for every user with a Deployment; it has its rights in every cluster.
WORKLOADS = "system:serviceaccount:kube-system:replicaset-controller"


class Policed(NamedTuple):
    """A namespace of a cluster with the policies; ``path`` is the path of its core objects."""

    admin: JsonHttp
    access: Access
    path: str

    @property
    def namespace(self) -> str:
        return self.path.rpartition("/")[2]

    def open_agent(
        self, pod: str = OWN, *, account: str = ACCOUNT, is_bound: bool = True
    ) -> JsonHttp:
        """Open a client with the token that the kubelet gets for a Pod."""
        token = self.create_token(pod, account=account, is_bound=is_bound)
        return JsonHttp(self.access.url, token, self.access.ca_file)

    def create_token(self, pod: str = OWN, *, account: str = ACCOUNT, is_bound: bool = True) -> str:
        """Create the token that the kubelet gets for a Pod."""
        spec: Object = {"expirationSeconds": 600}
        if is_bound:
            uid = self.read(pod)["metadata"]["uid"]
            spec["boundObjectRef"] = {"kind": "Pod", "apiVersion": "v1", "name": pod, "uid": uid}
        path = f"{self.path}/serviceaccounts/{account}/token"
        status, answer = self.admin.request("POST", path, {"spec": spec})
        assert status == 201, answer
        return str(answer["status"]["token"])

    def open_tenant(self, name: str, *rules: Object) -> JsonHttp:
        """Make a service account with only these rules of RBAC; open a client."""
        roles = self.path.replace("/api/v1", "/apis/rbac.authorization.k8s.io/v1")
        self.create("serviceaccounts", {"metadata": {"name": name}})
        create(self.admin, f"{roles}/roles", {"metadata": {"name": name}, "rules": list(rules)})
        subject = {"kind": "ServiceAccount", "name": name, "namespace": self.namespace}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        binding = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
        create(self.admin, f"{roles}/rolebindings", binding)
        return self.open_agent(account=name, is_bound=False)

    def create(self, plural: str, body: Object) -> Object:
        return create(self.admin, f"{self.path}/{plural}", body)

    def read(self, name: str, plural: str = "pods") -> Object:
        status, answer = self.admin.request("GET", f"{self.path}/{plural}/{name}")
        assert status == 200, answer
        found: Object = answer
        return found

    def patch(
        self, client: JsonHttp, name: str, body: Object, plural: str = "pods"
    ) -> tuple[int, Any]:
        return client.request("PATCH", f"{self.path}/{plural}/{name}", body, content_type=MERGE)


def annotate(**annotations: str | None) -> Object:
    return {"metadata": {"annotations": annotations}}


def acknowledge(generation: str = "7") -> Object:
    """Build an agent's own patch."""
    return annotate(**{ACKNOWLEDGED: generation})


def allow(verbs: str, resources: str, group: str = "") -> Object:
    return {"apiGroups": [group], "resources": resources.split(","), "verbs": verbs.split(",")}


def build_pod(name: str, *, account: str = ACCOUNT, framework: str | None = "gang") -> Object:
    """Build a Pod as the controller does, or one of no Framework."""
    metadata: Object = {"name": name, "labels": {"app": "training"}, "annotations": {"note": "a"}}
    if framework is not None:
        metadata["labels"][FC] = framework
        metadata["annotations"] |= {FC: framework, constants.POD_NAME: name}
    return {
        "metadata": metadata,
        "spec": {
            "serviceAccountName": account,
            "automountServiceAccountToken": False,
            "tolerations": [{"key": "a", "operator": "Exists"}],
            "containers": [{"name": "main", "image": "local/none:1"}],
        },
    }


def create(client: JsonHttp, path: str, body: Object) -> Object:
    status, answer = client.request("POST", path, body)
    assert status == 201, answer
    created: Object = answer
    return created


@contextmanager
def apply_policies(access: Access, *folders: Path) -> Iterator[None]:
    """Apply the policies of these folders to the whole cluster."""
    if access.kubectl is None:
        pytest.skip("needs kubectl: let make test-kube start the control plane")
    for folder in folders:
        apply_kustomization(access, folder)
    try:
        yield
    finally:
        for folder in folders:
            run_kubectl(access, "delete", "--ignore-not-found", "-k", str(folder))
        wait_until(lambda: not _is_any_in_force(access))


def _is_any_in_force(access: Access) -> bool:
    """Return whether a deleted policy is still active, as it is for a moment."""
    role = build_role_wire()
    role["task"]["pod"]["metadata"] = {"labels": {FC: "gang"}}
    framework = {**build_framework_wire(role), "metadata": {"name": "probe"}}
    said = create_as(access, "default", framework, None, "--dry-run=server")
    return "ValidatingAdmissionPolicy" in said or _denies_pod(access, "default")


def _denies_pod(access: Access, namespace: str) -> bool:
    """Return whether the policy of identities is active: a Pod of a gang is the controller's."""
    pod = {**build_pod("probe", account="default"), "apiVersion": "v1", "kind": "Pod"}
    said = create_as(access, namespace, pod, WORKLOADS, "--dry-run=server")
    return "ValidatingAdmissionPolicy" in said


def create_as(
    access: Access, namespace: str, body: Object, account: str | None, *options: str
) -> str:
    """Create an object as another account, or the administrator; return kubectl's output."""
    assert access.kubectl is not None
    words = ["create", "-f", "-", "-n", namespace, *options]
    if account is not None:
        words.append(f"--as={account}")
    done = subprocess.run(
        [access.kubectl, "--kubeconfig", access.kubeconfig, *words],
        input=json.dumps(body),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def open_policed(access: Access, http: JsonHttp, namespace: str, folder: Path) -> Policed:
    """Fill a namespace with two Pods of a gang, whose agents may acknowledge, and its ConfigMap."""
    for name in ("namespace", "drain"):
        apply_kustomization(access, write_overlay(folder / name, AGENTS / name, namespace))
    policed = Policed(http, access, f"/api/v1/namespaces/{namespace}")
    for pod in (OWN, OTHER):
        policed.create("pods", build_pod(pod))
    policed.create("configmaps", {"metadata": {"name": "gang-attempt", "labels": {FC: "gang"}}})
    # Roles and policies are active a moment after they are stored.
    agent = policed.open_agent()
    wait_until(lambda: policed.patch(agent, OWN, acknowledge("1"))[0] == 200)
    wait_until(lambda: policed.patch(agent, OTHER, acknowledge("1"))[0] == 403)
    wait_until(lambda: _denies_pod(access, namespace))
    return policed


@pytest.fixture(scope="module")
def policies(control_plane: Access, framework_crd: None) -> Iterator[None]:
    """The policies of deploy/admission, in the whole cluster."""
    with apply_policies(control_plane, ADMISSION):
        yield


@pytest.fixture
def policed(
    policies: None, control_plane: Access, http: JsonHttp, namespace: str, tmp_path: Path
) -> Policed:
    """A namespace with two Pods of a gang, whose agents may acknowledge."""
    return open_policed(control_plane, http, namespace, tmp_path)
