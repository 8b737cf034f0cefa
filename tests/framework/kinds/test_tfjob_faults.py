"""Faults of TfJobs: each is named by field, with its reason and its remedy."""

import pytest

from framework.api.constants import IN_PLACE_ANNOTATION, RETRYABLE_CODES_ANNOTATION
from framework.api.fielderrors import FieldErrors
from framework.kinds.tfjob.compile import compile_tfjob
from tests.framework.kinds.jobs import DROPPED, Change, Wire, build_template, build_tfjob, edit

MASTER = ("spec", "replicaSpecs", 0)
AT_MASTER = "spec.replicaSpecs[0]"
POD = f"{AT_MASTER}.template.spec"


MISTAKES: dict[str, tuple[Change, str, str]] = {
    "no-spec": (edit(spec=DROPPED), "spec", "is required: write the spec of the job"),
    "no-name": (edit("metadata", name=DROPPED), "metadata.name", "is required: name the job"),
    "bad-name": (edit("metadata", name="My_Job"), "metadata.name", "use a-z, 0-9 and '-'"),
    "long-name": (edit("metadata", name="a" * 60), "metadata.name", "use at most 51 characters"),
    "namespace": (edit("metadata", namespace="A b"), "metadata.namespace", "correct it"),
    "runtime-id": (edit("spec", runtimeId="No_1"), "spec.runtimeId", "of a-z, 0-9 and '-'"),
    "no-master": (
        edit(*MASTER, tfReplicaType="WORKER"),
        "spec.replicaSpecs",
        "has no MASTER, with which the job ends: add an entry with tfReplicaType MASTER",
    ),
    "two-masters": (
        edit("spec", "replicaSpecs", 1, tfReplicaType="MASTER", replicas=1),
        "spec.replicaSpecs[1].tfReplicaType",
        "MASTER is also the type of entry 0: merge the two",
    ),
    "masters": (
        edit(*MASTER, replicas=2),
        f"{AT_MASTER}.replicas",
        "is 2, and a job has one MASTER: write 1",
    ),
    "type": (
        edit("spec", "replicaSpecs", 1, tfReplicaType="Worker"),
        "spec.replicaSpecs[1].tfReplicaType",
        "is 'Worker': write one of MASTER, PS, WORKER, in capital letters",
    ),
    "negative-replicas": (
        edit("spec", "replicaSpecs", 1, replicas=-1),
        "spec.replicaSpecs[1].replicas",
        "must be from 0 to 10000, not -1: it is the number of Pods",
    ),
    "too-many": (
        edit("spec", "replicaSpecs", 1, replicas=9999),
        "spec.replicaSpecs",
        "asks for 10002 Pods: lower replicas to at most 10000",
    ),
    "text-replicas": (
        edit("spec", "replicaSpecs", 1, replicas="2"),
        "spec.replicaSpecs[1].replicas",
        "must be an integer, not string '2'",
    ),
    "port": (edit(*MASTER, tfPort=70000), f"{AT_MASTER}.tfPort", "is not a port: use 1 to 65535"),
    "no-template": (
        edit(*MASTER, template=DROPPED),
        f"{AT_MASTER}.template",
        "is required for MASTER: write a Pod template",
    ),
    "container-name": (
        edit(*MASTER, template=build_template("main")),
        f"{POD}.containers",
        "none has the name tensorflow: give this name to the container that runs TensorFlow",
    ),
    "no-containers": (
        edit(*MASTER, template={"spec": {"containers": []}}),
        f"{POD}.containers",
        "is required: list at least one container",
    ),
    "template-list": (
        edit(*MASTER, template=[]),
        f"{AT_MASTER}.template",
        "must be an object, not array",
    ),
    "command-text": (
        edit(*MASTER, template=build_template(command="python3 /app.py")),
        f"{POD}.containers[0].command",
        "must be a list, not string",
    ),
    "agents-volume": (
        edit(
            *MASTER,
            "template",
            "spec",
            volumes=[{"name": "frameworkbarrier-volume", "emptyDir": {}}],
        ),
        f"{POD}.volumes[0].name",
        "is the name of a part that is added: give it another name",
    ),
    "restart-in-place": (
        edit(*MASTER, "template", metadata={"annotations": {IN_PLACE_ANNOTATION: "x"}}),
        f"{AT_MASTER}.template.metadata.annotations[{IN_PLACE_ANNOTATION}]",
        "only the roles of a Framework restart in place: remove it",
    ),
    "retryable-exit-codes": (
        edit(*MASTER, "template", metadata={"annotations": {RETRYABLE_CODES_ANNOTATION: "128"}}),
        f"{AT_MASTER}.template.metadata.annotations[{RETRYABLE_CODES_ANNOTATION}]",
        "'128' cannot be read: write CONTAINER=LOW-HIGH with codes from 1 to 255",
    ),
    "retryable-exit-codes-of-no-container": (
        edit(*MASTER, "template", metadata={"annotations": {RETRYABLE_CODES_ANNOTATION: "a=1-2"}}),
        f"{AT_MASTER}.template.metadata.annotations[{RETRYABLE_CODES_ANNOTATION}]",
        "no container has the name a: write the name of one: tensorflow",
    ),
    "log-dir": (
        edit("spec", tensorboard={"serviceType": "NodePort"}),
        "spec.tensorboard.logDir",
        "is required: write the directory or URL of the event files",
    ),
    "service-type": (
        edit("spec", tensorboard={"logDir": "/logs", "serviceType": "External"}),
        "spec.tensorboard.serviceType",
        "is 'External': write one of ClusterIP, NodePort, LoadBalancer",
    ),
    "tf-config": (
        edit("metadata", annotations={"frameworkbarrier.io/tf-config": "service"}),
        "metadata.annotations[frameworkbarrier.io/tf-config]",
        "is 'service'; write services, or leave it out",
    ),
    "json-logs": (
        edit("metadata", annotations={"frameworkbarrier.io/json-logs": "yes"}),
        "metadata.annotations[frameworkbarrier.io/json-logs]",
        "is 'yes'; write true or false, or leave it out",
    ),
    "both-spellings": (
        edit(*MASTER, tf_port=1, tfPort=2),
        f"{AT_MASTER}.tf_port",
        "is the same field as tfPort: keep one of them",
    ),
}


def find_errors(change: Change) -> dict[str, str]:
    body = build_tfjob()
    change(body)
    with pytest.raises(FieldErrors) as caught:
        compile_tfjob(body)
    return {error.path: error.message for error in caught.value.errors}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake_is_named_with_field_reason_and_remedy(name: str) -> None:
    change, path, message = MISTAKES[name]
    errors = find_errors(change)
    assert message in errors[path]


@pytest.mark.parametrize(
    ("board", "path"),
    [
        ({"serviceType": "LoadBalancer"}, "spec.tensorboard.serviceType"),
        (
            {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": {"path": "/"}}]},
            "spec.tensorboard.volumes[1].hostPath",
        ),
    ],
)
def test_field_that_only_the_controller_refuses_is_noted_for_others(board: Wire, path: str) -> None:
    body = build_tfjob(tensorboard={"logDir": "/logs", **board})
    (note,) = [note for note in compile_tfjob(body).notes if note.path == path]
    with pytest.raises(FieldErrors) as caught:
        compile_tfjob(body, is_by_controller=True)
    (fault,) = caught.value.errors
    assert (fault.path, fault.message) == (note.path, note.message)
    assert "the controller creates" in note.message


def test_all_mistakes_are_reported_together_and_as_spelt() -> None:
    body = build_tfjob()
    body["spec"]["replica_specs"] = body["spec"].pop("replicaSpecs")
    body["spec"]["replica_specs"][0] |= {"tf_port": 0, "replicas": 2}
    with pytest.raises(FieldErrors) as caught:
        compile_tfjob(body)
    assert [error.path for error in caught.value.errors] == [
        "spec.replica_specs[0].replicas",
        "spec.replica_specs[0].tf_port",
    ]


@pytest.mark.parametrize("spec", [{}, {"tensorboard": {"logDir": "/logs"}}], ids=["ps", "board"])
def test_without_any_image_tf_image_is_named(spec: Wire) -> None:
    body = build_tfjob(**spec)
    if spec:
        del body["spec"]["replicaSpecs"][2]
    del body["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]["image"]
    with pytest.raises(FieldErrors) as caught:
        compile_tfjob(body)
    assert [error.path for error in caught.value.errors] == ["spec.tfImage"]


def test_a_long_list_is_reported_in_a_few_lines() -> None:
    body = build_tfjob(replicaSpecs=[{"tfReplicaType": "PS", "tfPort": 0}] * 1000)
    with pytest.raises(FieldErrors) as caught:
        compile_tfjob(body)
    messages = [str(error) for error in caught.value.errors]
    assert any("has 1000 entries: write at most one for each" in text for text in messages)
    assert len(messages) < 20
