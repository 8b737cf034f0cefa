"""The files of deploy/: generated ones are up to date, and they agree with one another."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.app import main as controller_command
from controller.gate.leader import DEFAULT_LEASE_NAME
from framework.api import constants
from framework.version import VERSION
from tools import manifests

DEPLOY = manifests.DEPLOY
CLUSTER_SCOPED = {"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "Namespace"}
OPTIONS = {option for p in controller_command.params for option in p.opts}


def load(path: Path) -> list[dict[str, Any]]:
    documents = yaml.load_all(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
    return [document for document in documents if document is not None]


def find(kind: str, objects: list[dict[str, Any]]) -> dict[str, Any]:
    (found,) = (body for body in objects if body["kind"] == kind)
    return found


RENDERED = manifests.render_all()
INSTALLED = load(manifests.INSTALL_FILE)
POD_SPEC = find("Deployment", INSTALLED)["spec"]["template"]["spec"]
(CONTAINER,) = POD_SPEC["containers"]
NAMESPACED = DEPLOY / "overlays" / "namespaced"


@pytest.mark.parametrize("path", RENDERED, ids=lambda p: str(p.relative_to(manifests.ROOT)))
def test_generated_file_is_up_to_date(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == RENDERED[path]


@pytest.mark.parametrize("path", sorted(DEPLOY.rglob("*.yaml")), ids=lambda p: str(p.name))
def test_manifest_has_kinds_and_versions_and_no_other_name_of_the_lease(path: Path) -> None:
    for body in load(path):
        assert body["apiVersion"]
        assert body["kind"]
    assert "leader-elect-name=" not in path.read_text(encoding="utf-8")


def test_install_file_holds_every_object_of_the_base_and_begins_with_definitions() -> None:
    names = find("Kustomization", load(manifests.BASE / "kustomization.yaml"))["resources"]
    assert [body for name in names for body in load(manifests.BASE / name)] == INSTALLED
    on_disk = {path.name for path in manifests.BASE.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(names) == on_disk
    kinds = [body["kind"] for body in INSTALLED]
    assert kinds[:2] == ["CustomResourceDefinition", "Namespace"]


def test_install_when_the_base_does_more_than_list_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kustomization.yaml").write_text("resources: []\nnamePrefix: x-\n")
    monkeypatch.setattr(manifests, "BASE", tmp_path)
    with pytest.raises(manifests.KustomizationError, match="namePrefix"):
        manifests.render_install()


def test_deployment_runs_the_image_of_this_version_with_options_that_exist() -> None:
    assert CONTAINER["image"] == f"frameworkbarrier/framework-controller:{VERSION}"
    arguments = CONTAINER["args"] + ["--namespace=$(POD_NAMESPACE)"]
    assert {argument.partition("=")[0] for argument in arguments} <= OPTIONS


def test_deployment_when_the_version_moves_gets_the_new_tag(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(manifests, "VERSION", "9.8.7")
    rendered = manifests.render_all()
    for path in (manifests.DEPLOYMENT_FILE, manifests.INSTALL_FILE):
        assert "framework-controller:9.8.7 " in rendered[path]
    assert "framework-barrier:9.8.7\n" in rendered[manifests.DEPLOY / "agents" / "README.md"]


def test_deployment_probes_what_the_controller_listens_on() -> None:
    (port,) = CONTAINER["ports"]
    assert "--health-address=0.0.0.0" in CONTAINER["args"]
    assert f"--health-port={port['containerPort']}" in CONTAINER["args"]
    for probe, path in (("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        assert CONTAINER[probe]["httpGet"] == {"path": path, "port": port["name"]}
    service = find("Service", INSTALLED)["spec"]
    assert [p["targetPort"] for p in service["ports"]] == [port["name"]]


def test_deployment_meets_restricted_pod_security() -> None:
    context = POD_SPEC["securityContext"]
    assert (context["runAsNonRoot"], context["runAsUser"]) == (True, 65532)
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert CONTAINER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert set(CONTAINER["resources"]) == {"requests", "limits"}
    assert "volumes" not in POD_SPEC


def test_lease_rule_names_the_lease_of_the_controller() -> None:
    rules = find("Role", INSTALLED)["rules"]
    (named,) = (rule for rule in rules if "resourceNames" in rule)
    assert named["resourceNames"] == [DEFAULT_LEASE_NAME]


def test_namespaced_role_grants_what_the_cluster_role_grants() -> None:
    role = find("Role", load(NAMESPACED / "role.yaml"))
    assert role["rules"] == find("ClusterRole", INSTALLED)["rules"]


def test_namespaced_overlay_deletes_everything_of_the_whole_cluster() -> None:
    overlay = find("Kustomization", load(NAMESPACED / "kustomization.yaml"))
    patches = [yaml.safe_load(patch["patch"]) for patch in overlay["patches"]]
    deleted = [p for p in patches if isinstance(p, dict) and p["$patch"] == "delete"]
    scoped = [body for body in INSTALLED if body["kind"] in CLUSTER_SCOPED]
    named, expected = (
        {(body["kind"], body["metadata"]["name"]) for body in bodies}
        for bodies in (deleted, scoped)
    )
    assert named == expected


def test_controller_may_write_no_spec_and_read_no_secret() -> None:
    rules = find("ClusterRole", INSTALLED)["rules"]
    assert [r["verbs"] for r in rules if "secrets" in r["resources"]] == [["create"]]
    assert not [r for r in rules if "*" in r["resources"]]
    assert not [r for r in rules if "*" in r["verbs"] or "*" in r["apiGroups"]]
    (frameworks,) = (r for r in rules if r["resources"] == [constants.FRAMEWORK_PLURAL])
    assert not {"create", "update", "patch"} & set(frameworks["verbs"])


def test_rights_for_other_kinds_are_in_their_component_only() -> None:
    (role,) = [
        body for body in load(manifests.KINDS / "clusterrole.yaml") if body["kind"] == "ClusterRole"
    ]
    granted = {
        (resource, verb)
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert not [right for right in granted if "*" in right]
    assert {verb for resource, verb in granted if resource == "secrets"} == {"get"}
    written = {resource for resource, verb in granted if verb in {"update", "patch", "delete"}}
    assert "roles" not in written
    assert not {"pods", "configmaps", "secrets"} & written
    groups = {group for rule in role["rules"] for group in rule["apiGroups"]}
    base = {g for rule in find("ClusterRole", INSTALLED)["rules"] for g in rule["apiGroups"]}
    assert {"mlkube.io", "kai.alibabacloud.com"} <= groups - base


def test_right_to_watch_nodes_is_in_its_component_only() -> None:
    bodies = load(DEPLOY / "nodes" / "clusterrole.yaml")
    assert find("ClusterRole", bodies)["rules"] == [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}
    ]
    base = find("ClusterRole", INSTALLED)["rules"]
    assert not [rule for rule in base if "nodes" in rule["resources"]]


def test_agents_objects_of_any_frameworks_in_one_namespace_never_share_a_name() -> None:
    folders = {
        "namespace": [""],
        "drain": [""],
        "one-framework": ["gang", "gang-drain", "drain"],
        "one-framework-drain": ["gang", "drain"],
    }
    names = [
        (body["kind"], body["metadata"]["name"].replace("FRAMEWORK_NAME", framework))
        for folder, frameworks in folders.items()
        for framework in frameworks
        for body in load(DEPLOY / "agents" / folder / "rbac.yaml")
    ]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("variant", ["namespace", "one-framework"])
def test_agents_role_only_reads_the_roster_and_the_framework(variant: str) -> None:
    role = find("Role", load(DEPLOY / "agents" / variant / "rbac.yaml"))
    granted = {rule["resources"][0]: set(rule["verbs"]) for rule in role["rules"]}
    assert granted == {"configmaps": {"get", "list", "watch"}, constants.FRAMEWORK_PLURAL: {"get"}}
    names = {rule["resources"][0]: rule.get("resourceNames") for rule in role["rules"]}
    if variant == "one-framework":
        assert names == {"configmaps": ["FRAMEWORK_NAME-attempt"], "frameworks": ["FRAMEWORK_NAME"]}
