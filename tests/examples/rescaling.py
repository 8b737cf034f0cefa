"""The walk through scaling of the original's manual, with examples/rescale.yaml.

A Task that was removed by scaling down counts for nothing from that moment on, and is never
created again. Its index may be used again.
"""

from framework.kube.resources import PODS, Object
from tests.examples.stage import Stage

ROLE = "/spec/taskRoles/0"
HOLD = "example.com/hold"


def build_patch(count: int) -> list[Object]:
    """Build the patch of docs/api.md: the role is still the one that is meant."""
    policy = f"{ROLE}/frameworkAttemptCompletionPolicy/minFailedTaskCount"
    return [
        {"op": "test", "path": f"{ROLE}/name", "value": "worker"},
        {"op": "replace", "path": f"{ROLE}/taskNumber", "value": count},
        {"op": "replace", "path": policy, "value": count},
    ]


def list_identities(tasks: list[Object]) -> list[str]:
    return [task["instanceUID"] for task in tasks]


async def walk_through(stage: Stage) -> None:
    """Scale down over failed Tasks, up, and up again before down has ended."""
    await stage.apply()
    first = list_identities(await stage.wait_until_running(4))
    await fail(stage, 2, 3)
    # By the new policy two failures end the attempt, but the two of removed Tasks do not count.
    await stage.patch(*build_patch(2))
    assert list_identities(await stage.wait_until_running(2)) == first[:2]
    await stage.patch(*build_patch(4))
    second = list_identities(await stage.wait_until_running(4))
    assert second[:2] == first[:2]
    assert set(second[2:]).isdisjoint(first)
    third = await cross(stage, second, 3)
    # Task 3 is beyond the new count, so it is not replaced.
    assert third[:2] == first[:2]
    assert third[2] != second[2]
    await stage.patch(*build_patch(4))
    fourth = list_identities(await stage.wait_until_running(4))
    assert fourth[:3] == third
    fifth = await cross(stage, fourth, 5)
    assert fifth[:2] == first[:2]
    assert set(fifth[2:]).isdisjoint({*first, *second, *third, *fourth})
    end = await stage.stop()
    assert end["attemptStatus"]["id"] == 0
    assert end["attemptStatus"]["completionStatus"]["code"] == -210


async def fail(stage: Stage, *indices: int) -> None:
    """Delete Pods and wait until their Tasks have failed for good."""
    for index in indices:
        await stage.delete_pod("worker", index)
    await stage.wait_for_tasks(
        lambda tasks: all(tasks[index]["state"] == "Completed" for index in indices)
    )


async def cross(stage: Stage, identities: list[str], count: int) -> list[str]:
    """Scale down to 2, and up before that is done: Task 2 has failed, Task 3 terminates."""
    await fail(stage, 2)
    await hold(stage, [HOLD])
    await stage.patch(*build_patch(2))
    terminating = await stage.wait_for_tasks(
        lambda tasks: [task["deletionPending"] for task in tasks[3:]] == [True]
    )
    assert terminating[3]["instanceUID"] == identities[3]
    await stage.patch(*build_patch(count))

    def is_replaced(tasks: list[Object]) -> bool:
        is_new = tasks[2]["instanceUID"] != identities[2]
        return is_new and bool(tasks[2]["state"] == "AttemptRunning")

    # The new Task 2 does not wait for the end of Task 3.
    tasks = await stage.wait_for_tasks(is_replaced)
    assert tasks[3]["instanceUID"] == identities[3]
    await hold(stage, None)
    return list_identities(await stage.wait_until_running(count))


async def hold(stage: Stage, finalizers: list[str] | None) -> None:
    """Set the finalizers of the Pod of Task 3."""
    body = {"metadata": {"finalizers": finalizers}}
    await stage.kube.patch(PODS, stage.namespace, f"{stage.name}-worker-3", body)
