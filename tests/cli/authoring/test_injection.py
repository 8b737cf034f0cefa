"""`framework inject`: what is added, what is left alone, and that it stays so."""

import copy
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.authoring.injection import (
    KEY_VOLUME,
    InjectionError,
    InjectionOptions,
    Rendezvous,
    inject,
    inject_all,
)
from cli.authoring.rules import Surroundings, lint
from framework.api.codec import decode_framework
from framework.api.gang_key import refers_to_gang_key
from framework.api.validation import validate_framework
from framework.version import VERSION
from rendezvous.peers import _DEFAULT_KEY_FILE
from tests.support.frameworkcrd import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
AGENT_RIGHTS = ROOT / "deploy" / "agents"


def build(**role: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "app:1", "command": ["train"], "args": ["--fast"]}
    return {
        "apiVersion": "frameworkcontroller.microsoft.com/v1",
        "kind": "Framework",
        "metadata": {"name": "job"},
        "spec": {
            "executionType": "Start",
            "retryPolicy": {"fancyRetryPolicy": False, "maxRetryCount": 0},
            "taskRoles": [
                {
                    "name": "worker",
                    "taskNumber": 2,
                    "frameworkAttemptCompletionPolicy": {
                        "minFailedTaskCount": 1,
                        "minSucceededTaskCount": -1,
                    },
                    "task": {
                        "retryPolicy": {"fancyRetryPolicy": False, "maxRetryCount": 0},
                        "podGracefulDeletionTimeoutSec": 600,
                        "pod": {"spec": {"restartPolicy": "Never", "containers": [container]}},
                    },
                    **role,
                }
            ],
        },
    }


def get_spec(objects: list[dict[str, Any]]) -> dict[str, Any]:
    spec: dict[str, Any] = objects[-1]["spec"]["taskRoles"][0]["task"]["pod"]["spec"]
    return spec


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
        assert lint(once, Surroundings(quota=[])) == []
        assert twice == once


def test_inject_leaves_its_input_and_all_the_user_wrote() -> None:
    framework = build()
    framework["spec"]["taskRoles"][0]["task"]["pod"]["spec"] |= {
        "serviceAccountName": "mine",
        "automountServiceAccountToken": True,
    }
    before = copy.deepcopy(framework)

    objects = inject(framework, InjectionOptions())

    assert framework == before
    spec = get_spec(objects)
    assert (spec["serviceAccountName"], spec["automountServiceAccountToken"]) == ("mine", True)
    assert "ServiceAccount" not in [body["kind"] for body in objects]
    binding = next(body for body in objects if body["kind"] == "RoleBinding")
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "mine"}]


def test_inject_roles_that_share_a_template_get_one_each() -> None:
    framework = build()
    shared = framework["spec"]["taskRoles"][0]
    framework["spec"]["taskRoles"].append({**shared, "name": "ps"})

    roles = inject(framework, InjectionOptions(rendezvous=Rendezvous.WRAPPER))[-1]["spec"][
        "taskRoles"
    ]

    commands = [role["task"]["pod"]["spec"]["containers"][0]["command"] for role in roles]
    assert (
        commands
        == [["python3", "/mnt/frameworkbarrier/agent/rendezvous.pyz", "run", "--", "train"]] * 2
    )


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
    def get_image(image: str) -> str:
        framework = build()
        spec = framework["spec"]["taskRoles"][0]["task"]["pod"]["spec"]
        spec["initContainers"] = [{"name": "barrier", "image": image}]
        injected: str = get_spec(inject(framework, InjectionOptions()))["initContainers"][0][
            "image"
        ]
        return injected

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


def test_inject_wrapper_without_a_command_names_the_field_and_the_remedy() -> None:
    framework = build()
    del framework["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["containers"][0]["command"]

    with pytest.raises(InjectionError) as e:
        inject(framework, InjectionOptions(rendezvous=Rendezvous.WRAPPER))

    assert "spec.taskRoles[0].task.pod.spec.containers[0].command: is missing" in str(e.value)


@pytest.mark.parametrize("drains", [False, True])
def test_inject_rights_are_those_of_deploy(*, drains: bool) -> None:
    framework = build(drain={"timeoutSec": 30}) if drains else build()
    folders = ["one-framework", "one-framework-drain"] if drains else ["one-framework"]
    shipped = [
        document
        for folder in folders
        for document in yaml.safe_load_all(
            (AGENT_RIGHTS / folder / "rbac.yaml")
            .read_text(encoding="utf-8")
            .replace("FRAMEWORK_NAME", "job")
        )
    ]

    assert inject(framework, InjectionOptions())[:-1] == shipped


def test_inject_objects_of_two_frameworks_never_share_a_name() -> None:
    draining, neighbour = build(drain={"timeoutSec": 30}), build()
    neighbour["metadata"]["name"] = "job-drain"

    objects = inject_all([draining, neighbour], InjectionOptions())

    names = [(body["kind"], body["metadata"]["name"]) for body in objects]
    assert len(set(names)) == len(names)


def test_inject_again_takes_back_the_right_to_drain_where_nobody_drains_any_more() -> None:
    objects = inject_all([build(drain={"timeoutSec": 30})], InjectionOptions())
    assert "frameworkbarrier-job:acknowledge" in {body["metadata"]["name"] for body in objects}
    del objects[-1]["spec"]["taskRoles"][0]["drain"]

    again = inject_all(objects, InjectionOptions())

    kinds = [(body["kind"], body["metadata"]["name"]) for body in again]
    assert kinds == [
        ("ServiceAccount", "frameworkbarrier-job"),
        ("Role", "frameworkbarrier-job"),
        ("RoleBinding", "frameworkbarrier-job"),
        ("Framework", "job"),
    ]


def test_inject_again_takes_back_what_earlier_releases_gave_to_drain() -> None:
    labels = {
        "app.kubernetes.io/name": "frameworkbarrier",
        "app.kubernetes.io/part-of": "frameworkbarrier",
    }
    past = [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": "frameworkbarrier-job:drain", "labels": labels},
        }
        for kind in ("Role", "RoleBinding")
    ]

    objects = inject_all([*past, build(drain={"timeoutSec": 30})], InjectionOptions())

    names = {(body["kind"], body["metadata"]["name"]) for body in objects}
    assert ("RoleBinding", "frameworkbarrier-job:acknowledge") in names
    assert not {name for _, name in names if name.endswith(":drain")}


@pytest.mark.parametrize("field", ["serviceAccountName", "serviceAccount"])
def test_inject_account_of_the_users_own_gets_no_right_to_patch_pods(field: str) -> None:
    framework = build(drain={"timeoutSec": 30})
    get_spec([framework])[field] = "mine"

    with pytest.raises(InjectionError) as e:
        inject(framework, InjectionOptions())

    message = str(e.value)
    assert message.startswith(f"spec.taskRoles[0].task.pod.spec.{field}: mine is an account of")
    assert "bind to frameworkbarrier-job" in message


def test_inject_account_of_another_role_is_refused_where_one_role_drains() -> None:
    """One Role serves all roles, so an account of any of them would get its right."""
    framework = build(drain={"timeoutSec": 30})
    other = copy.deepcopy(build()["spec"]["taskRoles"][0]) | {"name": "ps"}
    other["task"]["pod"]["spec"]["serviceAccountName"] = "mine"
    framework["spec"]["taskRoles"].append(other)

    with pytest.raises(
        InjectionError, match=r"taskRoles\[1\]\.task\.pod\.spec\.serviceAccountName"
    ):
        inject(framework, InjectionOptions())


@pytest.mark.parametrize("account", ["frameworkbarrier", "frameworkbarrier-job"])
def test_inject_account_of_agents_acknowledges(account: str) -> None:
    framework = build(drain={"timeoutSec": 30})
    get_spec([framework])["serviceAccountName"] = account

    objects = inject(framework, InjectionOptions())

    binding = next(b for b in objects if b["metadata"]["name"].endswith(":acknowledge"))
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account}]
    assert binding["roleRef"]["kind"] == "ClusterRole"


def test_inject_says_that_an_account_of_the_users_own_gets_rights() -> None:
    framework = build()
    get_spec([framework])["serviceAccountName"] = "mine"

    done = run_inject("-", given=yaml.safe_dump(framework))

    assert done.returncode == 0, done.stderr
    assert "serviceAccountName: mine, and so every Pod of this account" in done.stderr


def test_inject_wrapper_says_that_the_command_holds_the_token() -> None:
    def run(rendezvous: str) -> str:
        done = run_inject("--rendezvous", rendezvous, "-", given=yaml.safe_dump(build()))
        assert done.returncode == 0, done.stderr
        return done.stderr

    assert "containers[0]: holds the agent's token" in run("wrapper")
    assert "token" not in run("sidecar")


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
    assert {m["mountPath"] for m in mounts.values()} <= {str(Path(_DEFAULT_KEY_FILE).parent)}
    template = framework["spec"]["taskRoles"][0]["task"]["pod"]
    assert refers_to_gang_key(template, "job") == bool(holders)


def test_inject_leaves_the_gang_key_that_the_user_mounts() -> None:
    framework = build()
    spec = get_spec([framework])
    spec["volumes"] = [{"name": "key", "secret": {"secretName": "job-gang-key"}}]

    injected = get_spec(inject(framework, InjectionOptions()))

    assert KEY_VOLUME not in {volume["name"] for volume in injected["volumes"]}


def test_inject_agents_that_nobody_waits_for_do_not_acknowledge() -> None:
    def get_setting(framework: dict[str, Any]) -> list[str]:
        spec = get_spec(inject(framework, InjectionOptions()))
        return [
            variable["value"]
            for container in spec["initContainers"]
            for variable in container.get("env", [])
            if variable["name"] == "FB_ACKNOWLEDGE"
        ]

    assert get_setting(build()) == ["off"]
    assert get_setting(build(drain={"timeoutSec": 30})) == []


def run_inject(*words: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cli.main", "inject", *words],
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )


def test_inject_command_keeps_other_documents_and_long_texts(tmp_path: Any) -> None:
    source = ROOT / "examples" / "gang.yaml"
    target = tmp_path / "out.yaml"

    done = run_inject(str(source), "-o", str(target))

    assert done.returncode == 0, done.stderr
    assert "injector.sh" in done.stderr
    documents = list(yaml.safe_load_all(target.read_text()))
    assert documents[0] == next(iter(yaml.safe_load_all(source.read_text())))
    assert re.search(r"^  train.py: \|", target.read_text(), re.MULTILINE)


def test_inject_command_faulty_file_says_where_and_writes_nothing(tmp_path: Any) -> None:
    source, target = tmp_path / "in.yaml", tmp_path / "out.yaml"
    source.write_text(yaml.safe_dump(build(taskNumber="two")))

    done = run_inject(str(source), "-o", str(target))

    assert done.returncode == 2
    assert "spec.taskRoles[0].taskNumber" in done.stderr
    assert not target.exists()


def test_inject_command_output_that_cannot_be_written_is_named(tmp_path: Any) -> None:
    source, target = tmp_path / "in.yaml", tmp_path / "no such directory" / "out.yaml"
    source.write_text(yaml.safe_dump(build()))

    done = run_inject(str(source), "-o", str(target))

    assert done.returncode == 2
    assert done.stderr == (
        f"error: {target}: cannot be written: No such file or directory; "
        "give a file in a directory that exists\n"
    )


def test_inject_command_says_what_does_not_stay_as_it_was() -> None:
    framework = build()
    framework["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["restartPolicy"] = "OnFailure"

    done = run_inject("-", given=yaml.safe_dump(framework))

    assert (
        "spec.taskRoles[0].task.pod.spec.restartPolicy: Never instead of OnFailure" in done.stderr
    )
    assert get_spec(list(yaml.safe_load_all(done.stdout)))["restartPolicy"] == "Never"


@pytest.mark.parametrize(
    ("rendezvous", "told"),
    [
        ("none", ["injector.sh"]),
        ("init", ["injector.sh", "current/env.sh"]),
        ("sidecar", ["injector.sh", "current/env.sh"]),
        ("wrapper", ["in their environment"]),
    ],
)
def test_inject_command_tells_of_the_ways_to_peers_that_are_there(
    rendezvous: str, told: list[str], tmp_path: Any
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(build()))
    done = run_inject(str(file), "--rendezvous", rendezvous, "-o", str(tmp_path / "out.yaml"))
    assert done.returncode == 0, done.stderr

    ways = ["injector.sh", "current/env.sh", "in their environment"]
    assert [way for way in ways if way in done.stderr] == told
    assert "warning" not in done.stderr


def test_inject_command_warns_of_what_no_agent_mends() -> None:
    framework = build(frameworkAttemptCompletionPolicy={})
    get_spec([framework])["containers"][0]["args"] = [". /mnt/frameworkbarrier/current/env.sh"]

    done = run_inject("--rendezvous", "none", "-", given=yaml.safe_dump(framework))
    assert done.returncode == 0, done.stderr

    assert [line.split(": ")[:2] for line in done.stderr.splitlines()] == [
        ["warning", "spec.taskRoles[0].task.pod.spec.containers[0]"],
        ["warning", "spec.taskRoles[0].frameworkAttemptCompletionPolicy.minFailedTaskCount"],
    ]
    assert list(yaml.safe_load_all(done.stdout))


def test_inject_dns_names_each_pod_as_the_barrier_asks_for_it() -> None:
    objects = inject(build(), InjectionOptions(dns=True))

    service = next(body for body in objects if body["kind"] == "Service")
    assert service["metadata"]["name"] == "job"
    assert service["spec"]["publishNotReadyAddresses"] is True
    spec = get_spec(objects)
    assert (spec["hostname"], spec["subdomain"]) == ("{{FC_POD_NAME}}", "job")


def test_inject_dns_name_that_is_too_long_is_refused() -> None:
    framework = build()
    framework["metadata"]["name"] = "n" * 60

    with pytest.raises(InjectionError, match=r"hostname: n+-worker-1 has 69 characters"):
        inject(framework, InjectionOptions(dns=True))


def set_nulls(spec: dict[str, Any]) -> None:
    spec |= {"volumes": None, "initContainers": None, "securityContext": None}
    spec |= {"serviceAccountName": "", "automountServiceAccountToken": None}
    spec["containers"][0] |= {"volumeMounts": None, "securityContext": None, "env": None}


@pytest.mark.parametrize("rendezvous", list(Rendezvous))
def test_inject_nulls_are_as_good_as_nothing(rendezvous: Rendezvous) -> None:
    options = InjectionOptions(rendezvous=rendezvous, dns=True, restricted=True)
    plain, framework = build(), build(taskNumber=None)
    set_nulls(get_spec([framework]))
    framework["spec"]["taskRoles"][0]["task"]["pod"]["metadata"] = {"annotations": None}

    found, expected = inject(framework, options), inject(plain, options)

    assert found[:-1] == expected[:-1]
    assert lint(found[-1], Surroundings()) == []
    spec, wanted = get_spec(found), get_spec(expected)
    # A variable list of null is one too.
    spec["containers"][0] = {k: v for k, v in spec["containers"][0].items() if v is not None}
    assert spec == wanted


def test_inject_account_by_its_old_field_stays() -> None:
    framework = build()
    get_spec([framework])["serviceAccount"] = "mine"

    objects = inject(framework, InjectionOptions())

    assert get_spec(objects)["serviceAccountName"] == "mine"
    assert "ServiceAccount" not in [body["kind"] for body in objects]
    del get_spec(objects)["serviceAccountName"]
    assert lint(objects[-1], Surroundings()) == []


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


@pytest.mark.parametrize("name", ["frameworkbarrier-volume", "frameworkbarrier-token", KEY_VOLUME])
def test_inject_volume_of_another_kind_with_our_name_is_refused(name: str) -> None:
    framework = build()
    get_spec([framework])["volumes"] = [{"name": name, "configMap": {"name": "settings"}}]

    with pytest.raises(InjectionError, match=f"volumes: {name} is the name"):
        inject(framework, InjectionOptions())


def test_inject_container_of_the_users_with_an_agents_name_is_refused() -> None:
    framework = build()
    get_spec([framework])["containers"].append({"name": "rendezvous", "image": "etcd:3"})

    with pytest.raises(InjectionError, match=r"containers\[1\]\.name: rendezvous"):
        inject(framework, InjectionOptions())


def test_inject_restricted_drops_capabilities_where_one_is_added() -> None:
    framework = build()
    get_spec([framework])["containers"][0]["securityContext"] = {
        "capabilities": {"add": ["NET_BIND_SERVICE"]}
    }

    spec = get_spec(inject(framework, InjectionOptions(restricted=True)))

    assert spec["containers"][0]["securityContext"]["capabilities"] == {
        "add": ["NET_BIND_SERVICE"],
        "drop": ["ALL"],
    }


def test_inject_wrapper_passes_over_a_role_without_containers() -> None:
    framework = build(taskNumber=0)
    get_spec([framework])["containers"] = []

    assert inject(framework, InjectionOptions(rendezvous=Rendezvous.WRAPPER))


def test_inject_dns_name_no_service_may_have_is_refused() -> None:
    framework = build()
    framework["metadata"]["name"] = "3d"

    with pytest.raises(InjectionError, match=r"metadata\.name: 3d begins with a digit"):
        inject(framework, InjectionOptions(dns=True))


def test_inject_dns_on_the_nodes_network_asks_the_clusters_dns() -> None:
    framework = build()
    get_spec([framework])["hostNetwork"] = True

    spec = get_spec(inject(framework, InjectionOptions(dns=True)))

    assert spec["dnsPolicy"] == "ClusterFirstWithHostNet"


def test_inject_all_of_its_own_output_changes_nothing() -> None:
    options = InjectionOptions(dns=True)
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "app"}}
    second = build()
    second["metadata"]["name"] = "second"

    once = inject_all([other, build(), second], options)

    assert inject_all(once, options) == once


def test_inject_all_keeps_an_object_of_the_users_own_with_the_name_of_ours() -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "job"},
        "spec": {"clusterIP": "None", "selector": {"app": "mine"}},
    }

    objects = inject_all([service, build()], InjectionOptions(dns=True))

    assert [body for body in objects if body["kind"] == "Service"] == [service]


def test_inject_command_without_a_framework_says_so() -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": []}

    done = run_inject("-", given=yaml.safe_dump(listed))

    assert (done.returncode, done.stdout) == (2, "")
    assert "no Framework in it" in done.stderr


def test_inject_command_opens_a_list_as_kubectl_prints_it() -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [build()]}

    done = run_inject("-", given=yaml.safe_dump(listed))

    assert done.returncode == 0
    assert "Framework" in [body["kind"] for body in yaml.safe_load_all(done.stdout)]
