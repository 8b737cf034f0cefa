"""Remedies for the Framework of a job: they change the job, whose controller puts it back."""

from typing import Any

import pytest

from cli.why.commands import Commands
from cli.why.gathering import Gatherer
from cli.why.observation import Observation
from framework.api.states import FrameworkState, TaskState
from framework.api.types import ContainerCompletionStatus, FrameworkStatus
from framework.kinds.tfjob import types as tfjob
from framework.kinds.trainingjob import types as trainingjob
from framework.kube.resources import Object
from tests.cli.why.builders import fail, find_root, list_commands, observe
from tests.cli.why.test_scalers import ScalerClient
from tests.support.builders import FRAMEWORK, NAMESPACE, at, build_role_status, build_status

JOBS = {
    "tfjob.mlkube.io/job": (tfjob.API_VERSION, tfjob.KIND),
    "trainingjob.kai.alibabacloud.com/job": (trainingjob.API_VERSION, trainingjob.KIND),
}
# By the cause: the status, and fields of the Framework.
CASES: dict[str, tuple[FrameworkStatus, Object]] = {
    "crash": (fail(ContainerCompletionStatus("main", "Error", "x", code=1)), {}),
    "hang": (fail(ContainerCompletionStatus("main", "Error", "x", code=202), code=202), {}),
    "memory": (
        fail(ContainerCompletionStatus("main", "OOMKilled", code=137)),
        {"resources": {"limits": {"memory": "1Gi"}}},
    ),
    "node": (fail(reason="Evicted", code=-1000), {}),
    "stopped": (
        build_status(build_role_status("worker", 2), state=FrameworkState.ATTEMPT_RUNNING),
        {"executionType": "Stop"},
    ),
    "policy": (
        build_status(
            build_role_status("worker", 2, TaskState.ATTEMPT_RUNNING),
            state=FrameworkState.ATTEMPT_RUNNING,
        ),
        {"frameworkAttemptCompletionPolicy": {"minFailedTaskCount": 9}},
    ),
}


class LogClient(ScalerClient):
    """A cluster whose containers have written nothing."""

    async def get_raw(self, *_: Any, **__: Any) -> bytes:
        return b""


async def gather(case: str, *owners: Object) -> Observation:
    status, fields = CASES[case]
    keys = ("executionType",)
    observation = observe(
        status=status,
        spec={key: fields[key] for key in keys if key in fields},
        role={key: value for key, value in fields.items() if key not in (*keys, "resources")},
        metadata={"ownerReferences": list(owners)},
    )
    template = observation.framework["spec"]["taskRoles"][0]["task"]["pod"]
    template["spec"]["containers"][0]["resources"] = fields.get("resources", {})
    client = LogClient(observation.framework, scaleins=[], scaleouts=[])
    gatherer = Gatherer(client, NAMESPACE, FRAMEWORK)  # type: ignore[arg-type]  # a fake client
    return await gatherer.gather(Commands(FRAMEWORK), at(300), is_local=True)


def build_owner(api_version: str, kind: str, *, is_controller: bool = True) -> Object:
    owner = {"apiVersion": api_version, "kind": kind, "name": "job", "uid": "job-1"}
    return {**owner, "controller": is_controller}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("resource", JOBS)
async def test_remedy_changes_the_job_and_not_its_framework(resource: str, case: str) -> None:
    cause = find_root(await gather(case, build_owner(*JOBS[resource])))
    commands = list_commands(cause)
    is_edited = commands[-2] == "# edit spec in gang.yaml"
    assert is_edited is (case in {"crash", "hang"})
    assert [text for text in commands if not text.startswith("#")][-2:] == [
        f"kubectl get {resource} -o yaml >gang.yaml",
        "kubectl replace --force -f gang.yaml",
    ]
    assert not any("framework run" in text or "patch framework" in text for text in commands)
    kind = JOBS[resource][1]
    assert cause.remedies[-1].text.endswith(
        f": change the {kind} job, whose controller made the Framework"
    )
    assert "framework run" not in cause.remedies[-1].text


@pytest.mark.parametrize(
    "owners",
    [
        [],
        [build_owner("example.com/v1", "Workflow")],
        [build_owner(trainingjob.API_VERSION, trainingjob.KIND, is_controller=False)],
    ],
    ids=["no owner", "another kind", "not its controller"],
)
async def test_framework_without_a_job_is_replaced(owners: list[Object]) -> None:
    cause = find_root(await gather("crash", *owners))
    assert list_commands(cause)[-2:] == [
        "# edit spec.taskRoles[0].task.pod.spec in gang.yaml",
        "framework run gang.yaml --replace",
    ]
    assert "job" not in cause.remedies[-1].text


def test_local_cluster_without_gpus_is_stopped_before_it_starts_with_them() -> None:
    commands = Commands(FRAMEWORK, local_kubeconfig="/k")
    assert commands.build_local_restart(2) == (
        "framework local down",
        "framework local up --detach --gpus 2 --kubeconfig /k",
    )
