"""Objects of others that look like ours: by name, by label, or because a user changed them."""

from typing import Any

import pytest

from framework.kube.resources import CONFIGMAPS, EVENTS, FRAMEWORKS, PODS, Object
from tests.support.builders import FRAMEWORK, NAMESPACE
from tests.support.builders.cases import cases
from tests.support.simulator.shell import Shell

pytestmark = pytest.mark.looptime

POD = "gang-worker-0"
LABELS = {"FC_FRAMEWORK_NAME": FRAMEWORK}


def create(shell: Shell, resource: Any, name: str, labels: Object) -> str:
    """Create an object of a user, and return its UID."""
    spec = {"spec": {"containers": [{"name": "a", "image": "b"}]}} if resource is PODS else {}
    kind = {"apiVersion": "v1", "kind": resource.kind}
    body = {**kind, "metadata": {"name": name, "labels": labels}, **spec}
    created = shell.storage.create(shell.type(resource), NAMESPACE, body)
    shell.show()
    return str(created["metadata"]["uid"])


@cases("labels", plain={}, labelled=LABELS)
@pytest.mark.parametrize(("resource", "name"), [(CONFIGMAPS, "gang-attempt"), (PODS, POD)])
async def test_name_that_is_taken_blocks_until_it_is_free(
    resource: Any, name: str, labels: Object
) -> None:
    shell = Shell()
    uid = create(shell, resource, name, labels)
    shell.create_framework()
    await shell.run(60.0)
    blocked = shell.find_condition()
    assert (blocked["status"], blocked["reason"]) == ("True", "NameTaken")
    events = shell.storage.list(shell.type(EVENTS), NAMESPACE).items
    assert sum(e["count"] for e in events if e["reason"] == "NameTaken") == 1
    assert shell.sent("delete") == []
    assert shell.get(resource, name)["metadata"]["uid"] == uid
    assert len(shell.sent("create")) <= 14
    shell.delete(resource, name, grace_seconds=0)
    shell.show()
    await shell.run(31.0)
    assert shell.get(PODS, POD)["metadata"]["ownerReferences"]
    assert shell.find_condition()["status"] == "False"


async def test_configmap_of_the_user_with_our_label_is_not_the_attempts() -> None:
    shell = Shell()
    create(shell, CONFIGMAPS, "gang-settings", LABELS)
    shell.create_framework()
    await shell.run(1.0)
    shell.patch(CONFIGMAPS, "gang-settings", {"data": {"a": "b"}})
    shell.show()
    await shell.run(10.0)
    assert shell.names(PODS) == [POD]
    assert shell.known.configmap is not None
    assert shell.known.configmap.name == "gang-attempt"
    assert shell.sent("delete") == []


async def test_pod_relabelled_to_another_framework_stays_with_its_owner() -> None:
    shell = Shell()
    shell.create_framework()
    shell.create_framework("other")
    await shell.run(1.0)
    shell.patch(PODS, POD, {"metadata": {"labels": {"FC_FRAMEWORK_NAME": "other"}}})
    shell.patch_pod(phase="Running")
    await shell.run(1.0)
    assert shell.status["state"] == "AttemptRunning"
    assert shell.get(FRAMEWORKS, "other")["status"]["state"] == "AttemptPreparing"
    assert shell.sent("delete") == []


async def test_role_without_a_name_runs_as_in_the_original() -> None:
    shell = Shell()
    pod = {"spec": {"containers": [{"name": "a", "image": "b"}]}}
    shell.create_framework(taskRoles=[{"taskNumber": 1, "task": {"pod": pod}}])
    await shell.run(1.0)
    assert shell.names(PODS) == ["gang--0"]
    shell.patch_pod("gang--0", phase="Succeeded")
    for _ in range(3):
        await shell.run(1.0)
        shell.storage.collect_garbage()
        shell.show()
    assert shell.status["state"] == "Completed"
    assert shell.status["attemptStatus"]["completionStatus"]["trigger"]["taskRoleName"] == ""
    assert shell.names(PODS) == []
