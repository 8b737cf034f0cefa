"""A job without a Framework: its last reason and the remedy."""

import json
from typing import Any

import pytest

from cli.exitcodes import CliError
from cli.frameworks import Selection, drop_kind, find_frameworks, get_framework
from cli.texts.jobstates import describe_job
from framework.kinds.trainingjob.types import SUSPENDED_ANNOTATION
from framework.kube.errors import build_api_error
from framework.kube.resources import FRAMEWORKS, TFJOBS, TRAININGJOBS, Object, Resource

ANNOTATION = {SUSPENDED_ANNOTATION: "true"}
BLOCKED = {"type": "Blocked", "status": "True", "reason": "NameTaken", "message": "delete it"}


def build_job(status: Any, **metadata: Any) -> Object:
    return {"metadata": {"name": "c2", "namespace": "team", **metadata}, "status": status}


@pytest.mark.parametrize(
    ("resource", "job", "text"),
    [
        (
            TRAININGJOBS,
            build_job({"conditions": [BLOCKED, {"type": "Created", "status": "True"}]}),
            "c2 is a TrainingJob without a Framework, Blocked: NameTaken: delete it; when",
        ),
        (
            TRAININGJOBS,
            build_job({"conditions": [{"type": "Failed", "reason": "TrainingJobFailed"}]}),
            "c2 is a TrainingJob without a Framework, Failed: TrainingJobFailed; when",
        ),
        (
            TRAININGJOBS,
            build_job({"conditions": [{**BLOCKED, "status": "False"}], "phase": "Created"}),
            "c2 is a TrainingJob without a Framework, Created; when",
        ),
        (
            TFJOBS,
            build_job({"phase": "Failed", "reason": "spec.x: is\nbad", "conditions": []}),
            "c2 is a TfJob without a Framework, Failed: spec.x: is bad; when",
        ),
        (
            TFJOBS,
            build_job({"conditions": [{"type": "Blocked", "reason": "NameTaken: delete it"}]}),
            (
                "c2 is a TfJob without a Framework, Blocked: NameTaken: delete it; when its cause "
                "is "
                "mended, and the job does not start, delete it with `kubectl delete -n team "
                "tfjob.mlkube.io/c2` and create it again"
            ),
        ),
        (TFJOBS, build_job(None), "c2 is a TfJob without a Framework, and no controller has"),
        (TFJOBS, build_job("hostile"), "c2 is a TfJob without a Framework, and no controller has"),
        (
            TRAININGJOBS,
            build_job(None, annotations=ANNOTATION),
            (
                "c2 is a TrainingJob without a Framework, Suspended: start it with `kubectl "
                "annotate "
                f"-n team trainingjob.kai.alibabacloud.com/c2 {SUSPENDED_ANNOTATION}-`"
            ),
        ),
        (
            TRAININGJOBS,
            build_job({"targetWorkers": ["w"]}, annotations=ANNOTATION),
            "c2 is a TrainingJob without a Framework, Suspended: this is final; delete it",
        ),
    ],
)
def test_last_reason_and_remedy_are_named(resource: Resource, job: Object, text: str) -> None:
    assert describe_job(resource, job).startswith(text)


class JobClient:
    """A cluster that has a TfJob c2, and no Framework."""

    async def get(self, resource: Resource, namespace: str, name: str, **_: Any) -> Object:
        if (resource, name) == (TFJOBS, "c2"):
            return build_job({"phase": "Failed", "reason": "refused"}, namespace=namespace)
        details = json.dumps({"details": {"name": name}}).encode()
        raise build_api_error(404, details, method="GET", path="/")

    async def list_pages(self, resource: Resource, *_: Any, **__: Any) -> Any:
        assert resource is FRAMEWORKS
        yield {"items": []}, False


JOB = "; c2 is a TfJob without a Framework, Failed: refused; "


@pytest.mark.parametrize("word", ["c2", "tfjob/c2", "tfjobs.mlkube.io/c2"])
async def test_absent_framework_names_the_job(word: str) -> None:
    client: Any = JobClient()
    with pytest.raises(CliError) as caught:
        await get_framework(client, "team", word)
    assert JOB in caught.value.lines[0]
    found = await find_frameworks(client, Selection((word, "other"), "team"))
    assert [JOB in fault for fault in found.faults] == [True, False]


async def test_kind_in_front_of_the_name_of_a_job_names_the_job() -> None:
    client: Any = JobClient()
    with pytest.raises(CliError) as caught:
        await drop_kind(client, "team", ("tfjob", "c2"))
    assert "this is another kind: use `kubectl get tfjob c2`" in caught.value.lines[0]
    assert JOB in caught.value.lines[0]
