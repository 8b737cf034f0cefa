"""`framework inject`: accounts and rights, and the objects that go with a Framework."""

import copy
from typing import Any

import pytest
import yaml

from cli.authoring.injection import InjectionError, InjectionOptions, Rendezvous, inject, inject_all
from cli.authoring.rules import LintOptions, lint
from tests.cli.authoring.injected import build, get_spec
from tests.support.servers.frameworkcrd import ROOT

AGENT_RIGHTS = ROOT / "deploy" / "agents"
DRAIN = {"timeoutSec": 30}


def inject_job(account: str = "", *, drains: bool = True) -> list[dict[str, Any]]:
    """Inject into a Framework, whose Pods may have an account, and return all objects."""
    framework = build(drain=DRAIN) if drains else build()
    if account:
        get_spec([framework])["serviceAccountName"] = account
    return inject(framework, InjectionOptions())


@pytest.mark.parametrize("drains", [False, True])
def test_inject_rights_are_those_of_deploy(*, drains: bool) -> None:
    folders = ["one-framework", "one-framework-drain"] if drains else ["one-framework"]
    texts = [(AGENT_RIGHTS / folder / "rbac.yaml").read_text() for folder in folders]
    shipped = [
        document
        for text in texts
        for document in yaml.safe_load_all(text.replace("FRAMEWORK_NAME", "job"))
    ]
    assert inject_job(drains=drains)[:-1] == shipped


def test_inject_objects_of_two_frameworks_never_share_a_name() -> None:
    draining, neighbour = build(drain=DRAIN), build()
    neighbour["metadata"]["name"] = "job-drain"
    objects = inject_all([draining, neighbour], InjectionOptions())
    names = [(body["kind"], body["metadata"]["name"]) for body in objects]
    assert len(set(names)) == len(names)


def test_inject_again_removes_the_right_to_drain_with_the_last_drain() -> None:
    objects = inject_all([build(drain=DRAIN)], InjectionOptions())
    assert "frameworkbarrier-job:acknowledge" in {body["metadata"]["name"] for body in objects}
    del objects[-1]["spec"]["taskRoles"][0]["drain"]
    again = inject_all(objects, InjectionOptions())
    kinds = [(body["kind"], body["metadata"]["name"]) for body in again]
    agents = [(kind, "frameworkbarrier-job") for kind in ("ServiceAccount", "Role", "RoleBinding")]
    assert kinds == [*agents, ("Framework", "job")]


def test_inject_again_removes_the_drain_role_of_earlier_releases() -> None:
    labels = {f"app.kubernetes.io/{key}": "frameworkbarrier" for key in ("name", "part-of")}
    metadata = {"name": "frameworkbarrier-job:drain", "labels": labels}
    version = "rbac.authorization.k8s.io/v1"
    past = [
        {"apiVersion": version, "kind": kind, "metadata": metadata}
        for kind in ("Role", "RoleBinding")
    ]
    objects = inject_all([*past, build(drain=DRAIN)], InjectionOptions())
    names = {(body["kind"], body["metadata"]["name"]) for body in objects}
    assert ("RoleBinding", "frameworkbarrier-job:acknowledge") in names
    assert not {name for _, name in names if name.endswith(":drain")}


@pytest.mark.parametrize("field", ["serviceAccountName", "serviceAccount"])
def test_inject_gives_an_account_of_the_user_no_right_to_patch_pods(field: str) -> None:
    framework = build(drain=DRAIN)
    get_spec([framework])[field] = "mine"
    with pytest.raises(InjectionError) as e:
        inject(framework, InjectionOptions())
    message = str(e.value)
    assert message.startswith(f"spec.taskRoles[0].task.pod.spec.{field}: mine is an account of")
    assert "bind to frameworkbarrier-job" in message


def test_inject_account_of_another_role_is_refused_where_one_role_drains() -> None:
    """One Role serves all roles, so an account of any of them would get its right."""
    framework = build(drain=DRAIN)
    other = copy.deepcopy(build()["spec"]["taskRoles"][0]) | {"name": "ps"}
    other["task"]["pod"]["spec"]["serviceAccountName"] = "mine"
    framework["spec"]["taskRoles"].append(other)
    with pytest.raises(
        InjectionError, match=r"taskRoles\[1\]\.task\.pod\.spec\.serviceAccountName"
    ):
        inject(framework, InjectionOptions())


@pytest.mark.parametrize("account", ["frameworkbarrier", "frameworkbarrier-job"])
def test_inject_account_of_agents_acknowledges(account: str) -> None:
    objects = inject_job(account)
    binding = next(b for b in objects if b["metadata"]["name"].endswith(":acknowledge"))
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account}]
    assert binding["roleRef"]["kind"] == "ClusterRole"


@pytest.mark.parametrize("drains", [False, True])
def test_inject_agents_acknowledge_only_in_a_gang_that_drains(*, drains: bool) -> None:
    containers = get_spec(inject_job(drains=drains))["initContainers"]
    variables = [variable for container in containers for variable in container.get("env", [])]
    settings = [v["value"] for v in variables if v["name"] == "FB_ACKNOWLEDGE"]
    assert settings == ([] if drains else ["off"])


@pytest.mark.parametrize("value", ["on", "auto"])
def test_inject_agents_that_report_progress_get_the_right(value: str) -> None:
    framework = build()
    container = get_spec([framework])["containers"][0]
    container["env"] = [{"name": "FB_PROGRESS_STATUS", "value": value}]
    objects = inject(framework, InjectionOptions(rendezvous=Rendezvous.WRAPPER))
    names = [body["metadata"]["name"] for body in objects]
    assert any(name.endswith(":acknowledge") for name in names) == (value == "on")
    settings = {v["name"]: v.get("value") for v in get_spec(objects)["containers"][0]["env"]}
    assert settings.get("FB_ACKNOWLEDGE") == (None if value == "on" else "off")
    assert lint(objects[-1], LintOptions()) == []


def test_inject_account_by_its_old_field_stays() -> None:
    framework = build()
    get_spec([framework])["serviceAccount"] = "mine"
    objects = inject(framework, InjectionOptions())
    assert get_spec(objects)["serviceAccountName"] == "mine"
    assert "ServiceAccount" not in [body["kind"] for body in objects]
    del get_spec(objects)["serviceAccountName"]
    assert lint(objects[-1], LintOptions()) == []


def test_inject_all_of_its_own_output_changes_nothing() -> None:
    options = InjectionOptions(dns=True)
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "app"}}
    second = build()
    second["metadata"]["name"] = "second"
    once = inject_all([other, build(), second], options)
    assert inject_all(once, options) == once


def test_inject_all_keeps_an_object_of_the_user_with_the_name_of_ours() -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "job"},
        "spec": {"clusterIP": "None", "selector": {"app": "mine"}},
    }
    objects = inject_all([service, build()], InjectionOptions(dns=True))
    assert [body for body in objects if body["kind"] == "Service"] == [service]


def test_inject_gives_the_right_of_a_drain_to_roles_that_leave_nodes() -> None:
    leaving = build(recovery={"leaveNodes": {"timeoutSeconds": 60}})
    draining = build(drain=DRAIN)
    assert inject(leaving, InjectionOptions())[:-1] == inject(draining, InjectionOptions())[:-1]
