"""TfJob -> Framework: roles, ends, retries, TF_CONFIG, Services, TensorBoard, both dialects."""

import copy
import json

import pytest

from cli.authoring.rules import LintOptions, lint
from framework.api.codec import decode_framework
from framework.api.constants import (
    FRAMEWORK_NAME,
    LEAVE_NODES_ANNOTATION,
    RETRYABLE_CODES_ANNOTATION,
    WRAPPER_ANNOTATION,
)
from framework.api.images import RENDEZVOUS
from framework.api.validation import validate_framework
from framework.kinds.tfjob.compile import compile_tfjob
from framework.kinds.tfjob.defaults import build_runtime_id
from framework.kinds.tfjob.types import TF_CONFIG_ANNOTATION
from tests.framework.kinds.jobs import (
    Change,
    Wire,
    build_template,
    build_tfjob,
    edit,
    get_container,
    get_env,
    get_pod,
    get_role,
    list_init,
    list_names,
    spell_snake,
)

BY_SERVICES = edit("metadata", annotations={TF_CONFIG_ANNOTATION: "services"})


def test_roles_have_the_types_counts_and_ends_of_the_job() -> None:
    compiled = compile_tfjob(build_tfjob())
    ends = {
        role["name"]: (role["taskNumber"], *role["frameworkAttemptCompletionPolicy"].values())
        for role in compiled.framework["spec"]["taskRoles"]
    }
    assert ends == {"master": (1, 1, 1), "worker": (2, -1, -1), "ps": (2, -1, -1)}
    assert compiled.framework["metadata"] == {"name": "job", "namespace": "team"}
    assert compiled.framework["spec"]["completedPodPolicy"] == "Retain"


@pytest.mark.parametrize("change", [edit(), BY_SERVICES], ids=["agent", "services"])
def test_framework_is_valid_and_lints_clean(change: Change) -> None:
    body = build_tfjob(tensorboard={"logDir": "/logs"})
    change(body)
    framework = compile_tfjob(body).framework
    assert validate_framework(decode_framework(framework)) == ()
    assert lint(framework, LintOptions(quota=())) == []


def test_exit_codes_of_the_container_tensorflow_are_retried_from_128_on() -> None:
    compiled = compile_tfjob(build_tfjob())
    for role in ("master", "worker", "ps"):
        annotations = get_pod(compiled, role)["metadata"]["annotations"]
        assert annotations[RETRYABLE_CODES_ANNOTATION] == "tensorflow=128-255"
        policy = get_role(compiled, role)["task"]["retryPolicy"]
        assert policy == {"fancyRetryPolicy": True, "maxRetryCount": 0}


def test_exit_codes_that_the_template_gives_are_kept() -> None:
    body = build_tfjob()
    given = {RETRYABLE_CODES_ANNOTATION: "tensorflow=130-143", "mine": "1"}
    edit("spec", "replicaSpecs", 0, "template", metadata={"annotations": given})(body)
    compiled = compile_tfjob(body)
    assert get_pod(compiled, "master")["metadata"]["annotations"].items() >= given.items()
    worker = get_pod(compiled, "worker")["metadata"]["annotations"]
    assert worker[RETRYABLE_CODES_ANNOTATION] == "tensorflow=128-255"


def test_both_dialects_become_the_same() -> None:
    body = build_tfjob()
    before = copy.deepcopy(body)
    snake = spell_snake(body)
    assert "replica_specs" in snake["spec"]
    camel_result, snake_result = compile_tfjob(body), compile_tfjob(snake)
    assert snake_result.framework == camel_result.framework
    assert snake_result.supporting == camel_result.supporting
    assert body == before


def test_dialects_may_be_mixed_and_notes_name_the_fields_as_written() -> None:
    body = build_tfjob()
    body["spec"]["replica_specs"] = body["spec"].pop("replicaSpecs")
    notes = [str(note) for note in compile_tfjob(body).notes]
    assert notes[0].startswith("spec.replica_specs[0].template.spec.restartPolicy: is OnFailure;")


def test_defaults_are_one_master_on_port_2222() -> None:
    body = build_tfjob(replicaSpecs=[{"template": build_template()}])
    del body["spec"]["runtimeId"]
    compiled = compile_tfjob(body)
    assert get_role(compiled, "master")["taskNumber"] == 1
    assert get_env(get_container(compiled, "master"))["FB_PORTS"] == "master=2222"
    assert list_names(compiled, "Service") == [f"master-{build_runtime_id('team', 'job')}-0"]


def test_runtime_id_of_a_name_is_stable_and_differs_by_namespace() -> None:
    assert build_runtime_id("a", "job") == build_runtime_id("a", "job")
    assert len({build_runtime_id(n, "job") for n in ("", "a", "b")}) == 3


def test_command_is_started_by_the_agent_with_the_settings_of_the_original() -> None:
    compiled = compile_tfjob(build_tfjob())
    pod, container = get_pod(compiled, "worker"), get_container(compiled, "worker")
    agent = "/mnt/frameworkbarrier/agent/rendezvous.pyz"
    assert container["command"] == ["python3", agent, "run", "--", "python3", "/app.py"]
    assert pod["metadata"]["annotations"] == {
        RETRYABLE_CODES_ANNOTATION: "tensorflow=128-255",
        WRAPPER_ANNOTATION: "true",
    }
    assert list_init(pod) == ["rendezvous"]
    assert get_env(container) == {
        "FB_ACKNOWLEDGE": "off",
        "FB_PORTS": "master=2222,worker=2223,ps=2222",
        "FB_FORMATS": "tf_config",
        "FB_TF_MASTER_TYPE": "master",
        "FB_TF_ENVIRONMENT": "cloud",
    }


def test_only_the_container_tensorflow_gets_the_agent_and_its_token() -> None:
    body = build_tfjob()
    containers = body["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"]
    containers.insert(0, {"name": "logs", "image": "logs:1", "command": ["tail"]})
    compiled = compile_tfjob(body)
    logs, tensorflow = (get_container(compiled, "master", index) for index in (0, 1))
    assert logs["command"] == ["tail"]
    assert "env" not in logs
    mounts = [[mount["name"] for mount in c["volumeMounts"]] for c in (logs, tensorflow)]
    assert [("frameworkbarrier-token" in names) for names in mounts] == [False, True]


def test_without_a_command_all_roles_get_the_tf_config_of_the_original() -> None:
    body = build_tfjob()
    edit("spec", "replicaSpecs", 0, template=build_template(command=[]))(body)
    compiled = compile_tfjob(body)
    text = get_env(get_container(compiled, "worker"))["TF_CONFIG"]
    assert json.loads(text.replace("{{FC_TASK_INDEX}}", "1")) == {
        "cluster": {
            "master": ["master-76no-0:2222"],
            "worker": ["worker-76no-0:2223", "worker-76no-1:2223"],
            "ps": ["ps-76no-0:2222", "ps-76no-1:2222"],
        },
        "task": {"type": "worker", "index": 1},
        "environment": "cloud",
    }
    assert list_init(get_pod(compiled, "worker")) == ["barrier"]
    assert get_container(compiled, "worker")["command"] == ["python3", "/app.py"]
    assert [n.path for n in compiled.notes if "is missing" in n.message] == [
        "spec.replicaSpecs[0].template.spec.containers[0].command"
    ]


def test_tf_config_of_the_user_is_replaced_as_by_the_original() -> None:
    body = build_tfjob()
    BY_SERVICES(body)
    mine = [{"name": "TF_CONFIG", "value": "mine"}, {"name": "A", "value": "1"}]
    edit("spec", "replicaSpecs", 0, template=build_template(env=mine))(body)
    names = [item["name"] for item in get_container(compile_tfjob(body), "master")["env"]]
    assert names == ["A", "TF_CONFIG"]


@pytest.mark.parametrize(("spec", "image"), [({}, "app:1"), ({"tfImage": "tf:2"}, "tf:2")])
def test_default_ps_runs_the_server_of_the_site_folder(spec: Wire, image: str) -> None:
    container = get_container(compile_tfjob(build_tfjob(**spec)), "ps")
    assert container["image"] == image
    assert "agent/site/peers_tensorflow_server.py" in container["command"][-1]


def test_stored_object_of_the_original_is_converted_like_the_users() -> None:
    stored = build_tfjob(RuntimeId="76no")
    del stored["spec"]["runtimeId"]
    old = build_template(volumeMounts=[{"name": "ps-config-volume", "mountPath": "/ps-server"}])
    for replica in stored["spec"]["replicaSpecs"]:
        replica["IsDefaultPS"] = replica["tfReplicaType"] == "PS"
    stored["spec"]["replicaSpecs"][2]["template"] = old
    assert compile_tfjob(stored).framework == compile_tfjob(build_tfjob()).framework


def test_each_replica_has_a_headless_service_with_the_old_name_that_selects_its_pod() -> None:
    compiled = compile_tfjob(build_tfjob())
    names = ["master-76no-0", "worker-76no-0", "worker-76no-1", "ps-76no-0", "ps-76no-1"]
    assert list_names(compiled, "Service") == names
    service = next(b for b in compiled.supporting if b["metadata"]["name"] == "worker-76no-1")
    assert service["metadata"]["namespace"] == "team"
    assert service["spec"]["ports"] == [{"name": "tf-port", "port": 2223}]
    assert (service["spec"]["clusterIP"], service["spec"]["publishNotReadyAddresses"]) == (
        "None",
        True,
    )
    labels = get_pod(compiled, "worker")["metadata"]["labels"]
    assert labels["task_index"] == "{{FC_TASK_INDEX}}"
    wanted = {**labels, "task_index": "1", FRAMEWORK_NAME: "job"}
    assert service["spec"]["selector"] == wanted


def test_tensorboard_becomes_deployment_and_service() -> None:
    volume = {"name": "logs", "emptyDir": {}}
    mount = {"name": "logs", "mountPath": "/logs"}
    board = {
        "logDir": "/logs",
        "serviceType": "LoadBalancer",
        "volumes": [volume],
        "volumeMounts": [mount],
    }
    compiled = compile_tfjob(build_tfjob(tensorboard=board))
    service, deployment = compiled.supporting[-2:]
    assert service["metadata"]["name"] == deployment["metadata"]["name"] == "tensorboard-76no"
    assert service["spec"]["type"] == "LoadBalancer"
    assert service["spec"]["ports"] == [{"name": "tb-port", "port": 80, "targetPort": 6006}]
    pod = deployment["spec"]["template"]
    assert service["spec"]["selector"] == pod["metadata"]["labels"]
    assert pod["spec"]["volumes"] == [volume]
    (container,) = pod["spec"]["containers"]
    assert container["command"] == ["tensorboard", "--logdir", "/logs", "--host", "0.0.0.0"]
    assert container["volumeMounts"] == [mount]


def test_restart_policy_becomes_never_with_retries_of_transient_failures() -> None:
    compiled = compile_tfjob(build_tfjob())
    role = get_role(compiled, "master")
    assert role["task"]["pod"]["spec"]["restartPolicy"] == "Never"
    assert role["task"]["retryPolicy"] == {"fancyRetryPolicy": True, "maxRetryCount": 0}
    paths = [note.path for note in compiled.notes if "translated to Never" in note.message]
    assert paths == [
        "spec.replicaSpecs[0].template.spec.restartPolicy",
        "spec.replicaSpecs[1].template.spec.restartPolicy",
    ]


def test_old_name_of_gpus_becomes_the_present_one() -> None:
    body = build_tfjob()
    limits = {"limits": {"alpha.kubernetes.io/nvidia-gpu": 1}}
    edit("spec", "replicaSpecs", 0, template=build_template(resources=limits))(body)
    compiled = compile_tfjob(body)
    assert get_container(compiled, "master")["resources"] == {"limits": {"nvidia.com/gpu": 1}}
    assert any("nvidia-gpu" in note.path for note in compiled.notes)


def test_types_without_replicas_and_unknown_fields_are_left_out() -> None:
    body = build_tfjob(other=1)
    edit("spec", "replicaSpecs", 2, replicas=0)(body)
    compiled = compile_tfjob(body)
    assert [role["name"] for role in compiled.framework["spec"]["taskRoles"]] == [
        "master",
        "worker",
    ]
    assert "spec.other: unknown field" in str(compiled.notes[0])


def test_annotation_for_workers_that_leave_their_nodes_is_noted() -> None:
    body = build_tfjob()
    body["metadata"]["annotations"] = {LEAVE_NODES_ANNOTATION: "timeoutSeconds=60"}
    (note,) = [note for note in compile_tfjob(body).notes if "annotations" in note.path]
    assert str(note) == (
        f"metadata.annotations[{LEAVE_NODES_ANNOTATION}]: "
        "has no effect on a TfJob: it is for the workers of a TrainingJob"
    )


def test_retryable_codes_of_the_job_are_noted() -> None:
    body = build_tfjob()
    body["metadata"]["annotations"] = {RETRYABLE_CODES_ANNOTATION: "tensorflow=1-5"}
    (note,) = [note for note in compile_tfjob(body).notes if "annotations" in note.path]
    assert str(note) == (
        f"metadata.annotations[{RETRYABLE_CODES_ANNOTATION}]: "
        "has no effect here: move it to the metadata of a Pod template"
    )


def test_account_of_the_user_is_kept_and_bound() -> None:
    body = build_tfjob()
    body["spec"]["replicaSpecs"][0]["template"]["spec"]["serviceAccountName"] = "mine"
    compiled = compile_tfjob(body)
    assert get_pod(compiled, "master")["spec"]["serviceAccountName"] == "mine"
    binding = next(b for b in compiled.supporting if b["kind"] == "RoleBinding")
    assert [s["name"] for s in binding["subjects"]] == ["frameworkbarrier-job", "mine"]


@pytest.mark.parametrize("tf_config", ["", "services"])
def test_json_logs_are_switched_on_by_one_annotation(tf_config: str) -> None:
    annotations = {"frameworkbarrier.io/tf-config": tf_config}
    plain = compile_tfjob(annotate(build_tfjob(), annotations)).framework
    json_logs = {**annotations, "frameworkbarrier.io/json-logs": "true"}
    changed = compile_tfjob(annotate(build_tfjob(), json_logs)).framework
    for before, after in zip(plain["spec"]["taskRoles"], changed["spec"]["taskRoles"], strict=True):
        old, new = (role["task"]["pod"]["spec"]["containers"][0] for role in (before, after))
        if before["name"] == "ps":
            assert new == old
            continue
        command = ["python3", "/app.py"]
        assert old["command"][-2:] == new["command"][-2:] == command
        prefix = new["command"][len(old["command"]) - 2 : -2]
        assert prefix[:2] == ["sh", "-c"]
        assert "agent/site/peers_logs" in prefix[2]
        names = [each["name"] for each in after["task"]["pod"]["spec"]["initContainers"]]
        assert RENDEZVOUS in names


def test_json_logs_without_a_command_are_noted() -> None:
    job = annotate(build_tfjob(), {"frameworkbarrier.io/json-logs": "true"})
    del job["spec"]["replicaSpecs"][1]["template"]["spec"]["containers"][0]["command"]
    notes = [str(note) for note in compile_tfjob(job).notes]
    (note,) = [note for note in notes if "json-logs" in note]
    assert note.startswith("spec.replicaSpecs[1].template.spec.containers[0].command: is missing")


def annotate(job: Wire, annotations: dict[str, str]) -> Wire:
    job["metadata"]["annotations"] = annotations
    return job
