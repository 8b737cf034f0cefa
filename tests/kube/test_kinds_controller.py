"""A TfJob and a TrainingJob with scalers on a real API server, run by deploy/overlays/kinds.

The controller has the token of its service account, and the policies of deploy/admission are
installed. No request is refused, and each right of deploy/kinds is used: read from the audit log.
"""

import json
from pathlib import Path

import pytest
import yaml

from framework.api import constants
from framework.api.codec import decode_framework
from framework.kube.client import KubeClient
from framework.kube.resources import (
    CONFIGMAPS,
    FRAMEWORKS,
    PODS,
    ROLE_BINDINGS,
    SCALE_INS,
    SCALE_OUTS,
    SECRETS,
    SERVICES,
    TFJOBS,
    TRAININGJOBS,
    Object,
)
from tests.controller.kinds.scalerworlds import build_scaler_wire
from tests.framework.kinds.jobs import build_tfjob, build_trainingjob, spell_snake
from tests.kube.kindstage import (
    BOARD,
    COMPONENT,
    Stage,
    delete_in_the_foreground,
    find_condition,
    find_end,
    find_phase,
    list_names,
    wait_for_workers,
)
from tests.support.fakes.jobscripts import Ends
from tests.support.servers.controlplane import Access
from tests.support.servers.deployed import Deployed
from tests.support.servers.rights import Right, expand_rules
from tests.support.servers.watching import watch_until

pytestmark = pytest.mark.kube

MAX_CONFIGMAP_BYTES = 1024 * 1024
OWNERS = "an admission plugin asks for it, on behalf of a change of owners: no request shows it"
UNUSED = {
    Right("mlkube.io", "tfjobs/finalizers", "update"): OWNERS,
    Right("kai.alibabacloud.com", "trainingjobs/finalizers", "update"): OWNERS,
    Right("kai.alibabacloud.com", "scaleins", "delete"): OWNERS,
    Right("kai.alibabacloud.com", "scaleouts", "delete"): OWNERS,
    Right("rbac.authorization.k8s.io", "clusterroles", "bind"): (
        "the API server asks for it when a RoleBinding is created: no request shows it"
    ),
}


async def check_columns(stage: Stage) -> None:
    rows = {
        plural: (await stage.kubectl("get", plural, "--no-headers")).split()
        for plural in ("tfjobs", "trainingjobs")
    }
    assert rows["tfjobs"][:3] == ["job", "Running", "Running"]
    assert rows["trainingjobs"][:2] == ["elastic", "Running"]


async def check_scale(stage: Stage) -> None:
    await stage.kubectl("scale", "trainingjobs/elastic", "--replicas=3")
    await wait_for_workers(stage.kube, stage.namespace, 3)
    text = await stage.kubectl("get", "--subresource=scale", "trainingjobs/elastic", "-o=json")
    scale = json.loads(text)
    assert scale["spec"]["replicas"] == 3
    assert scale["status"]["selector"] == "training-job-name=elastic,training-job-role=worker"
    workers = await stage.kubectl("get", "pods", "-o=name", "-l", scale["status"]["selector"])
    assert len(workers.split()) == scale["status"]["replicas"] == 3


async def check_scalers(stage: Stage) -> None:
    """A worker is added, and then removed. No agent answers, and there is no script to run."""
    before = await stage.kubectl("get", "trainingjobs/elastic", "-o=jsonpath={.spec}")
    for kind, resource, end, workers in (
        ("ScaleOut", SCALE_OUTS, "ScalingOutSucceeded", 4),
        ("ScaleIn", SCALE_INS, "ScalingInSucceeded", 3),
    ):
        await stage.create(resource, build_scaler_wire(kind, "one", timeout=600))
        scaler = await watch_until(stage.kube, resource, stage.namespace, find_end)
        assert scaler["status"]["conditions"][-1]["reason"] == end, scaler["status"]
        assert [owner["kind"] for owner in scaler["metadata"]["ownerReferences"]] == ["TrainingJob"]
        row = await stage.kubectl("get", resource.plural, "--no-headers")
        assert row.split()[:2] == ["one", "ScaleSucceeded"]
        await wait_for_workers(stage.kube, stage.namespace, workers)
    assert await stage.kubectl("get", "trainingjobs/elastic", "-o=jsonpath={.spec}") == before


async def check_left_node(stage: Stage, folder: Path) -> None:
    """The commands of docs/trainingjob.md, "A node that is about to go"."""
    workers = "training-job-name=elastic,training-job-role=worker"
    node = await stage.kubectl("get", "pod/elastic-worker-1", "-o=jsonpath={.spec.nodeName}")
    on_node = ("-l", workers, "--field-selector", f"spec.nodeName={node.strip()}", "-o=name")
    assert "pod/elastic-worker-1" in (await stage.kubectl("get", "pods", *on_node)).split()
    leave = build_scaler_wire("ScaleIn", "leave", toDelete={"podNames": ["elastic-worker-1"]})
    back = build_scaler_wire("ScaleOut", "back")
    for scaler, left in ((leave, {"0", "2"}), (back, {"0", "2", "3"})):
        name, kind = scaler["metadata"]["name"], scaler["kind"].lower()
        scaler["metadata"]["namespace"] = stage.namespace
        file = folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump(scaler))
        await stage.kubectl("apply", "-f", str(file))
        condition = ("--for=condition=ScaleSucceeded", "--timeout=120s")
        await stage.kubectl("wait", f"{kind}/{name}", *condition)
        await wait_for_workers(stage.kube, stage.namespace, len(left))
        names = (await stage.kubectl("get", "pods", "-o=name", "-l", workers)).split()
        assert {each.rpartition("-")[2] for each in names} == left


async def check_replaced_job(stage: Stage, folder: Path) -> None:
    """The commands with which ``framework why`` runs a job again."""
    body = await stage.kubectl("get", "tfjob.mlkube.io/old", "-o", "yaml")
    before = yaml.safe_load(body)["metadata"]["uid"]
    file = folder / "old.yaml"
    file.write_text(body)
    await stage.kubectl("replace", "--force", "-f", str(file))
    await watch_until(stage.kube, TFJOBS, stage.namespace, find_phase("Done", "old"))
    job = await stage.kube.get(TFJOBS, stage.namespace, "old")
    assert job["metadata"]["uid"] != before
    assert job["status"]["state"] == "Succeeded", "it was started again, with the same spec"


async def fill_configmap(stage: Stage, filler: str | None) -> None:
    change = {"data": {"filler": filler}}
    await stage.kube.patch(CONFIGMAPS, stage.namespace, "elastic-attempt", change)


async def check_refused_scaler(stage: Stage) -> None:
    """A request that makes the ConfigMap of the attempt larger than 1 MiB is refused.

    An agent is asked for it, because it has acknowledged a generation.
    """
    acknowledged = {constants.ACKNOWLEDGED_GENERATION_ANNOTATION: "1"}
    change = {"metadata": {"annotations": acknowledged}}
    await stage.kube.patch(PODS, stage.namespace, "elastic-launcher-0", change)
    await fill_configmap(stage, "x" * (MAX_CONFIGMAP_BYTES - 20_000))
    env = [{"name": f"V{number}", "value": "x" * 4000} for number in range(10)]
    large = build_scaler_wire("ScaleIn", "large", script="/s.sh", timeout=600, env=env)
    await stage.create(SCALE_INS, large)
    failed = find_phase("ScaleFailed", "large")
    scaler = await watch_until(stage.kube, SCALE_INS, stage.namespace, failed)
    condition = scaler["status"]["conditions"][-1]
    assert condition["reason"] == "Refused", condition
    assert "422 Invalid" in condition["message"]
    await wait_for_workers(stage.kube, stage.namespace, 3)
    await fill_configmap(stage, None)


async def check_edit(stage: Stage) -> None:
    edit = [{"op": "replace", "path": "/spec/retryPolicy/maxRetryCount", "value": 7}]
    await stage.kubectl("patch", "frameworks/elastic", "--type=json", "-p", json.dumps(edit))
    edited = find_condition("FrameworkEdited", "elastic")
    await watch_until(stage.kube, TRAININGJOBS, stage.namespace, edited)


EDITS_OF_A_SERVICE: tuple[Object, ...] = (
    {"op": "replace", "path": "/spec/ports/0/port", "value": 23},
    {"op": "add", "path": "/spec/selector/more", "value": "x"},
    {"op": "add", "path": "/spec/publishNotReadyAddresses", "value": True},
)
BINDING = "frameworkbarrier-elastic"


async def check_services(stage: Stage) -> None:
    """A Service that a user changes is put back: the API server accepts the patch."""
    for change in EDITS_OF_A_SERVICE:
        before = await stage.kube.get(SERVICES, stage.namespace, "elastic-worker-0")
        edit = json.dumps([change])
        await stage.kubectl("patch", "services/elastic-worker-0", "--type=json", "-p", edit)

        def is_back(_: str, body: Object, wanted: Object = before) -> Object | None:
            old, new = wanted["metadata"], body["metadata"]
            is_same = new.get("uid") == old["uid"]
            is_new = is_same and new["resourceVersion"] != old["resourceVersion"]
            return body if is_new and body["spec"] == wanted["spec"] else None

        await watch_until(stage.kube, SERVICES, stage.namespace, is_back)


async def edit_binding(stage: Stage) -> Object:
    """Bind another account; return the RoleBinding as it was."""
    before = await stage.kube.get(ROLE_BINDINGS, stage.namespace, BINDING)
    subject = {"kind": "ServiceAccount", "name": "stranger"}
    edit = json.dumps([{"op": "add", "path": "/subjects/-", "value": subject}])
    await stage.kubectl("patch", f"rolebindings/{BINDING}", "--type=json", "-p", edit)
    return before


async def wait_for_binding(stage: Stage, wanted: Object) -> None:
    """Return when the RoleBinding was put back, which the status of its job does not show."""

    def is_back(_: str, body: Object) -> Object | None:
        is_it = body["metadata"].get("name") == BINDING
        return body if is_it and body["subjects"] == wanted["subjects"] else None

    await watch_until(stage.kube, ROLE_BINDINGS, stage.namespace, is_back)


async def check_deleted_framework(stage: Stage, name: str) -> None:
    """A Framework that another client deletes comes back, beside what exists already."""
    before = await stage.kube.get(FRAMEWORKS, stage.namespace, name)
    await stage.kube.delete(FRAMEWORKS, stage.namespace, name)

    def is_new(_: str, body: Object) -> Object | None:
        metadata = body["metadata"]
        is_other = metadata.get("uid") != before["metadata"]["uid"]
        return body if metadata.get("name") == name and is_other else None

    await watch_until(stage.kube, FRAMEWORKS, stage.namespace, is_new)


async def check_taken_name(stage: Stage) -> None:
    taken = build_tfjob(runtimeId="own")
    taken["metadata"]["name"] = "taken"
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "master-own-0"},
        "spec": {"clusterIP": "None", "selector": {"a": "b"}},
    }
    await stage.create(SERVICES, service)
    await stage.create(TFJOBS, taken)
    blocked = find_condition("Blocked", "taken")
    await watch_until(stage.kube, TFJOBS, stage.namespace, blocked)


async def check_exit_codes(stage: Stage, ends: Ends) -> None:
    """A master that ended with 210 and 255 was started again; one that ended with 1 was not."""
    for name, state, retries in (("job", "Succeeded", 2), ("old", "Failed", 0)):
        done = await stage.kube.get(TFJOBS, stage.namespace, name)
        assert done["status"]["state"] == state
        framework = await stage.kube.get(FRAMEWORKS, stage.namespace, name)
        status = decode_framework(framework).status
        assert status is not None
        roles = {role.name: role.tasks for role in status.attempt_status.task_roles}
        (task,) = roles["master"]
        assert task.retry_policy_status.total_retried_count == retries
    assert all(codes == [] for codes in ends.codes.values())


async def test_job_of_each_kind_runs_with_the_rights_of_the_component(
    deployed: Deployed,
    kube: KubeClient,
    namespace: str,
    ends: Ends,
    audited_plane: Access,
    tmp_path: Path,
) -> None:
    stage = Stage(kube, namespace, audited_plane)
    await stage.create(TFJOBS, build_tfjob(tensorboard=BOARD))
    old = build_tfjob(runtimeId="old")
    old["metadata"]["name"] = "old"
    await stage.create(TFJOBS, spell_snake(old))
    await stage.create(TRAININGJOBS, build_trainingjob())
    await stage.wait_for_phases("Running", "Running")
    assert "elastic-ssh" in await list_names(kube, SECRETS, namespace)
    await check_columns(stage)
    await check_scale(stage)
    await check_scalers(stage)
    await check_left_node(stage, tmp_path)
    await check_refused_scaler(stage)
    await check_edit(stage)
    await check_services(stage)
    binding = await edit_binding(stage)
    for name in ("job", "elastic"):
        await check_deleted_framework(stage, name)
    await stage.wait_for_phases("Running", "Running")
    await wait_for_binding(stage, binding)
    await check_taken_name(stage)

    ends.codes = {"job-master-0": [210, 255], "old-master-0": [1]}
    ends.is_told.set()
    await stage.wait_for_phases("Done", "Succeeded")
    await check_exit_codes(stage, ends)
    await check_replaced_job(stage, tmp_path)
    tfjobs = ((TFJOBS, name) for name in ("job", "old", "taken"))
    for resource, name in ((TRAININGJOBS, "elastic"), *tfjobs):
        await delete_in_the_foreground(kube, resource, namespace, name)
    assert await list_names(kube, PODS, namespace) == []

    granted = expand_rules(yaml.safe_load_all((COMPONENT / "clusterrole.yaml").read_text()))
    assert deployed.audit.read_refused() == set()
    assert granted - deployed.audit.read_used() == set(UNUSED)


async def test_workers_of_a_job_that_cleans_nothing_run_until_it_is_deleted(
    deployed: Deployed, kube: KubeClient, namespace: str, ends: Ends, audited_plane: Access
) -> None:
    stage = Stage(kube, namespace, audited_plane)
    await stage.create(TRAININGJOBS, build_trainingjob(cleanPodPolicy="None"))
    await watch_until(kube, TRAININGJOBS, namespace, find_phase("Running", "elastic"))
    # No barrier holds the launcher of a fake kubelet, so it may run before the workers.
    await wait_for_workers(kube, namespace, 2)
    ends.is_told.set()
    await watch_until(kube, TRAININGJOBS, namespace, find_phase("Succeeded", "elastic"))
    framework = await kube.get(FRAMEWORKS, namespace, "elastic")
    assert framework["spec"]["taskRoles"][1]["completedPodPolicy"] == "RetainRunning"
    assert framework["status"]["state"] == "Completed"
    pods = (await kube.list(PODS, namespace))["items"]
    assert sorted((pod["metadata"]["name"], pod["status"]["phase"]) for pod in pods) == [
        ("elastic-launcher-0", "Succeeded"),
        ("elastic-worker-0", "Running"),
        ("elastic-worker-1", "Running"),
    ]
    assert not any("deletionTimestamp" in pod["metadata"] for pod in pods)
    await delete_in_the_foreground(kube, TRAININGJOBS, namespace, "elastic")
    assert await list_names(kube, PODS, namespace) == []
    assert deployed.audit.read_refused() == set()
