"""An answer that arrives after the object it is about was replaced."""

import asyncio

import pytest

from controller.core.actions import ObjectKind
from framework.kube.resources import PODS
from tests.support.builders import FRAMEWORK, build_role_wire
from tests.support.fakes.storageclient import Fate
from tests.support.simulator.shell import Shell

pytestmark = pytest.mark.looptime

POD = f"{FRAMEWORK}-worker-0"


async def test_late_answer_that_a_pod_is_absent_does_not_count_for_the_next_one() -> None:
    shell = Shell()
    role = build_role_wire()
    role["task"]["retryPolicy"] = {"fancyRetryPolicy": True, "maxRetryCount": 0}
    shell.create_framework(taskRoles=[role])
    await shell.run(1.0)
    shell.show()
    await shell.run(1.0)
    shell.network.expect("get", PODS, Fate(downlink_seconds=5.0))
    pod = shell.get(PODS, POD)
    shell.delete(PODS, POD, grace_seconds=0)
    # It left the selector; a live GET is sent, and its answer takes long.
    shell.store.remove(ObjectKind.POD, pod)
    deleted = {**pod["metadata"], "deletionTimestamp": "2026-01-01T00:00:01Z"}
    terminated = {**pod, "metadata": deleted}
    loop = asyncio.get_running_loop()
    # Meanwhile a watch shows the end of the Pod, and the next one is created.
    loop.call_later(0.5, shell.store.apply, ObjectKind.POD, terminated)
    loop.call_later(0.6, shell.store.remove, ObjectKind.POD, terminated)
    await shell.run(15.0)
    assert shell.sent("get").count(f"get pods {POD}") >= 1
    (task,) = shell.tasks
    assert task["retryPolicyStatus"]["totalRetriedCount"] == 1
    assert task["attemptStatus"]["podUID"] == shell.get(PODS, POD)["metadata"]["uid"]
