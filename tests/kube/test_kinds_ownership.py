"""Objects of others with the names of those of a TfJob or TrainingJob, on a real API server.

The controller neither changes nor deletes them, also if they have the labels and the owner of the
objects of the job: the job is Blocked.
"""

import json
from collections.abc import Callable

import pytest

from controller.kinds.decide.ownership import mark
from controller.kinds.proofs import sign
from controller.store.creation_proofs import KeyPair
from framework.api import constants
from framework.clock import SystemKeys
from framework.kube.client import KubeClient
from framework.kube.resources import (
    DEPLOYMENTS,
    EVENTS,
    FRAMEWORKS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    TFJOBS,
    TRAININGJOBS,
    Object,
    Resource,
)
from tests.framework.kinds.jobs import build_tfjob, build_trainingjob
from tests.kube.kindstage import BOARD, Stage, delete_in_the_foreground, find_condition, list_names
from tests.support.builders import build_role_wire, build_submission
from tests.support.servers.controlplane import Access
from tests.support.servers.deployed import Deployed
from tests.support.servers.watching import watch_until

pytestmark = pytest.mark.kube

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
