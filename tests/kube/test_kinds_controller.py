"""A TfJob and a TrainingJob with scalers on a real API server, run by deploy/overlays/kinds.

The controller has the token of its service account, and the policies of deploy/admission are
installed. No request is refused, and each right of deploy/kinds is used: read from the audit log.
"""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from controller.kinds.decide.ownership import mark
from controller.kinds.proofs import sign
from controller.store.creation_proofs import KeyPair
from framework.api import constants
from framework.api.codec import decode_framework
from framework.clock import SystemKeys
from framework.kube.client import KubeClient
from framework.kube.resources import (
    CONFIGMAPS,
    DEPLOYMENTS,
    EVENTS,
    FRAMEWORKS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SCALE_INS,
    SCALE_OUTS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    TFJOBS,
    TRAININGJOBS,
    Object,
    Resource,
)
from tests.controller.kinds.scalerworlds import build_scaler_wire
from tests.framework.kinds.jobs import build_tfjob, build_trainingjob, spell_snake
from tests.support.builders import build_role_wire, build_submission
from tests.support.fakes.jobscripts import Ends
from tests.support.servers.controlplane import Access
from tests.support.servers.deployed import Deployed
from tests.support.servers.frameworkcrd import ROOT, wait_until_kinds_are_served
from tests.support.servers.rights import Right, apply_kustomization, expand_rules, run_kubectl
from tests.support.servers.watching import watch_until
from tests.support.waiting import HANG_SECONDS

pytestmark = pytest.mark.kube

COMPONENT = ROOT / "deploy" / "kinds"
OVERLAY = ROOT / "deploy" / "overlays" / "kinds"
MAX_CONFIGMAP_BYTES = 1024 * 1024
BOARD = {"logDir": "/logs"}
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


@pytest.fixture
def deployed(
    framework_crd: None, policies: None, audited_plane: Access, tmp_path: Path
) -> Iterator[Deployed]:
    """The controller of the overlay; it runs, and has its additional rights, in the block."""
    objects = apply_kustomization(audited_plane, OVERLAY)
    wait_until_kinds_are_served(audited_plane.open_http())
    found = Deployed(audited_plane, objects, tmp_path)
    child = found.launch()
    try:
        yield found
        child.raise_if_ended()
    finally:
        child.terminate()
        name = "framework-controller-kinds"
        run_kubectl(audited_plane, "delete", "clusterrole,clusterrolebinding", name)


def find_phase(phase: str, name: str) -> Callable[[str, Object], Object | None]:
    def check(_: str, body: Object) -> Object | None:
        is_met = (body.get("status") or {}).get("phase") == phase
        return body if is_met and body["metadata"]["name"] == name else None

    return check


def find_condition(type_: str, name: str) -> Callable[[str, Object], Object | None]:
    def check(_: str, body: Object) -> Object | None:
        found = (body.get("status") or {}).get("conditions") or ()
        is_met = any(condition["type"] == type_ for condition in found)
        return body if is_met and body["metadata"]["name"] == name else None

    return check


def find_end(_: str, scaler: Object) -> Object | None:
    phase = (scaler.get("status") or {}).get("phase")
    return scaler if phase in {"ScaleSucceeded", "ScaleFailed"} else None


async def wait_for_workers(kube: KubeClient, namespace: str, number: int) -> None:
    def check(_: str, body: Object) -> Object | None:
        running = (body.get("status") or {}).get("currentWorkers") or ()
        return body if len(running) == number else None

    await watch_until(kube, TRAININGJOBS, namespace, check)


async def list_names(kube: KubeClient, resource: Resource, namespace: str) -> list[str]:
    found = await kube.list(resource, namespace)
    return sorted(body["metadata"]["name"] for body in found["items"])


async def delete_in_the_foreground(
    kube: KubeClient, resource: Resource, namespace: str, name: str
) -> None:
    """Delete a job; return when it is gone. Its Framework is gone then."""
    await kube.delete(resource, namespace, name, propagation="Foreground")
    async with asyncio.timeout(HANG_SECONDS):
        while name in await list_names(kube, resource, namespace):  # noqa: ASYNC110 on a server
            await asyncio.sleep(0.05)
    assert name not in await list_names(kube, FRAMEWORKS, namespace)


class Stage:
    """One namespace, with requests of its users."""

    def __init__(self, kube: KubeClient, namespace: str, access: Access) -> None:
        self.kube = kube
        self.namespace = namespace
        self.access = access

    async def kubectl(self, *arguments: str) -> str:
        command = ("-n", self.namespace, *arguments)
        return await asyncio.to_thread(run_kubectl, self.access, *command)

    async def create(self, resource: Resource, body: Object) -> None:
        body["metadata"]["namespace"] = self.namespace
        await self.kube.create(resource, self.namespace, body)

    async def wait_for_phases(self, tfjob: str, trainingjob: str) -> None:
        for name in ("job", "old"):
            found = find_phase(tfjob, name)
            await watch_until(self.kube, TFJOBS, self.namespace, found)
        await watch_until(
            self.kube, TRAININGJOBS, self.namespace, find_phase(trainingjob, "elastic")
        )


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


CANARY = "content-of-another-tenant"
SELECTED = {"app": "other"}
FOREIGN: tuple[tuple[Resource, str, Object], ...] = (
    (SECRETS, "elastic-ssh", {"stringData": {"id_rsa": CANARY}}),
    (SERVICES, "elastic-worker-0", {"spec": {"clusterIP": "None", "selector": SELECTED}}),
    (SERVICES, "ps-76no-0", {"spec": {"type": "ExternalName", "externalName": "a.example"}}),
    (SERVICES, "worker-76no-1", {"spec": {"clusterIP": "None", "ports": [{"port": 1}]}}),
    (SERVICE_ACCOUNTS, "frameworkbarrier-job", {}),
    (ROLES, "frameworkbarrier-elastic", {"rules": []}),
    (
        ROLE_BINDINGS,
        "frameworkbarrier-job",
        {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": CANARY}},
    ),
    (
        DEPLOYMENTS,
        "tensorboard-76no",
        {
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": SELECTED},
                "template": {
                    "metadata": {"labels": SELECTED},
                    "spec": {"containers": [{"name": "a", "image": "local/none:1"}]},
                },
            }
        },
    ),
)


def get_own_part(body: Object) -> Object:
    """Return what only its author writes."""
    metadata = {key: body["metadata"].get(key) for key in ("uid", "labels", "ownerReferences")}
    kept = {key: body.get(key) for key in ("data", "spec", "rules", "roleRef", "subjects")}
    return {**kept, "metadata": metadata}


async def test_objects_of_others_with_the_names_of_a_job_stay_as_they_are_after_its_deletion(
    deployed: Deployed, kube: KubeClient, namespace: str, audited_plane: Access
) -> None:
    stage = Stage(kube, namespace, audited_plane)
    before = []
    for resource, name, content in FOREIGN:
        metadata = {"name": name, "labels": {constants.ANNOTATION_PREFIX + "job": "job"}}
        kind: Object = {"apiVersion": resource.api_version, "kind": resource.kind}
        body = {**kind, "metadata": metadata, **content}
        await stage.create(resource, body)
        before.append(get_own_part(await kube.get(resource, namespace, name)))
    await stage.create(TFJOBS, build_tfjob(tensorboard=BOARD))
    await stage.create(TRAININGJOBS, build_trainingjob())
    written = []
    for resource, name in ((TFJOBS, "job"), (TRAININGJOBS, "elastic")):
        blocked = find_condition("Blocked", name)
        written.append(await watch_until(kube, resource, namespace, blocked))
    written.append(await kube.list(EVENTS, namespace))
    assert CANARY not in json.dumps(written)
    assert await list_names(kube, FRAMEWORKS, namespace) == []
    for resource, name in ((TFJOBS, "job"), (TRAININGJOBS, "elastic")):
        await delete_in_the_foreground(kube, resource, namespace, name)
    after = [get_own_part(await kube.get(r, namespace, name)) for r, name, _ in FOREIGN]
    assert after == before
    assert deployed.audit.read_refused() == set()


async def forge(stage: Stage, jobs: dict[str, Object]) -> list[Object]:
    """Create objects with the names, the labels and the owners of those of jobs."""
    forged = []
    for resource, name, content in FOREIGN:
        job = jobs["elastic" if "elastic" in name else "job"]
        kind: Object = {"apiVersion": resource.api_version, "kind": resource.kind}
        body = mark({**kind, "metadata": {"name": name}, **content}, job)
        pair = KeyPair(SystemKeys())
        await stage.create(resource, sign(body, stage.namespace, pair))
        forged.append(get_own_part(await stage.kube.get(resource, stage.namespace, name)))
    return forged


def find_name(name: str) -> Callable[[str, Object], Object | None]:
    # A bookmark has no name.
    return lambda _, body: body if body["metadata"].get("name") == name else None


def find_forged(name: str) -> Callable[[str, Object], Object | None]:
    def check(_: str, body: Object) -> Object | None:
        text = json.dumps((body.get("status") or {}).get("conditions") or ())
        is_met = "has this job as its owner" in text and body["metadata"]["name"] == name
        return body if is_met else None

    return check


async def test_objects_with_a_forged_owner_stay_as_they_are_and_block_their_job(
    deployed: Deployed, kube: KubeClient, namespace: str, audited_plane: Access
) -> None:
    stage = Stage(kube, namespace, audited_plane)
    jobs = {}
    # A Framework of others holds each job up, before anything is created for it.
    for resource, body in (
        (TFJOBS, build_tfjob(tensorboard=BOARD)),
        (TRAININGJOBS, build_trainingjob()),
    ):
        name = body["metadata"]["name"]
        await stage.create(FRAMEWORKS, build_submission(name, build_role_wire(number=1)))
        await stage.create(resource, body)
        jobs[name] = await watch_until(kube, resource, namespace, find_condition("Blocked", name))
    before = await forge(stage, jobs)
    for name in jobs:
        await kube.delete(FRAMEWORKS, namespace, name)
    written = []
    for resource, name in ((TFJOBS, "job"), (TRAININGJOBS, "elastic")):
        written.append(await watch_until(kube, resource, namespace, find_forged(name)))
    assert CANARY not in json.dumps(written)
    after = [get_own_part(await kube.get(r, namespace, name)) for r, name, _ in FOREIGN]
    assert after == before
    for resource, name, _ in FOREIGN:
        await kube.delete(resource, namespace, name)
    for resource, name in ((TFJOBS, "job"), (TRAININGJOBS, "elastic")):
        await watch_until(kube, FRAMEWORKS, namespace, find_name(name))
        assert (await kube.get(resource, namespace, name))["status"]["creatorKeys"]
    assert deployed.audit.read_refused() == set()
