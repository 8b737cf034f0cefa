"""kill -9 of the controller during the demo: its successor completes it, nothing runs twice."""

from collections.abc import Callable

import pytest
import yaml

from framework.api import constants
from framework.api.naming import build_configmap_name
from framework.api.states import FrameworkState
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS
from tests.support.servers.frameworkcrd import ROOT
from tests.support.servers.gang import NAMESPACE, Change, GangCluster, list_tasks
from tests.support.slow import keep_first
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.local

GANG_FILE = ROOT / "examples" / "gang.yaml"
TASKS = ["gang-ps-0", *(f"gang-worker-{i}" for i in range(4))]
FIRST_LINE = "epoch 0:"


def is_configmap_new(change: Change) -> bool:
    return change.resource is CONFIGMAPS and change.name == build_configmap_name("gang")


def is_roster_published(change: Change) -> bool:
    annotations = change.body["metadata"].get("annotations") or {}
    return change.resource is CONFIGMAPS and constants.GENERATION_ANNOTATION in annotations


def has_reached(first: FrameworkState) -> Callable[[Change], bool]:
    """Return a check for a state, or for a later one if the busy controller has skipped it."""
    states = list(FrameworkState)
    reached = {str(state) for state in states[states.index(first) :]}
    return lambda c: c.resource is FRAMEWORKS and c.status.get("state") in reached


def is_any_task_in(state: str) -> Callable[[Change], bool]:
    return lambda c: (
        c.resource is FRAMEWORKS
        and any(task["state"] == state for task in list_tasks(c.body).values())
    )


def is_third_pod() -> Callable[[Change], bool]:
    uids: set[str] = set()

    def count(change: Change) -> bool:
        if change.resource is PODS and change.type == "ADDED":
            uids.add(change.uid)
        return len(uids) == 3

    return count


MOMENTS: dict[str, Callable[[], Callable[[Change], bool]]] = {
    "configmap-exists": lambda: is_configmap_new,
    "some-pods-exist": is_third_pod,
    "roster-published": lambda: is_roster_published,
    "gang-runs": lambda: has_reached(FrameworkState.ATTEMPT_RUNNING),
    "first-task-completed": lambda: is_any_task_in("Completed"),
    "attempt-ends": lambda: has_reached(FrameworkState.ATTEMPT_DELETION_PENDING),
}


async def apply_demo(world: GangCluster) -> None:
    for document in yaml.safe_load_all(GANG_FILE.read_text(encoding="utf-8")):
        resource = FRAMEWORKS if document["kind"] == constants.FRAMEWORK_KIND else CONFIGMAPS
        await world.client.create(resource, NAMESPACE, document)


async def wait_until_started_again(world: GangCluster) -> None:
    """Wait for the controller's successor.

    On a busy machine the news of a late moment comes when the gang is already Completed.
    """
    supervisor = world.cluster.controller
    assert supervisor is not None
    await wait_until_async(lambda: supervisor.starts == 2)


@pytest.mark.parametrize("moment", keep_first(MOMENTS, 0))
async def test_demo_with_controller_killed_completes_and_runs_nothing_twice(
    world: GangCluster, moment: str
) -> None:
    is_moment = MOMENTS[moment]()
    kills: list[Change] = []

    def kill_once(change: Change) -> None:
        if not kills and is_moment(change):
            kills.append(change)
            world.kill_controller()

    world.on_change = kill_once
    await apply_demo(world)
    done = await world.wait_for_state("Completed")

    assert len(kills) == 1
    await wait_until_started_again(world)
    assert done["status"]["attemptStatus"]["completionStatus"]["code"] == 0, done["status"]
    assert done["status"]["retryPolicyStatus"]["totalRetriedCount"] == 0
    tasks = list_tasks(done)
    assert sorted(tasks) == TASKS
    # One Pod a Task, each of them the one that was counted.
    counted = {pod: [task["attemptStatus"]["podUID"]] for pod, task in tasks.items()}
    assert world.list_pods() == counted
    for pod in TASKS:
        assert tasks[pod]["attemptStatus"]["completionStatus"]["code"] == 0
        starts = (await world.read_log(pod, "train")).count(FIRST_LINE)
        assert starts == 1, f"{pod} started {starts} times"
