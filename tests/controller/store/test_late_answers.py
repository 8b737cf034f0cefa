"""What arrives late: a write of the process before us, and an answer that time has overtaken."""

import asyncio
from typing import Any

import pytest

from controller.core.actions import ObjectKind
from framework.kube.resources import FRAMEWORKS, PODS, Object
from localcluster.apiserver.model.options import DeleteOptions
from tests.support.builders import FRAMEWORK, NAMESPACE
from tests.support.fakes.storageclient import Fate
from tests.support.simulator.shell import Shell

pytestmark = pytest.mark.looptime

POD = f"{FRAMEWORK}-worker-0"
FANCY = {"fancyRetryPolicy": True, "maxRetryCount": 0}


def read_task(shell: Shell) -> Any:
    attempt = shell.get(FRAMEWORKS, FRAMEWORK)["status"]["attemptStatus"]
    return attempt["taskRoleStatuses"][0]["taskStatuses"][0]


def remove(shell: Shell, name: str) -> Object:
    """The Pod is deleted at once; return what a watch that shows all of it would say."""
    pod = shell.get(PODS, name)
    shell.storage.delete(shell.type(PODS), NAMESPACE, name, DeleteOptions(grace_seconds=0))
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:01Z"
    return pod


async def open_shell() -> Shell:
    """A gang of one whose only Pod is recorded, and whose Task is retried for ever."""
    shell = Shell()
    created = shell.create_framework()
    created["spec"]["taskRoles"][0]["task"]["retryPolicy"] = FANCY
    updated = shell.storage.update(shell.type(FRAMEWORKS), NAMESPACE, FRAMEWORK, created)
    shell.store.apply(ObjectKind.FRAMEWORK, updated)
    await shell.run(1.0)
    shell.show()
    await shell.run(1.0)
    return shell


async def test_answer_that_a_pod_is_absent_says_nothing_of_the_next_one() -> None:
    shell = await open_shell()
    shell.network.expect("get", PODS, Fate(downlink_seconds=5.0))
    shown = shell.get(PODS, POD)
    gone = remove(shell, POD)
    # It left the selector; a live GET is sent, and its answer takes long.
    shell.store.remove(ObjectKind.POD, shown)
    loop = asyncio.get_running_loop()
    # Meanwhile the end of the Pod is seen, and the next one is made.
    loop.call_later(0.5, shell.store.apply, ObjectKind.POD, gone)
    loop.call_later(0.6, shell.store.remove, ObjectKind.POD, gone)
    await shell.run(15.0)
    assert shell.sent("get").count(f"get pods {POD}") >= 1
    assert read_task(shell)["retryPolicyStatus"]["totalRetriedCount"] == 1
    uid = shell.get(PODS, POD)["metadata"]["uid"]
    assert read_task(shell)["attemptStatus"]["podUID"] == uid
