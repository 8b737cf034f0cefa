"""TrainingJob -> Framework: launcher and workers, ends, restarts, host files, ssh, Services."""

import copy
from typing import Any

import pytest

from cli.authoring.rules import LintOptions, lint
from framework.api.codec import decode_framework
from framework.api.constants import FRAMEWORK_NAME, RETRYABLE_CODES_ANNOTATION
from framework.api.gang_key import refers_to_gang_key
from framework.api.leaving import LeaveNodesSpec
from framework.api.validation import validate_framework
from framework.kinds.trainingjob.compile import compile_trainingjob
from tests.framework.kinds.jobs import (
    DROPPED,
    Wire,
    build_trainingjob,
    edit,
    get_container,
    get_env,
    get_pod,
    get_role,
    list_init,
    list_names,
)

WORKER = ("spec", "etReplicaSpecs", "worker")
POD = ("template", "spec", "containers", 0)


def compile_with(*changes: Any, **spec: Any) -> Any:
    body = build_trainingjob(**spec)
    for change in changes:
        change(body)
    return compile_trainingjob(body)


def test_framework_is_valid_lints_clean_and_ends_with_its_launcher() -> None:
    body = build_trainingjob()
    before = copy.deepcopy(body)
    framework = compile_trainingjob(body).framework
    assert body == before
    assert validate_framework(decode_framework(framework)) == ()
    assert lint(framework, LintOptions(quota=())) == []
    ends = {
        role["name"]: (role["taskNumber"], *role["frameworkAttemptCompletionPolicy"].values())
        for role in framework["spec"]["taskRoles"]
    }
    assert ends == {"launcher": (1, 1, 1), "worker": (2, -1, -1)}


HOSTS = "frameworkbarrier.io/hosts"


@pytest.mark.parametrize(("hosts", "style"), [("names", "name"), ("addresses", None)])
def test_annotation_puts_names_of_workers_into_the_host_files(
    hosts: str, style: str | None
) -> None:
    compiled = compile_with(edit("metadata", annotations={HOSTS: hosts}))
    pod = get_pod(compiled, "launcher")
    sidecar = next(c for c in pod["spec"]["initContainers"] if c["name"] == "rendezvous")
    assert get_env(sidecar).get("FB_HOST_STYLE") == style
    companion = " ".join(get_container(compiled, "launcher")["command"])
    assert ("--host-style name" in companion) is (style is not None)


LEAVE = "frameworkbarrier.io/leave-nodes"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("timeoutSeconds=120", LeaveNodesSpec(120)),
        ("maxLeaves=3,withinSeconds=60,timeoutSeconds=86400", LeaveNodesSpec(86400, 3, 60)),
    ],
)
@pytest.mark.parametrize("mode", ["ssh", "kubexec"])
def test_annotation_lets_workers_leave_their_nodes_while_enough_others_stay(
    text: str, wanted: LeaveNodesSpec, mode: str
) -> None:
    compiled = compile_with(
        edit("metadata", annotations={LEAVE: text}),
        edit(*WORKER, replicas=4, minReplicas=3),
        launcherAttachMode=mode,
    )
    framework = decode_framework(compiled.framework)
    launcher, worker = framework.spec.task_roles
    assert worker.recovery is not None
    assert worker.recovery.leave_nodes == wanted
    assert (worker.min_member_count, worker.task_number) == (3, 4)
    assert (launcher.recovery, launcher.min_member_count) == (None, None)
    assert validate_framework(framework) == ()
    assert lint(compiled.framework, LintOptions(quota=())) == []
    (note,) = [note for note in compiled.notes if LEAVE in note.path]
    assert "fewer than 3 others" in note.message


def test_workers_without_a_least_number_leave_while_one_stays() -> None:
    annotate = edit("metadata", annotations={LEAVE: "timeoutSeconds=1"})
    compiled = compile_with(annotate, edit(*WORKER, minReplicas=DROPPED))
    assert get_role(compiled, "worker")["minMemberCount"] == 1


def test_workers_without_the_annotation_do_not_leave() -> None:
    role = get_role(compile_with(), "worker")
    assert not {"recovery", "minMemberCount"} & role.keys()


def test_launcher_waits_for_running_workers_and_gets_their_slots() -> None:
    compiled = compile_with()
    pod = get_pod(compiled, "launcher")
    assert list_init(pod) == [
        "barrier",
        "rendezvous",
        "rendezvous-install",
        "training-job-files",
    ]
    barrier, rendezvous, _, _ = pod["spec"]["initContainers"]
    assert get_env(barrier) == {"BARRIER_REQUIRE": "worker=all-running"}
    assert rendezvous["args"] == ["watch"]
    assert get_env(rendezvous)["FB_SLOTS"] == "worker=2"


def test_launcher_finds_the_host_files_at_the_paths_of_the_original() -> None:
    pod = get_pod(compile_with(), "launcher")
    links = pod["spec"]["initContainers"][-1]
    for link in (
        "current/hosts.horovod /etc/edl/hostfile",
        "discover_hosts.sh /etc/edl/discover_hosts.sh",
        "current/hosts.deepspeed /job/hostfile",
        "current/hosts.deepspeed /etc/mpi/deepspeed-hostfile",
    ):
        assert f"ln -sf /mnt/frameworkbarrier/{link}" in links["command"][-1]
    (container,) = pod["spec"]["containers"]
    assert links["image"] == container["image"]
    paths = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert paths == {
        "/etc/edl",
        "/etc/mpi",
        "/job",
        "/root/.ssh",
        "/mnt/frameworkbarrier",
        "/var/run/secrets/kubernetes.io/serviceaccount",
    }


@pytest.mark.parametrize("role", ["launcher", "worker"])
def test_files_are_linked_with_the_rights_of_the_container_that_gets_them(role: str) -> None:
    own = {"runAsUser": 1000, "runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}}
    at = ("spec", "etReplicaSpecs", role, *POD)
    compiled = compile_with(edit(*at, securityContext=own), launcherAttachMode="kubexec")
    links = get_pod(compiled, role)["spec"]["initContainers"][-1]
    assert links["name"] == "training-job-files"
    assert links["securityContext"] == own


def test_agent_for_scalers_is_started_beside_the_command_of_the_launcher() -> None:
    compiled = compile_with()
    container = get_container(compiled, "launcher")
    shell, option, script, name, *command = container["command"]
    assert (shell, option, name, command) == ("sh", "-c", "sh", ["python3", "/app.py"])
    agent = "python3 /mnt/frameworkbarrier/agent/rendezvous.pyz watch --sidecar-end native"
    flags = "--scalers run --slots worker=2 --reach-running worker --reach-timeout-sec 600"
    assert f"{agent} {flags} </dev/null &" in script
    assert script.endswith('exec "$@"')
    assert "env" not in container
    sidecar = get_pod(compiled, "launcher")["spec"]["initContainers"][1]
    # Only the agent that carries out the requests acknowledges.
    assert get_env(sidecar)["FB_ACKNOWLEDGE"] == "off"
    assert list_names(compiled, "RoleBinding") == [
        "frameworkbarrier-elastic",
        "frameworkbarrier-elastic:acknowledge",
    ]


def test_launcher_without_a_command_has_no_agent_for_scalers() -> None:
    path = ("spec", "etReplicaSpecs", "launcher", "template", "spec", "containers", 0)
    compiled = compile_with(edit(*path, command=DROPPED))
    assert "command" not in get_container(compiled, "launcher")
    assert list_init(get_pod(compiled, "launcher"))[0] == "barrier"
    assert any("scalers run no script" in note.message for note in compiled.notes)


@pytest.mark.parametrize(
    ("limits", "spec", "slots"),
    [
        ({"nvidia.com/gpu": "8"}, {}, 8),
        ({"nvidia.com/gpu": 4}, {}, 4),
        ({"cpu": "2"}, {}, 1),
        ({"nvidia.com/gpu": "9" * 5000}, {}, 1),
        ({"nvidia.com/gpu": "8"}, {"slotsPerWorker": 3}, 3),
    ],
)
def test_slots_are_those_of_the_spec_or_the_gpus(limits: Wire, spec: Wire, slots: int) -> None:
    compiled = compile_with(edit(*WORKER, *POD, resources={"limits": limits}), **spec)
    rendezvous = get_pod(compiled, "launcher")["spec"]["initContainers"][1]
    assert get_env(rendezvous)["FB_SLOTS"] == f"worker={slots}"


def test_workers_without_a_command_run_an_ssh_server_and_have_no_agent() -> None:
    compiled = compile_with()
    pod, container = get_pod(compiled, "worker"), get_container(compiled, "worker")
    assert "/usr/sbin/sshd && { sleep 365d" in container["command"][-1]
    assert "initContainers" not in pod["spec"]
    assert "serviceAccountName" not in pod["spec"]
    own = get_container(compile_with(edit(*WORKER, *POD, command=["mine"])), "worker")
    assert own["command"] == ["mine"]


def test_kubexec_has_agents_and_the_gang_key_in_place_of_ssh() -> None:
    compiled = compile_with(launcherAttachMode="kubexec")
    for role, init in (
        ("launcher", ["barrier", "rendezvous", "rendezvous-install", "training-job-files"]),
        ("worker", ["rendezvous", "training-job-files"]),
    ):
        pod, container = get_pod(compiled, role), get_container(compiled, role)
        assert list_init(pod) == init
        assert refers_to_gang_key(pod, "elastic")
        paths = {mount["mountPath"] for mount in container["volumeMounts"]}
        assert {"/var/run/frameworkbarrier", "/etc/mpi"} <= paths
        assert "/root/.ssh" not in paths
        link = "ln -sf /mnt/frameworkbarrier/agent/kubexec.sh /etc/mpi/kubexec.sh"
        assert link in pod["spec"]["initContainers"][-1]["command"][-1]
    assert get_env(get_container(compiled, "launcher")) == {
        "OMPI_MCA_plm_rsh_agent": "/etc/mpi/kubexec.sh",
        "PRTE_MCA_plm_ssh_agent": "/etc/mpi/kubexec.sh",
        "HYDRA_LAUNCHER_EXEC": "/etc/mpi/kubexec.sh",
    }
    framework = compiled.framework
    assert validate_framework(decode_framework(framework)) == ()
    assert lint(framework, LintOptions(quota=())) == []
    assert compiled.key_notes == ()
    assert compiled.key_secret == ""


def test_worker_with_kubexec_is_started_by_the_agent_and_serves_remote_commands() -> None:
    container = get_container(compile_with(launcherAttachMode="kubexec"), "worker")
    agent = ["python3", "/mnt/frameworkbarrier/agent/rendezvous.pyz", "run", "--"]
    assert container["command"] == [*agent, "sh", "-c", "exec sleep 365d"]
    assert get_env(container)["FB_RSH"] == "on"
    changed = compile_with(edit(*WORKER, *POD, command=["mine"]), launcherAttachMode="kubexec")
    assert get_container(changed, "worker")["command"] == [*agent, "mine"]


@pytest.mark.parametrize(
    ("annotations", "secret"),
    [({}, "elastic"), ({"arena.kubeflow.org/ssh-secret": "keys"}, "keys")],
)
def test_key_is_mounted_in_both_roles(annotations: Wire, secret: str) -> None:
    compiled = compile_with(edit("metadata", annotations=annotations))
    for role in ("launcher", "worker"):
        volumes = get_pod(compiled, role)["spec"]["volumes"]
        (source,) = [volume["secret"] for volume in volumes if "secret" in volume]
        assert (source["secretName"], source["defaultMode"]) == (secret, 0o600)
        # A server refuses keys in a directory in which all may write, as a volume is.
        paths = [item["path"].partition(".ssh/")[2] for item in source["items"]]
        assert paths == ["id_rsa", "id_rsa.pub", "authorized_keys", "config"]
        mounts = get_container(compiled, role)["volumeMounts"]
        assert [m["subPath"] for m in mounts if m["mountPath"] == "/root/.ssh"] == [".ssh"]
    (note,) = compiled.key_notes
    assert f"mount the Secret {secret}" in note.message
    # `framework run` creates no Secret of a name that the user has chosen.
    assert ("`framework run` creates it" in note.message) == (not annotations)
    assert compiled.key_secret == secret


def test_each_worker_has_a_service_with_the_name_of_its_pod_that_selects_it() -> None:
    compiled = compile_with()
    assert list_names(compiled, "Service") == ["elastic-worker-0", "elastic-worker-1"]
    service = compiled.supporting[-1]
    assert [port["port"] for port in service["spec"]["ports"]] == [22, 9009]
    labels = get_pod(compiled, "worker")["metadata"]["labels"]
    wanted = {**labels, "replica-index": "1", FRAMEWORK_NAME: "elastic"}
    assert service["spec"]["selector"] == wanted
    assert labels == {
        "group-name": "kai.alibabacloud.com",
        "training-job-name": "elastic",
        "training-job-role": "worker",
        "replica-index": "{{FC_TASK_INDEX}}",
    }
    assert "replica-index" not in get_pod(compiled, "launcher")["metadata"]["labels"]


@pytest.mark.parametrize(
    ("spec", "retries"),
    [
        ({}, 0),
        ({"backoffLimit": 3}, 0),
        ({"restartPolicy": "OnFailure"}, 6),
        ({"restartPolicy": "OnFailure", "backoffLimit": 3}, 3),
    ],
)
def test_job_is_started_again_on_failure_only(spec: Wire, retries: int) -> None:
    policy = compile_with(**spec).framework["spec"]["retryPolicy"]
    assert policy["maxRetryCount"] == retries


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (None, (False, 0)),
        ("Never", (False, 0)),
        ("OnFailure", (False, -1)),
        ("Always", (False, -2)),
        ("ExitCode", (True, 0)),
    ],
)
def test_workers_are_replaced_by_their_restart_policy(
    policy: str | None, expected: tuple[bool, int]
) -> None:
    compiled = compile_with(edit(*WORKER, restartPolicy=policy))
    retry = get_role(compiled, "worker")["task"]["retryPolicy"]
    assert (retry["fancyRetryPolicy"], retry["maxRetryCount"]) == expected


def test_suspended_job_does_not_start() -> None:
    annotations = {"job-supervisor.kube-ai.io/job-suspended": "true"}
    compiled = compile_with(edit("metadata", annotations=annotations))
    assert compiled.framework["spec"]["executionType"] == "Stop"
    assert compile_with().framework["spec"]["executionType"] == "Start"


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("All", "RetainUntilEnd"), ("Running", "RetainUntilEnd"), ("None", "RetainRunning")],
)
def test_clean_pod_policy_decides_whether_workers_stay_and_the_launcher_stays(
    policy: str, expected: str
) -> None:
    spec = compile_with(cleanPodPolicy=policy).framework["spec"]
    launcher, worker = spec["taskRoles"]
    assert worker.get("completedPodPolicy") == expected
    assert (spec["completedPodPolicy"], launcher.get("completedPodPolicy")) == ("Retain", None)


def test_retryable_codes_of_the_job_are_noted() -> None:
    body = build_trainingjob()
    body["metadata"]["annotations"] = {RETRYABLE_CODES_ANNOTATION: "main=128-255"}
    paths = [note.path for note in compile_trainingjob(body).notes]
    assert f"metadata.annotations[{RETRYABLE_CODES_ANNOTATION}]" in paths


def test_what_is_left_out_is_noted() -> None:
    compiled = compile_with(
        edit("spec", "etReplicaSpecs", "launcher", restartPolicy="Always"),
        other=1,
    )
    assert [note.path for note in compiled.notes] == [
        "spec.other",
        "spec.etReplicaSpecs.launcher.restartPolicy",
        "spec.etReplicaSpecs.worker",
        "spec.etReplicaSpecs.launcher.template.spec.restartPolicy",
        "spec.etReplicaSpecs.worker.template.spec.restartPolicy",
    ]
