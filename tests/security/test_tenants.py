"""deploy/tenants on a real API server: what a tenant's Frameworks may ask for."""

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
from rendezvous.settings.option import BY_ANNOTATION
from tests.support.builders import (
    build_framework,
    build_framework_wire,
    build_role_status,
    build_role_wire,
    build_status,
)
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkcrd import ROOT
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
    *(constants.ANNOTATION_PREFIX + word for word in BY_ANNOTATION),
}
EXAMPLES = sorted((ROOT / "examples").rglob("*.yaml"))


def load(name: str) -> list[Object]:
    return list(yaml.safe_load_all((TENANTS / name).read_text(encoding="utf-8")))


def test_settings_that_templates_may_have_are_those_of_the_agents() -> None:
    (settings,) = (
        variable["expression"]
        for variable in load("base/policy.yaml")[0]["spec"]["variables"]
        if variable["name"] == "settings"
    )
    assert set(json.loads(settings.replace("'", '"'))) == SETTINGS


class Tenant(NamedTuple):
    """A namespace whose tenant may write Frameworks and nothing else."""

    http: JsonHttp
    admin: JsonHttp
    namespace: str

    @property
    def path(self) -> str:
        return f"/apis/{constants.API_VERSION}/namespaces/{self.namespace}/frameworks"

    def submit(self, body: Object, *, dry_run: bool = True) -> tuple[int, Any]:
        query = "?dryRun=All" if dry_run else ""
        return self.http.request("POST", self.path + query, body)

    def find_denial(self, body: Object) -> str:
        """Give the policy's message; nothing if the Framework is accepted."""
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
    patch = [{"op": "replace", "path": "/spec/variables/0/expression", "value": expression}]
    content = {
        "resources": [os.path.relpath(BASE, folder)],
        "patches": [
            {
                "target": {"kind": "ValidatingAdmissionPolicy", "name": "frameworkbarrier-tenants"},
                "patch": json.dumps(patch),
            }
        ],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(content))
    apply_kustomization(access, folder)


@pytest.fixture(scope="module")
def policies(control_plane: Access, framework_crd: None) -> Iterator[None]:
    with apply_policies(control_plane, BASE):
        yield


def open_tenant(access: Access, http: JsonHttp, namespace: str) -> Tenant:
    policed = Policed(http, access, f"/api/v1/namespaces/{namespace}")
    rights = allow("get,create,update,patch", "frameworks", constants.GROUP)
    return Tenant(policed.open_tenant("tenant", rights), http, namespace)


@pytest.fixture
def tenant(policies: None, control_plane: Access, http: JsonHttp, namespace: str) -> Tenant:
    """A tenant under the numbers of deploy/tenants/base."""
    apply_kustomization(control_plane, BASE)
    tenant = open_tenant(control_plane, http, namespace)
    # An earlier test may have left other bounds.
    host = gang_of({"hostNetwork": True})
    claim = gang_of({}, {"labels": {constants.FRAMEWORK_NAME: "gang"}})
    wait_until(lambda: tenant.submit(host)[0] == 201 and tenant.submit(claim)[0] == 403)
    return tenant


@pytest.fixture
def strict(tenant: Tenant, control_plane: Access) -> Tenant:
    """The same tenant under deploy/tenants/strict."""
    apply_kustomization(control_plane, STRICT)
    wait_until(lambda: tenant.find_denial(gang_of({"hostNetwork": True})) != "")
    return tenant


def gang(*roles: Object) -> Object:
    """Build a Framework of these roles."""
    body = build_framework_wire(*roles)
    body["metadata"] = {"name": "gang"}
    return body


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


def test_numbers_are_those_of_the_crd() -> None:
    bounds = load("base/policy.yaml")[0]["spec"]["variables"][0]
    assert bounds["name"] == "bounds"
    assert json.loads(bounds["expression"].replace("'", '"')) == {
        "maxTaskRoles": constants.MAX_TASK_ROLES,
        "maxTasks": constants.MAX_TASKS,
    }


@pytest.mark.kube
def test_numbers_of_roles_and_tasks_are_bounded(tenant: Tenant) -> None:
    """Sixty roles of 10,000 Tasks each are one small object."""
    for count, tasks, status in ((60, 10_000, 422), (257, 0, 422), (256, 39, 201)):
        roles = [build_role_wire(f"role{number}", tasks) for number in range(count)]
        assert tenant.submit(gang(*roles))[0] == status, (count, tasks)


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
def test_framework_that_is_there_is_stopped_and_labelled_under_lower_numbers(
    tenant: Tenant, control_plane: Access, tmp_path: Path
) -> None:
    there = gang(build_role_wire(number=10))
    create(tenant.http, tenant.path, there | {"metadata": {"name": "there"}})
    set_bounds(control_plane, tmp_path / "overlay", tasks=5, roles=64)
    wait_until(lambda: tenant.find_denial(gang(build_role_wire(number=10))) != "")

    def patch(body: Object) -> int:
        return tenant.http.request("PATCH", f"{tenant.path}/there", body, content_type=MERGE)[0]

    assert patch({"metadata": {"labels": {"a": "b"}}}) == 200
    assert patch({"spec": {"executionType": "Stop"}}) == 200
    assert patch({"spec": {"taskRoles": [build_role_wire(number=11)]}}) == 403
    assert patch({"spec": {"taskRoles": [build_role_wire(number=5)]}}) == 200


@pytest.mark.kube
def test_framework_without_spec_is_judged_by_the_crd_alone(tenant: Tenant) -> None:
    """The CRD takes it; a role that it gets later is looked at as any other."""
    empty: Object = {**gang(), "metadata": {"name": "empty"}}
    del empty["spec"]
    status, answer = tenant.submit({**empty, "spec": "none"})
    assert (status, "spec in body must be of type object" in answer["message"]) == (422, True)
    status, answer = tenant.submit(empty, dry_run=False)
    assert (status, "spec" in answer) == (201, False), answer
    path = f"{tenant.path}/empty"

    def patch(body: Object) -> int:
        return tenant.http.request("PATCH", path, body, content_type=MERGE)[0]

    assert patch({"metadata": {"labels": {"a": "b"}}}) == 200
    assert patch({"metadata": {"finalizers": ["a.example/b"]}}) == 200
    assert tenant.admin.request("DELETE", path)[0] == 200
    assert patch({"metadata": {"finalizers": None}}) == 200
    assert tenant.admin.request("GET", path)[0] == 404


@pytest.mark.kube
def test_roles_of_a_framework_that_had_no_spec_are_bounded(tenant: Tenant) -> None:
    empty: Object = {**gang(), "metadata": {"name": "empty"}}
    del empty["spec"]
    create(tenant.http, tenant.path, empty)
    path = f"{tenant.path}/empty"
    for metadata, status in (({"labels": {constants.FRAMEWORK_NAME: "gang"}}, 403), ({}, 200)):
        spec = gang_of({}, metadata)["spec"]
        answer = tenant.http.request("PATCH", path, {"spec": spec}, content_type=MERGE)
        assert answer[0] == status, answer
    # A write that takes the spec away takes no rule with it.
    assert tenant.http.request("PATCH", path, {"spec": None}, content_type=MERGE)[0] == 200


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
        (said, in_container(fields, field))
        for field in LISTS
        for said, fields in (
            ("privileged", {"securityContext": {"privileged": True}}),
            ("hostProcess", {"securityContext": {"windowsOptions": {"hostProcess": True}}}),
            ("hostPort", {"ports": [{"containerPort": 1}, PORT]}),
            ("capabilities", {"securityContext": CAPABLE}),
        )
    ),
]


@pytest.mark.kube
def test_template_that_reaches_for_its_node_is_denied_where_that_is_switched_on(
    strict: Tenant,
) -> None:
    for said, spec in FORBIDDEN:
        assert said in strict.find_denial(gang_of(spec)), spec
        # In a role that is not the first.
        body = gang_of(spec)
        body["spec"]["taskRoles"].insert(0, build_role_wire("first"))
        assert said in strict.find_denial(body), spec


@pytest.mark.kube
def test_the_same_is_accepted_by_default(tenant: Tenant) -> None:
    for said, spec in FORBIDDEN:
        assert tenant.find_denial(gang_of(spec)) == "", said


def list_hidden() -> Iterator[Object]:
    """List templates in which a placeholder would become a key that is forbidden."""
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
        yield gang_of(in_container({"securityContext": {key: True}}, field), None, "privileged")
        yield gang_of(
            in_container({"securityContext": {key: {"add": ["SYS_PTRACE"]}}}, field),
            None,
            "capabilities",
        )
        yield gang_of(
            in_container({"securityContext": {"capabilities": {key: ["SYS_PTRACE"]}}}, field),
            None,
            "add",
        )
        yield gang_of(in_container({key: [PORT]}, field), None, "ports")
        yield gang_of(in_container({"ports": [{"containerPort": 80, f"{half}Port": 80}]}, field))
        yield gang_of(in_container({f"{half}Context": {"privileged": True}}, field))


@pytest.mark.kube
def test_placeholder_hides_no_key(strict: Tenant) -> None:
    """The controller replaces them in keys as well, and roles and Frameworks have any name."""
    for body in list_hidden():
        assert "placeholder" in strict.find_denial(body), body


# What may stand where a map, a list, a flag or a number belongs.
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


def list_reaches(pod: Object) -> list[str]:
    """List what of a Pod, as the API server took it, reaches for its node."""
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
def test_no_odd_template_brings_a_pod_past_the_policy(strict: Tenant) -> None:
    """What the policy takes makes a Pod that reaches for nothing, or one that is refused."""
    pods = f"/api/v1/namespaces/{strict.namespace}/pods?dryRun=All"
    taken = accepted = 0
    for body in list_odd():
        status, answer = strict.submit(body)
        assert status in {201, 403, 422, 400}, answer
        if status == 201:
            taken += 1
            spec = decode_framework(answer).spec
            status_of = build_status(build_role_status("worker"))
            framework = build_framework(spec, status_of, namespace=strict.namespace)
            status, pod = strict.admin.request(
                "POST", pods, build_pod(framework, TaskKey("worker", 0))
            )
            if status == 201:
                accepted += 1
                assert list_reaches(pod) == [], body
    assert taken > 100
    assert accepted > 20


@pytest.mark.kube
def test_account_of_agents_is_accepted_with_a_placeholder(strict: Tenant) -> None:
    for account in (None, "", "default", "frameworkbarrier", "frameworkbarrier-a"):
        assert strict.find_denial(gang_of({"serviceAccountName": account})) == "", account
    account = "frameworkbarrier-{{FC_FRAMEWORK_NAME}}"
    assert strict.find_denial(gang_of({"serviceAccountName": account})) == ""


@pytest.mark.kube
def test_examples_with_their_agents_are_accepted(tenant: Tenant) -> None:
    count = 0
    for path in EXAMPLES:
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if document["kind"] != constants.FRAMEWORK_KIND:
                continue
            document["metadata"].pop("namespace", None)
            for rendezvous in (Rendezvous.SIDECAR, Rendezvous.WRAPPER):
                options = InjectionOptions(rendezvous=rendezvous, restricted=True)
                injected = inject(document, options)[-1]
                assert tenant.find_denial(injected) == "", path
                count += 1
    assert count > 10


@pytest.mark.kube
def test_largest_gangs_are_judged_within_the_cost_budget(strict: Tenant) -> None:
    """An expression that costs too much would deny what is allowed."""
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
