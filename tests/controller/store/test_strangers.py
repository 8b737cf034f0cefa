"""Objects of others that look like ours: by name, by label, or because a user changed one."""

import asyncio
from typing import Any

import pytest

from framework.kube.resources import CONFIGMAPS, EVENTS, FRAMEWORKS, PODS, Object
from localcluster.apiserver.model.options import DeleteOptions
from tests.support.builders import FRAMEWORK, NAMESPACE
from tests.support.builders.cases import cases
from tests.support.simulator.shell import Shell

pytestmark = pytest.mark.looptime

MERGE = "application/merge-patch+json"
LABELS = {"FC_FRAMEWORK_NAME": FRAMEWORK}


def make(shell: Shell, resource: Any, name: str, **metadata: Any) -> None:
    spec = {"spec": {"containers": [{"name": "a", "image": "b"}]}} if resource is PODS else {}
    kind = {"apiVersion": "v1", "kind": resource.kind}
    body = {**kind, "metadata": {"name": name, **metadata}, **spec}
    shell.storage.create(shell.type(resource), NAMESPACE, body)
    shell.show()


def change_pod(shell: Shell, name: str, body: Object, subresource: str | None = None) -> None:
    shell.storage.patch(shell.type(PODS), NAMESPACE, name, body, MERGE, subresource=subresource)
    shell.show()


async def run(shell: Shell, seconds: float) -> None:
    recording = asyncio.create_task(shell.recorder.run())
    await shell.run(seconds)
    recording.cancel()


def find_blocked(shell: Shell) -> Object:
    conditions: list[Object] = shell.get(FRAMEWORKS, FRAMEWORK)["status"]["conditions"]
    return next(c for c in conditions if c["type"] == "Blocked")


def count_events(shell: Shell, reason: str) -> int:
    listed = shell.storage.list(shell.type(EVENTS), NAMESPACE)
    return sum(e["count"] for e in listed.items if e["reason"] == reason)


@cases("labels", plain={}, labelled=LABELS)
@pytest.mark.parametrize(
    ("resource", "name"), [(CONFIGMAPS, "gang-attempt"), (PODS, "gang-worker-0")]
)
async def test_name_that_is_taken_is_told_and_taken_when_it_is_free(
    resource: Any, name: str, labels: Object
) -> None:
    shell = Shell()
    make(shell, resource, name, labels=labels)
    uid = shell.get(resource, name)["metadata"]["uid"]
    shell.create_framework()
    await run(shell, 60.0)
    assert (find_blocked(shell)["status"], find_blocked(shell)["reason"]) == ("True", "NameTaken")
    assert count_events(shell, "NameTaken") == 1
    assert shell.sent("delete") == []
    assert shell.get(resource, name)["metadata"]["uid"] == uid
    assert len(shell.sent("create")) <= 14
    shell.storage.delete(shell.type(resource), NAMESPACE, name, DeleteOptions(grace_seconds=0))
    shell.show()
    await run(shell, 31.0)
    assert shell.get(PODS, "gang-worker-0")["metadata"]["ownerReferences"]
    assert find_blocked(shell)["status"] == "False"


async def test_configmap_of_the_user_with_our_label_is_nobodys_attempt() -> None:
    shell = Shell()
    make(shell, CONFIGMAPS, "gang-settings", labels=LABELS)
    shell.create_framework()
    await run(shell, 1.0)
    change = {"data": {"a": "b"}}
    shell.storage.patch(shell.type(CONFIGMAPS), NAMESPACE, "gang-settings", change, MERGE)
    shell.show()
    await run(shell, 10.0)
    assert shell.names(PODS) == ["gang-worker-0"]
    assert shell.entry.observed.configmap is not None
    assert shell.entry.observed.configmap.name == "gang-attempt"
    assert shell.sent("delete") == []


async def test_pod_relabelled_to_another_framework_stays_with_its_owner() -> None:
    shell = Shell()
    shell.create_framework()
    shell.create_framework("other")
    await run(shell, 1.0)
    change_pod(shell, "gang-worker-0", {"metadata": {"labels": {"FC_FRAMEWORK_NAME": "other"}}})
    change_pod(shell, "gang-worker-0", {"status": {"phase": "Running"}}, "status")
    await run(shell, 1.0)
    assert shell.get(FRAMEWORKS, FRAMEWORK)["status"]["state"] == "AttemptRunning"
    assert shell.get(FRAMEWORKS, "other")["status"]["state"] == "AttemptPreparing"
    assert shell.sent("delete") == []


async def test_role_without_a_name_runs_as_the_original_ran_it() -> None:
    shell = Shell()
    role = {
        "taskNumber": 1,
        "task": {"pod": {"spec": {"containers": [{"name": "a", "image": "b"}]}}},
    }
    shell.create_framework(taskRoles=[role])
    await run(shell, 1.0)
    assert shell.names(PODS) == ["gang--0"]
    change_pod(shell, "gang--0", {"status": {"phase": "Succeeded"}}, "status")
    for _ in range(2):
        await run(shell, 1.0)
        shell.storage.collect_garbage()
        shell.show()
    await run(shell, 1.0)
    status = shell.get(FRAMEWORKS, FRAMEWORK)["status"]
    assert status["state"] == "Completed"
    assert status["attemptStatus"]["completionStatus"]["trigger"]["taskRoleName"] == ""
    assert shell.names(PODS) == []
