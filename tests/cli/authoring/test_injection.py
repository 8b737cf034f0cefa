"""`framework inject`: containers, volumes and names that it adds, and what it leaves alone."""

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.authoring.injection import InjectionError, InjectionOptions, Rendezvous, inject
from cli.authoring.rules import LintOptions, lint
from framework.api.codec import decode_framework
from framework.api.gang_key import refers_to_gang_key
from framework.api.validation import validate_framework
from framework.kinds.agent_objects import KEY_VOLUME
from framework.version import VERSION
from rendezvous.site.peers.gang_key import DEFAULT_KEY_FILE
from tests.cli.authoring.injected import DROPPED, SPEC, Change, build, edit, get_spec
from tests.support.servers.frameworkcrd import ROOT

WRAPPER, DNS = InjectionOptions(rendezvous=Rendezvous.WRAPPER), InjectionOptions(dns=True)
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))


def load_frameworks(path: Any) -> list[dict[str, Any]]:
    return [
        document
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
        if document["kind"] == "Framework"
    ]


@pytest.mark.parametrize("rendezvous", list(Rendezvous))
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_inject_every_example_is_valid_lints_clean_and_is_stable(
    path: Any, rendezvous: Rendezvous
) -> None:
    options = InjectionOptions(rendezvous=rendezvous, dns=True, restricted=True)
    for framework in load_frameworks(path):
        once = inject(framework, options)[-1]
        twice = inject(once, options)[-1]
        assert not validate_framework(decode_framework(once))
        assert lint(once, LintOptions(quota=[])) == []
        assert twice == once


def test_inject_leaves_its_input_and_all_the_user_wrote() -> None:
    framework = build()
    account = {"serviceAccountName": "mine", "automountServiceAccountToken": True}
    get_spec([framework]).update(account)
    before = copy.deepcopy(framework)
    objects = inject(framework, InjectionOptions())
    assert framework == before
    spec = get_spec(objects)
    assert account.items() <= spec.items()
    assert "ServiceAccount" not in [body["kind"] for body in objects]
    binding = next(body for body in objects if body["kind"] == "RoleBinding")
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "mine"}]


def test_inject_roles_that_share_a_template_get_one_each() -> None:
    framework = build()
    shared = framework["spec"]["taskRoles"][0]
    framework["spec"]["taskRoles"].append({**shared, "name": "ps"})
    roles = inject(framework, WRAPPER)[-1]["spec"]["taskRoles"]
    commands = [role["task"]["pod"]["spec"]["containers"][0]["command"] for role in roles]
    wrapped = ["python3", "/mnt/frameworkbarrier/agent/rendezvous.pyz", "run", "--", "train"]
    assert commands == [wrapped] * 2


@pytest.mark.parametrize(
    ("rendezvous", "expected"),
    [
        (Rendezvous.NONE, ["barrier"]),
        (Rendezvous.INIT, ["barrier", "rendezvous"]),
        (Rendezvous.SIDECAR, ["barrier", "rendezvous"]),
        (Rendezvous.WRAPPER, ["rendezvous"]),
    ],
)
def test_inject_adds_the_agents_asked_for(rendezvous: Rendezvous, expected: list[str]) -> None:
    spec = get_spec(inject(build(), InjectionOptions(rendezvous=rendezvous)))
    assert [container["name"] for container in spec["initContainers"]] == expected
    assert all(":" in container["image"] for container in spec["initContainers"])


def test_inject_gives_a_version_to_our_images_and_leaves_the_originals() -> None:
    def get_image(image: str) -> object:
        framework = build()
        get_spec([framework])["initContainers"] = [{"name": "barrier", "image": image}]
        return get_spec(inject(framework, InjectionOptions()))["initContainers"][0]["image"]

    assert get_image("team/framework-barrier") == f"team/framework-barrier:{VERSION}"
    assert get_image("team/framework-barrier:1") == "team/framework-barrier:1"
    # It is published as `latest`, and in no version of ours.
    original = "frameworkcontroller/frameworkbarrier"
    assert get_image(original) == original


def test_inject_token_is_mounted_where_an_agent_runs_and_nowhere_else() -> None:
    def list_with_token(rendezvous: Rendezvous) -> list[str]:
        spec = get_spec(inject(build(), InjectionOptions(rendezvous=rendezvous)))
        assert spec["automountServiceAccountToken"] is False
        return [
            container["name"]
            for container in [*spec["initContainers"], *spec["containers"]]
            for mount in container["volumeMounts"]
            if mount["name"] == "frameworkbarrier-token"
        ]

    assert list_with_token(Rendezvous.SIDECAR) == ["barrier", "rendezvous"]
    # The wrapper is the agent; its init container only copies files.
    assert list_with_token(Rendezvous.WRAPPER) == ["main"]


@pytest.mark.parametrize(
    ("rendezvous", "holders"),
    [
        (Rendezvous.NONE, set()),
        (Rendezvous.INIT, {"rendezvous", "main"}),
        (Rendezvous.SIDECAR, {"rendezvous", "main"}),
        (Rendezvous.WRAPPER, {"main"}),
    ],
)
def test_inject_mounts_the_gang_key_where_agents_and_processes_prove_it(
    rendezvous: Rendezvous, holders: set[str]
) -> None:
    framework = inject(build(), InjectionOptions(rendezvous=rendezvous))[-1]
    spec = get_spec([framework])
    mounts = {
        container["name"]: mount
        for container in [*spec["initContainers"], *spec["containers"]]
        for mount in container["volumeMounts"]
        if mount["name"] == KEY_VOLUME
    }
    assert set(mounts) == holders
    assert {m["mountPath"] for m in mounts.values()} <= {str(Path(DEFAULT_KEY_FILE).parent)}
    template = framework["spec"]["taskRoles"][0]["task"]["pod"]
    assert refers_to_gang_key(template, "job") == bool(holders)


def test_inject_leaves_the_gang_key_that_the_user_mounts() -> None:
    framework = build()
    spec = get_spec([framework])
    spec["volumes"] = [{"name": "key", "secret": {"secretName": "job-gang-key"}}]
    injected = get_spec(inject(framework, InjectionOptions()))
    assert KEY_VOLUME not in {volume["name"] for volume in injected["volumes"]}


def test_inject_dns_names_each_pod_as_the_barrier_asks_for_it() -> None:
    objects = inject(build(), DNS)
    service = next(body for body in objects if body["kind"] == "Service")
    assert service["metadata"]["name"] == "job"
    assert service["spec"]["publishNotReadyAddresses"] is True
    spec = get_spec(objects)
    assert (spec["hostname"], spec["subdomain"]) == ("{{FC_POD_NAME}}", "job")


def set_nulls(spec: dict[str, Any]) -> None:
    spec |= {"volumes": None, "initContainers": None, "securityContext": None}
    spec |= {"serviceAccountName": "", "automountServiceAccountToken": None}
    spec["containers"][0] |= {"volumeMounts": None, "securityContext": None, "env": None}


@pytest.mark.parametrize("rendezvous", list(Rendezvous))
def test_inject_treats_nulls_as_absent(rendezvous: Rendezvous) -> None:
    options = InjectionOptions(rendezvous=rendezvous, dns=True, restricted=True)
    plain, framework = build(), build(taskNumber=None)
    set_nulls(get_spec([framework]))
    framework["spec"]["taskRoles"][0]["task"]["pod"]["metadata"] = {"annotations": None}
    found, expected = inject(framework, options), inject(plain, options)
    assert found[:-1] == expected[:-1]
    assert [finding.rule for finding in lint(found[-1], LintOptions())] == ["no-tasks"]
    spec, wanted = get_spec(found), get_spec(expected)
    # A variable list of null is one too.
    spec["containers"][0] = {k: v for k, v in spec["containers"][0].items() if v is not None}
    assert spec == wanted


def test_inject_mounts_the_same_part_of_a_volume_everywhere() -> None:
    framework = build()
    spec = get_spec([framework])
    spec["volumes"] = [{"name": "scratch", "emptyDir": {}}]
    spec["containers"][0]["volumeMounts"] = [
        {"name": "scratch", "mountPath": "/mnt/frameworkbarrier/", "subPath": "peers"}
    ]
    found = get_spec(inject(framework, InjectionOptions()))
    for container in [*found["initContainers"], *found["containers"]]:
        (mount,) = (m for m in container["volumeMounts"] if m["name"] == "scratch")
        assert mount["subPath"] == "peers"
        assert mount["mountPath"].rstrip("/") == "/mnt/frameworkbarrier"
        assert "frameworkbarrier-volume" not in {m["name"] for m in container["volumeMounts"]}


def build_volume(name: str) -> dict[str, Any]:
    return {"name": name, "configMap": {"name": "settings"}}


@pytest.mark.parametrize(
    ("options", "change", "message"),
    [
        (WRAPPER, edit("main", command=DROPPED), rf"{SPEC}.containers[0].command: is missing"),
        (DNS, edit("metadata", name="n" * 60), f"{'n' * 60}-worker-1 has 69 characters"),
        (DNS, edit("metadata", name="3d"), "metadata.name: 3d begins with a digit"),
        (DNS, edit("main", name="rendezvous"), f"{SPEC}.containers[0].name: rendezvous is the"),
        *(
            (DNS, edit("spec", volumes=[build_volume(name)]), f"volumes: {name} is the name")
            for name in ("frameworkbarrier-volume", "frameworkbarrier-token", KEY_VOLUME)
        ),
    ],
)
def test_inject_into_an_unsuitable_framework_names_the_field(
    options: InjectionOptions, change: Change, message: str
) -> None:
    framework = build()
    change(framework)
    with pytest.raises(InjectionError, match=re.escape(message)):
        inject(framework, options)


def test_inject_restricted_drops_capabilities_where_one_is_added() -> None:
    framework = build()
    added = {"add": ["NET_BIND_SERVICE"]}
    get_spec([framework])["containers"][0]["securityContext"] = {"capabilities": added}
    spec = get_spec(inject(framework, InjectionOptions(restricted=True)))
    capabilities = spec["containers"][0]["securityContext"]["capabilities"]
    assert capabilities == {**added, "drop": ["ALL"]}


def test_inject_wrapper_skips_a_role_without_containers() -> None:
    framework = build(taskNumber=0)
    get_spec([framework])["containers"] = []
    assert inject(framework, WRAPPER)


def test_inject_dns_on_the_nodes_network_asks_the_clusters_dns() -> None:
    framework = build()
    get_spec([framework])["hostNetwork"] = True
    spec = get_spec(inject(framework, DNS))
    assert spec["dnsPolicy"] == "ClusterFirstWithHostNet"
