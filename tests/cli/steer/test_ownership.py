"""Changes of a Framework that belongs to a job: refused if the job's controller puts them back."""

import pytest

from cli.exitcodes import CliError, ExitCode
from cli.steer.ownership import check_change, check_deletion
from framework.kinds.tfjob import types as tfjob
from framework.kinds.trainingjob import types as trainingjob
from framework.kube.resources import Object

TASKS: list[Object] = [
    {"op": "test", "path": "/spec", "value": 1},
    {"op": "add", "path": "/spec/taskRoles"},
]
STOP: list[Object] = [{"op": "add", "path": "/spec/executionType", "value": "Stop"}]
ANNOTATION: list[Object] = [
    {"op": "test", "path": "/spec/taskRoles/0/name", "value": "worker"},
    {"op": "add", "path": "/metadata/annotations/a", "value": "b"},
]


def build_framework(kind: str, api_version: str, *, is_controller: bool = True) -> Object:
    owner = {"apiVersion": api_version, "kind": kind, "name": "job", "controller": is_controller}
    return {"metadata": {"name": "gang", "namespace": "ns", "ownerReferences": [owner]}}


OWNED = build_framework(trainingjob.KIND, trainingjob.API_VERSION)
OTHERS: dict[str, Object] = {
    "no owner": {"metadata": {"name": "gang", "namespace": "ns"}},
    "not its controller": build_framework(
        trainingjob.KIND, trainingjob.API_VERSION, is_controller=False
    ),
    "another kind": build_framework("Workflow", "example.com/v1"),
}


def test_change_that_the_job_puts_back_is_refused_and_names_the_job() -> None:
    with pytest.raises(CliError) as caught:
        check_change(OWNED, TASKS)
    assert caught.value.exit_code is ExitCode.FAILED
    assert caught.value.lines == (
        (
            "gang: it belongs to the TrainingJob job, whose controller puts this change back; "
            "change the job: `kubectl edit -n ns trainingjob.kai.alibabacloud.com/job`"
        ),
    )


@pytest.mark.parametrize(
    ("kind", "role", "end"),
    [
        (
            "trainingjob",
            "worker",
            (
                "puts this change back; scale the job: `kubectl scale -n ns "
                "trainingjob.kai.alibabacloud.com/job --replicas 3`"
            ),
        ),
        ("trainingjob", "launcher", "`kubectl edit -n ns trainingjob.kai.alibabacloud.com/job`"),
        (
            "tfjob",
            "worker",
            (
                "puts this change back, and its spec is fixed; change its file, delete the job: "
                "`kubectl delete -n ns tfjob.mlkube.io/job` and create it again"
            ),
        ),
    ],
)
def test_scale_names_the_command_that_works_for_the_kind(kind: str, role: str, end: str) -> None:
    types = {"trainingjob": trainingjob, "tfjob": tfjob}[kind]
    body = build_framework(types.KIND, types.API_VERSION)
    body["spec"] = {"taskRoles": [{"name": role}]}
    patch: list[Object] = [{"op": "add", "path": "/spec/taskRoles/0/taskNumber", "value": 3}]
    with pytest.raises(CliError) as caught:
        check_change(body, patch)
    assert caught.value.lines[0].endswith(end)


def test_deletion_that_the_job_undoes_is_refused_and_names_the_job() -> None:
    with pytest.raises(CliError) as caught:
        check_deletion(OWNED)
    assert caught.value.lines == (
        (
            "gang: it belongs to the TrainingJob job, whose controller creates it again; "
            "delete the job: `kubectl delete -n ns trainingjob.kai.alibabacloud.com/job`"
        ),
    )


def test_what_the_job_leaves_to_users_is_allowed() -> None:
    check_change(OWNED, STOP)
    check_change(OWNED, ANNOTATION)


@pytest.mark.parametrize("body", OTHERS.values(), ids=OTHERS)
def test_framework_without_a_job_may_be_changed(body: Object) -> None:
    check_change(body, TASKS)
    check_deletion(body)
