"""deploy/tenants on a real API server: what the Frameworks of a tenant may ask for."""

import copy
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from cli.authoring.injection import InjectionOptions, Rendezvous, inject
from controller.core.objects.object_templates import build_pod
from framework.api import constants
from framework.api.codec import decode_framework
from framework.api.naming import TaskKey
from framework.kube.resources import Object
from rendezvous.settings.options import BY_ANNOTATION
from tests.support.builders import (
    build_framework,
    build_role_status,
    build_role_wire,
    build_status,
    build_submission,
)
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkcrd import ROOT
from tests.support.servers.frameworkserver import start_controller
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.servers.policed import Policed, allow, apply_policies, create
from tests.support.servers.rights import apply_kustomization
from tests.support.waiting import wait_until

TENANTS = ROOT / "deploy" / "tenants"
MERGE = "application/merge-patch+json"
BASE, STRICT = TENANTS / "base", TENANTS / "strict"
LISTS = ("containers", "initContainers", "ephemeralContainers")
SETTINGS = {
    constants.WRAPPER_ANNOTATION,
    constants.IN_PLACE_ANNOTATION,
    constants.RETRYABLE_CODES_ANNOTATION,
    *(constants.ANNOTATION_PREFIX + word for word in BY_ANNOTATION),
}
EXAMPLES = sorted((ROOT / "examples").rglob("*.yaml"))


def read_variables() -> dict[str, str]:
    """Read the variables of the policy, by name."""
    documents = yaml.safe_load_all((BASE / "policy.yaml").read_text(encoding="utf-8"))
    policy: Object = next(documents)
    return {entry["name"]: entry["expression"] for entry in policy["spec"]["variables"]}


def test_policy_has_the_bounds_of_the_crd_and_the_settings_of_agents() -> None:
    variables = read_variables()
    assert next(iter(variables)) == "bounds"  # set_bounds replaces the first one
    bounds = {"maxTaskRoles": constants.MAX_TASK_ROLES, "maxTasks": constants.MAX_TASKS}
    assert json.loads(variables["bounds"].replace("'", '"')) == bounds
    assert set(json.loads(variables["settings"].replace("'", '"'))) == SETTINGS


class Tenant(NamedTuple):
    """A namespace whose tenant may write Frameworks and nothing else."""

    http: JsonHttp
    admin: JsonHttp
    namespace: str

    @property
    def path(self) -> str:
        return f"/apis/{constants.API_VERSION}/namespaces/{self.namespace}/frameworks"

    def submit(self, body: Object) -> tuple[int, Any]:
        """Ask whether a Framework would be accepted."""
        return self.http.request("POST", f"{self.path}?dryRun=All", body)

    def create(self, body: Object) -> Object:
        return create(self.http, self.path, body)

    def patch(self, name: str, body: Object) -> int:
        return self.http.request("PATCH", f"{self.path}/{name}", body, content_type=MERGE)[0]

    def find_denial(self, body: Object) -> str:
        """Return the policy's message; "" if the Framework is accepted."""
        status, answer = self.submit(body)
        if status == 201:
            return ""
        message: str = answer["message"]
        assert (status, "frameworkbarrier-tenants" in message) == (403, True), answer
        return message


def set_bounds(access: Access, folder: Path, tasks: int, roles: int) -> None:
    """Set lower numbers as an administrator does: in an overlay."""
    folder.mkdir()
    expression = f"{{'maxTaskRoles': {roles}, 'maxTasks': {tasks}}}"
    change = [{"op": "replace", "path": "/spec/variables/0/expression", "value": expression}]
    target = {"kind": "ValidatingAdmissionPolicy", "name": "frameworkbarrier-tenants"}
    content = {
        "resources": [os.path.relpath(BASE, folder)],
        "patches": [{"target": target, "patch": json.dumps(change)}],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(content))
    apply_kustomization(access, folder)


@pytest.fixture(scope="module")
def policies(control_plane: Access, framework_crd: None) -> Iterator[None]:
    with apply_policies(control_plane, BASE):
        yield


@pytest.fixture
def tenant(policies: None, control_plane: Access, http: JsonHttp, namespace: str) -> Tenant:
    """A tenant under the numbers of deploy/tenants/base."""
    apply_kustomization(control_plane, BASE)
    policed = Policed(http, control_plane, f"/api/v1/namespaces/{namespace}")
    rights = allow("get,create,update,patch", "frameworks", constants.GROUP)
    tenant = Tenant(policed.open_tenant("tenant", rights), http, namespace)
    # An earlier test may have left other bounds.
    host = gang_of({"hostNetwork": True})
    claim = gang_of({}, {"labels": {constants.FRAMEWORK_NAME: "gang"}})
    large = gang(*(build_role_wire(name, 1_000) for name in ("a", "b", "c")))
    wait_until(lambda: tenant.submit(host)[0] == tenant.submit(large)[0] == 201)
    wait_until(lambda: tenant.submit(claim)[0] == 403)
    return tenant


@pytest.fixture
def strict(tenant: Tenant, control_plane: Access) -> Tenant:
    """The same tenant under deploy/tenants/strict."""
    apply_kustomization(control_plane, STRICT)
    wait_until(lambda: tenant.find_denial(gang_of({"hostNetwork": True})) != "")
    return tenant


def gang(*roles: Object) -> Object:
    """Build a Framework of these roles."""
    return build_submission("gang", *roles)


def gang_of(
    spec: Object, metadata: Any = None, role: str = "worker", pod: Object | None = None
) -> Object:
    """Build a Framework whose Pod template, and its spec, have these fields besides."""
    wire = build_role_wire(role)
    template = wire["task"]["pod"]
    template["spec"] |= copy.deepcopy(spec)
    if metadata is not None:
        template["metadata"] = metadata
    template |= pod or {}
    return gang(wire)


def in_container(fields: Object, field: str = "containers") -> Object:
    """Build a Pod's spec with a container that has these fields, after an ordinary one."""
    return {field: [{"name": "plain", "image": "a"}, {"name": "odd", "image": "a", **fields}]}


@pytest.mark.kube
def test_administrator_sets_lower_numbers(
    tenant: Tenant, control_plane: Access, tmp_path: Path
) -> None:
    set_bounds(control_plane, tmp_path / "overlay", tasks=100, roles=2)
    wait_until(lambda: tenant.find_denial(gang(build_role_wire(number=101))) != "")
    assert "at most 100 are" in tenant.find_denial(gang(build_role_wire(number=101)))
    assert tenant.find_denial(gang(build_role_wire(number=100))) == ""
    roles = [build_role_wire(name, 1) for name in ("a", "b", "c")]
    assert "3 roles, and at most 2" in tenant.find_denial(gang(*roles))


@pytest.mark.kube
def test_existing_framework_is_stopped_and_labelled_under_lower_numbers(
    tenant: Tenant, control_plane: Access, tmp_path: Path
) -> None:
    tenant.create(build_submission("existing", build_role_wire(number=10)))
    set_bounds(control_plane, tmp_path / "overlay", tasks=5, roles=64)
    wait_until(lambda: tenant.find_denial(gang(build_role_wire(number=10))) != "")
    for body, status in (
        ({"metadata": {"labels": {"a": "b"}}}, 200),
        ({"spec": {"executionType": "Stop"}}, 200),
        ({"spec": {"taskRoles": [build_role_wire(number=11)]}}, 403),
        ({"spec": {"taskRoles": [build_role_wire(number=5)]}}, 200),
    ):
        assert tenant.patch("existing", body) == status, body


@pytest.mark.kube
def test_framework_without_spec_is_checked_by_the_crd_alone_until_it_gets_roles(
    tenant: Tenant,
) -> None:
    empty: Object = {**gang(), "metadata": {"name": "empty"}}
    del empty["spec"]
    status, answer = tenant.submit({**empty, "spec": "none"})
    assert (status, "spec in body must be of type object" in answer["message"]) == (422, True)
    assert "spec" not in tenant.create(empty)
    path = f"{tenant.path}/empty"
    claim = gang_of({}, {"labels": {constants.FRAMEWORK_NAME: "gang"}})["spec"]
    for body, status in (
        ({"metadata": {"labels": {"a": "b"}}}, 200),
        ({"spec": claim}, 403),
        ({"spec": gang_of({}, {})["spec"]}, 200),
        # A write that removes the spec removes no rule with it.
        ({"spec": None}, 200),
        ({"metadata": {"finalizers": ["a.example/b"]}}, 200),
    ):
        assert tenant.patch("empty", body) == status, body
    assert tenant.admin.request("DELETE", path)[0] == 200
    assert tenant.patch("empty", {"metadata": {"finalizers": None}}) == 200
    assert tenant.admin.request("GET", path)[0] == 404


@pytest.mark.kube
@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_template_claims_no_identity(tenant: Tenant, field: str) -> None:
    for key in (
        constants.FRAMEWORK_NAME,
        constants.CONFIGMAP_UID,
        "FC_",
        constants.GENERATION_ANNOTATION,
        constants.ACKNOWLEDGED_GENERATION_ANNOTATION,
        f"{constants.ANNOTATION_PREFIX}unknown",
        "{{FC_FRAMEWORK_NAME}}.io/generation",
    ):
        denial = tenant.find_denial(gang_of({}, {field: {"app": "a", key: "1"}}))
        assert "task.pod" in denial, (field, key)
    is_setting = tenant.find_denial(gang_of({}, {field: dict.fromkeys(SETTINGS, "1")}))
    assert (is_setting == "") == (field == "annotations")


@pytest.mark.kube
def test_template_names_no_owner(tenant: Tenant) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "other-attempt", "uid": "a"}
    assert "ownerReferences" in tenant.find_denial(gang_of({}, {"ownerReferences": [owner]}))
    assert tenant.find_denial(gang_of({}, {"ownerReferences": []})) == ""


CAPABLE = {"capabilities": {"add": ["SYS_PTRACE"]}}
PORT = {"containerPort": 80, "hostPort": 80}
HOST_VOLUME = {"name": "host", "hostPath": {"path": "/"}}
FORBIDDEN: list[tuple[str, Object]] = [
    ("hostPath", {"volumes": [{"name": "a", "emptyDir": {}}, HOST_VOLUME]}),
    ("hostPath", {"volumes": [None, HOST_VOLUME]}),
    ("hostPath", {"volumes": [{"name": "host", "hostPath": {}}]}),
    *(("hostNetwork, hostPID", {name: True}) for name in ("hostNetwork", "hostPID", "hostIPC")),
    ("hostProcess", {"securityContext": {"windowsOptions": {"hostProcess": True}}}),
    ("serviceAccountName", {"serviceAccountName": "admin"}),
    ("serviceAccountName", {"serviceAccount": "admin"}),
    ("serviceAccountName", {"serviceAccountName": "frameworkbarrier", "serviceAccount": "admin"}),
    ("serviceAccountName", {"serviceAccountName": "{{FC_FRAMEWORK_NAME}}"}),
    ("serviceAccountName", {"serviceAccountName": "frameworkbarrie{{FC_TASKROLE_NAME}}"}),
    *(
        (message, in_container(fields, field))
        for field in LISTS
        for message, fields in (
            ("privileged", {"securityContext": {"privileged": True}}),
            ("hostProcess", {"securityContext": {"windowsOptions": {"hostProcess": True}}}),
            ("hostPort", {"ports": [{"containerPort": 1}, PORT]}),
            ("capabilities", {"securityContext": CAPABLE}),
        )
    ),
]


@pytest.mark.kube
def test_template_with_access_to_its_node_is_denied_by_strict(strict: Tenant) -> None:
    for message, spec in FORBIDDEN:
        assert message in strict.find_denial(gang_of(spec)), spec
        in_second_role = gang_of(spec)
        in_second_role["spec"]["taskRoles"].insert(0, build_role_wire("first"))
        assert message in strict.find_denial(in_second_role), spec


@pytest.mark.kube
def test_template_with_access_to_its_node_is_accepted_by_default(tenant: Tenant) -> None:
    for _, spec in FORBIDDEN:
        assert tenant.find_denial(gang_of(spec)) == "", spec


def list_hidden() -> Iterator[Object]:
    """List templates in which a placeholder would become a forbidden key; roles name the key."""
    key = "{{FC_TASKROLE_NAME}}"
    half = "{{FC_FRAMEWORK_NAME}}"
    yield gang_of({}, {key: {constants.GENERATION_ANNOTATION: "1"}}, "annotations")
    yield gang_of({}, None, "spec", {key: {"hostNetwork": True}})
    yield gang_of({key: [HOST_VOLUME]}, None, "volumes")
    yield gang_of({"volumes": [{"name": "host", f"{half}Path": {"path": "/"}}]})
    yield gang_of({f"{half}Network": True})
    yield gang_of({"securityContext": {"windowsOptions": {f"{half}Process": True}}})
    yield gang_of({"securityContext": {f"{half}Options": {"hostProcess": True}}})
    for field in LISTS:
        for role, fields in (
            ("privileged", {"securityContext": {key: True}}),
            ("capabilities", {"securityContext": {key: {"add": ["SYS_PTRACE"]}}}),
            ("add", {"securityContext": {"capabilities": {key: ["SYS_PTRACE"]}}}),
            ("ports", {key: [PORT]}),
            ("worker", {"ports": [{"containerPort": 80, f"{half}Port": 80}]}),
            ("worker", {f"{half}Context": {"privileged": True}}),
        ):
            yield gang_of(in_container(fields, field), None, role)


@pytest.mark.kube
def test_placeholder_hides_no_forbidden_key(strict: Tenant) -> None:
    """The controller replaces placeholders in keys too, and names are chosen by the author."""
    for body in list_hidden():
        assert "placeholder" in strict.find_denial(body), body


# Values where a map, a list, a flag or a number belongs.
ODD: list[Any] = [None, {}, [], "", "true", "{{FC_TASK_INDEX}}", 0, 1, True, [None], [[]], {"a": 1}]


def list_odd() -> Iterator[Object]:
    """List templates with a part of another type than Kubernetes wants."""
    for odd in ODD:
        yield gang_of({}, odd)
        yield gang_of({}, {"labels": odd, "annotations": odd, "ownerReferences": odd})
        yield gang_of({}, pod={"spec": odd})
        for field in ("volumes", "securityContext", "hostNetwork", "hostPID", "serviceAccountName"):
            yield gang_of({field: odd})
        yield gang_of({"volumes": [{"name": "a", "hostPath": odd}, odd]})
        yield gang_of({"securityContext": {"windowsOptions": odd}})
        for field in LISTS:
            yield gang_of({field: odd})
            yield gang_of({field: [odd]})
            for fields in (
                {"ports": odd},
                {"ports": [odd]},
                {"ports": [{"containerPort": 80, "hostPort": odd}]},
                {"securityContext": odd},
                {"securityContext": {"privileged": odd, "windowsOptions": odd}},
                {"securityContext": {"capabilities": odd}},
                {"securityContext": {"capabilities": {"add": odd}}},
                {"securityContext": {"capabilities": {"add": [odd]}}},
            ):
                yield gang_of(in_container(fields, field))


def list_node_access(pod: Object) -> list[str]:
    """List the fields of a stored Pod that give access to its node."""
    spec = pod["spec"]
    found = [name for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    found += ["hostPath" for volume in spec.get("volumes", []) if "hostPath" in volume]
    for field in LISTS:
        for container in spec.get(field, []):
            context = container.get("securityContext", {})
            found += ["privileged"] * bool(context.get("privileged"))
            found += ["capabilities"] * bool(context.get("capabilities", {}).get("add"))
            found += ["hostPort" for port in container.get("ports", []) if port.get("hostPort")]
    return found


@pytest.mark.kube
def test_no_odd_template_makes_a_pod_with_access_to_its_node(strict: Tenant) -> None:
    """The Pod of a template that the policy accepts has no such access, or is refused."""
    pods = f"/api/v1/namespaces/{strict.namespace}/pods?dryRun=All"
    taken = accepted = 0
    for body in list_odd():
        status, answer = strict.submit(body)
        assert status in {201, 403, 422, 400}, answer
        if status == 201:
            taken += 1
            framework = build_framework(
                decode_framework(answer).spec,
                build_status(build_role_status("worker")),
                namespace=strict.namespace,
            )
            wire = build_pod(framework, TaskKey("worker", 0))
            status, pod = strict.admin.request("POST", pods, wire)
            if status == 201:
                accepted += 1
                assert list_node_access(pod) == [], body
    assert taken > 100
    assert accepted > 20


@pytest.mark.kube
def test_account_of_agents_is_accepted_with_a_placeholder(strict: Tenant) -> None:
    name = "frameworkbarrier"
    for account in (None, "", "default", name, f"{name}-a", name + "-{{FC_FRAMEWORK_NAME}}"):
        assert strict.find_denial(gang_of({"serviceAccountName": account})) == "", account


@pytest.mark.kube
def test_examples_with_their_agents_are_accepted(tenant: Tenant) -> None:
    documents = [
        (path, document)
        for path in EXAMPLES
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
        if document["kind"] == constants.FRAMEWORK_KIND
    ]
    assert len(documents) > 5
    for path, document in documents:
        document["metadata"].pop("namespace", None)
        for rendezvous in (Rendezvous.SIDECAR, Rendezvous.WRAPPER):
            options = InjectionOptions(rendezvous=rendezvous, restricted=True)
            assert tenant.find_denial(inject(document, options)[-1]) == "", path


@pytest.mark.kube
def test_largest_gangs_are_checked_within_the_cost_budget(strict: Tenant) -> None:
    """An expression that costs too much would deny allowed Frameworks."""
    container = {
        "image": "a",
        "ports": [{"containerPort": port} for port in range(1, 6)],
        "securityContext": {"capabilities": {"drop": ["ALL"]}, "privileged": False},
        "env": [{"name": f"V{number}", "value": "x" * 50} for number in range(4)],
    }
    spec = {
        "containers": [{"name": f"c{number}", **container} for number in range(2)],
        "volumes": [{"name": f"v{number}", "emptyDir": {}} for number in range(10)],
    }
    labels = {f"label{number}": "a" for number in range(8)}
    metadata = {"labels": labels, "annotations": labels}
    roles = []
    for number in range(256):
        role = gang_of(spec, metadata)["spec"]["taskRoles"][0]
        roles.append({**role, "name": f"role{number}", "taskNumber": 39})
    body = gang(*roles)
    assert len(json.dumps(body)) > 400_000
    assert strict.find_denial(body) == ""


@pytest.mark.kube
def test_pod_security_of_a_namespace_denies_pods_of_frameworks_as_any_pod(
    tenant: Tenant, control_plane: Access, http: JsonHttp, tmp_path: Path
) -> None:
    path = f"/api/v1/namespaces/{tenant.namespace}"
    patch = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}
    assert http.request("PATCH", path, patch, content_type=MERGE)[0] == 200
    added = in_container({"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}})
    pod = {"metadata": {"name": "probe"}, "spec": {**added, "serviceAccountName": "default"}}
    # The server takes the label of a namespace a moment after it is stored.
    wait_until(lambda: http.request("POST", f"{path}/pods?dryRun=All", pod)[0] == 403)

    def find_refusal() -> str:
        events = http.request("GET", f"{path}/events")[1]["items"]
        return next((e["message"] for e in events if e["reason"] == "FailedCreate"), "")

    def list_pods() -> list[str]:
        return [pod["metadata"]["name"] for pod in http.request("GET", f"{path}/pods")[1]["items"]]

    with start_controller(control_plane, tmp_path):
        tenant.create(gang_of(added) | {"metadata": {"name": "privileged"}})
        assert 'violates PodSecurity "baseline' in wait_until(find_refusal)
        tenant.create(gang_of({}) | {"metadata": {"name": "ordinary"}})
        assert wait_until(list_pods) == ["ordinary-worker-0"]
