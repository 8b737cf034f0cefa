"""Faults of TrainingJobs: each is named by field, with its reason and its remedy."""

import pytest

from framework.api.constants import IN_PLACE_ANNOTATION
from framework.api.fielderrors import FieldErrors
from framework.kinds.trainingjob.compile import compile_trainingjob
from tests.framework.kinds.jobs import DROPPED, Change, build_trainingjob, edit

AT = "spec.etReplicaSpecs"
SPECS = ("spec", "etReplicaSpecs")
SECRET = "arena.kubeflow.org/ssh-secret"
LEAVE = "frameworkbarrier.io/leave-nodes"
LEAVE_FORM = "write timeoutSeconds=120, or timeoutSeconds=120,maxLeaves=10,withinSeconds=86400"

MISTAKES: dict[str, tuple[Change, str, str]] = {
    "spec-text": (edit(spec="x"), "spec", "must be an object, not string"),
    "no-metadata": (edit(metadata=DROPPED), "metadata", "is required: write an object with a name"),
    "digit-name": (edit("metadata", name="1a"), "metadata.name", "beginning with a letter"),
    "long-name": (edit("metadata", name="a" * 63), "metadata.name", "use at most 51 characters"),
    "annotation": (
        edit("metadata", annotations={"a": True}),
        "metadata.annotations[a]",
        "must be a string, not boolean: quote it",
    ),
    "secret": (
        edit("metadata", annotations={SECRET: "my key"}),
        f"metadata.annotations[{SECRET}]",
        "'my key' is not the name of a Secret: use a-z, 0-9, '-' and '.'",
    ),
    "hosts": (
        edit("metadata", annotations={"frameworkbarrier.io/hosts": "name"}),
        "metadata.annotations[frameworkbarrier.io/hosts]",
        "is 'name'; write addresses or names",
    ),
    "restart-in-place": (
        edit(*SPECS, "worker", "template", metadata={"annotations": {IN_PLACE_ANNOTATION: "x"}}),
        f"{AT}.worker.template.metadata.annotations[{IN_PLACE_ANNOTATION}]",
        "only the roles of a Framework restart in place: remove it",
    ),
    "attach-mode": (
        edit("spec", launcherAttachMode="rsh"),
        "spec.launcherAttachMode",
        "must be one of ssh, kubexec; not 'rsh'",
    ),
    "clean-pods": (
        edit("spec", cleanPodPolicy="running"),
        "spec.cleanPodPolicy",
        "must be one of All, Running, None; not 'running'",
    ),
    "slots": (
        edit("spec", slotsPerWorker=0),
        "spec.slotsPerWorker",
        "must be from 1 to 1024, not 0: it is the number of processes per worker",
    ),
    "backoff": (
        edit("spec", backoffLimit=-1),
        "spec.backoffLimit",
        "must be from 0 to 1000, not -1: it is the number of restarts of the job",
    ),
    "restart-policy": (
        edit("spec", restartPolicy="Always"),
        "spec.restartPolicy",
        "must be one of Never, OnFailure; not 'Always'",
    ),
    "no-replicas": (
        edit("spec", etReplicaSpecs=DROPPED),
        AT,
        "is required: write an object with launcher and worker",
    ),
    "no-launcher": (
        edit(*SPECS, launcher=DROPPED),
        f"{AT}.launcher",
        "is required: write the Pod that starts the training",
    ),
    "no-worker": (
        edit(*SPECS, worker=DROPPED),
        f"{AT}.worker",
        "is required: write the Pods in which the training runs",
    ),
    "launchers": (
        edit(*SPECS, "launcher", replicas=2),
        f"{AT}.launcher.replicas",
        "is 2, and a job has one launcher: write 1",
    ),
    "no-workers": (
        edit(*SPECS, "worker", replicas=0, minReplicas=DROPPED),
        f"{AT}.worker.replicas",
        "must be from 1 to 10000, not 0: it is the number of workers",
    ),
    "too-many": (
        edit(*SPECS, "worker", replicas=10000, maxReplicas=10000),
        f"{AT}.worker.replicas",
        "a job has at most 10000 Pods with its launcher: write a lower number",
    ),
    "min": (
        edit(*SPECS, "worker", minReplicas=3),
        f"{AT}.worker.minReplicas",
        "is 3, and replicas is 2: write a number from 1 to replicas",
    ),
    "max": (
        edit(*SPECS, "worker", maxReplicas=1),
        f"{AT}.worker.maxReplicas",
        "is 1, and replicas is 2: write at least replicas",
    ),
    "no-template": (
        edit(*SPECS, "worker", template=DROPPED),
        f"{AT}.worker.template",
        "is required: write a Pod template",
    ),
    "no-containers": (
        edit(*SPECS, "worker", "template", "spec", containers=DROPPED),
        f"{AT}.worker.template.spec.containers",
        "is required: list at least one container",
    ),
    "name-of-a-part": (
        edit(*SPECS, "launcher", "template", "spec", "containers", 0, name="rendezvous"),
        f"{AT}.launcher.template.spec.containers[0].name",
        "rendezvous is the name of a part that is added: give it another name",
    ),
}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", f"is ''; {LEAVE_FORM}, or leave it out"),
        ("true", f"is 'true'; {LEAVE_FORM}"),
        ("120", f"is '120'; {LEAVE_FORM}"),
        ("maxLeaves=3", f"is 'maxLeaves=3'; {LEAVE_FORM}"),
        ("timeoutSeconds=120s", LEAVE_FORM),
        ("timeoutSeconds=-1", LEAVE_FORM),
        ("timeoutSeconds=012", LEAVE_FORM),
        ("timeoutSeconds=1\u0662", LEAVE_FORM),
        ("timeoutSeconds=120\n", LEAVE_FORM),
        ("timeoutSeconds=120,", LEAVE_FORM),
        ("timeoutSeconds=120, maxLeaves=3", LEAVE_FORM),
        ("timeoutSeconds=120,timeoutSeconds=120", LEAVE_FORM),
        ("timeoutSeconds=120,maxLeave=3", LEAVE_FORM),
        ("timeoutSeconds=120," + "maxLeaves=3," * 100_000, LEAVE_FORM),
        ("timeoutSeconds=0", "timeoutSeconds must be from 1 to 86400, not 0"),
        ("timeoutSeconds=86401", "timeoutSeconds must be from 1 to 86400, not 86401"),
        ("timeoutSeconds=1,maxLeaves=1001", "maxLeaves must be from 1 to 1000, not 1001"),
        ("timeoutSeconds=1,maxLeaves=0", "maxLeaves must be from 1 to 1000, not 0"),
        ("withinSeconds=0,timeoutSeconds=1", "withinSeconds must be from 1 to 999999999, not 0"),
    ],
)
def test_fault_of_the_annotation_to_leave_nodes(text: str, fault: str) -> None:
    body = build_trainingjob()
    body["metadata"]["annotations"] = {LEAVE: text}
    with pytest.raises(FieldErrors) as caught:
        compile_trainingjob(body)
    (error,) = caught.value.errors
    assert error.path == f"metadata.annotations[{LEAVE}]"
    assert error.message.startswith(fault) or error.message.endswith(f"{fault}, or leave it out")
    assert len(error.message) < 300


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake_is_named_with_field_reason_and_remedy(name: str) -> None:
    change, path, message = MISTAKES[name]
    body = build_trainingjob()
    change(body)
    with pytest.raises(FieldErrors) as caught:
        compile_trainingjob(body)
    errors = {error.path: error.message for error in caught.value.errors}
    assert message in errors[path]


def test_all_mistakes_of_a_kind_are_reported_together() -> None:
    body = build_trainingjob(slotsPerWorker=0, backoffLimit=-1)
    body["spec"]["etReplicaSpecs"] = {"worker": {"replicas": 0}}
    with pytest.raises(FieldErrors) as caught:
        compile_trainingjob(body)
    assert [error.path for error in caught.value.errors] == [
        "spec.slotsPerWorker",
        "spec.backoffLimit",
        f"{AT}.launcher",
        f"{AT}.worker.replicas",
        f"{AT}.worker.template",
    ]
