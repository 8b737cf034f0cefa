"""Processes of a gang restart in their Pods: controller, agents and processes, on one machine."""

import os
import signal
import statistics
import time
from functools import partial
from pathlib import Path

import pytest

from framework.api.completion import EPOCH_START_TIMEOUT
from framework.kube.resources import FRAMEWORKS, Object
from tests.e2e.steps import (
    find_agent,
    restart_in_place,
    wait_until_ended,
    wait_until_succeeded,
)
from tests.support.measuring.pace import measure_slowness
from tests.support.servers.gang import (
    Change,
    GangCluster,
    build_gang,
    build_role,
)

pytestmark = pytest.mark.local

# A command has `$$` for `$`. Ends, or kills itself, when a file says so: its id on the machine is
# another one.
SCRIPT = """
echo "epoch $FB_EPOCH runs"
while [ ! -e /gate/end ]; do
  [ ! -e /gate/kill-$FC_TASK_INDEX-$FB_EPOCH ] || kill -9 $$$$
  sleep 0.05
done
"""


def build_restarted_role(count: int, max_restarts: int = 2) -> Object:
    role = build_role("worker", count, SCRIPT)
    restart_in_place(role, max_restarts)
    return role


async def wait_for_epoch(world: GangCluster, epoch: int, count: int) -> None:
    """Wait until the processes of an epoch run."""
    for index in range(count):
        await world.wait_for_log(f"gang-worker-{index}", f"epoch {epoch} runs", container="main")


def read_recovery(change: Change) -> Object:
    return (change.status.get("attemptStatus") or {}).get("recovery") or {}


async def test_killed_processes_restart_in_their_pods_also_beside_a_killed_controller(
    world: GangCluster, tmp_path: Path
) -> None:
    gate, count = tmp_path / "gate", 3
    await world.create(build_gang(build_restarted_role(count)))
    await wait_for_epoch(world, 0, count)
    (gate / "kill-1-0").touch()
    await wait_for_epoch(world, 1, count)
    world.kill_controller()
    (gate / "kill-2-1").touch()
    await wait_for_epoch(world, 2, count)
    (world._gate / "end").touch()
    done = await wait_until_succeeded(world)
    recovery = done["status"]["attemptStatus"]["recovery"]
    assert (recovery["epoch"], recovery["reason"]) == (2, "RestartedInPlace")
    assert recovery["firstFailed"]["index"] == 2
    assert recovery["firstFailed"]["code"] == 128 + signal.SIGKILL
    assert {name: len(uids) for name, uids in world.list_pods().items()} == {
        f"gang-worker-{index}": 1 for index in range(count)
    }, "no Pod was replaced"
    epochs = [read_recovery(c).get("epoch", 0) for c in world.changes if c.resource is FRAMEWORKS]
    assert epochs == sorted(epochs)


@pytest.mark.slow
async def test_process_without_budget_ends_its_pod(world: GangCluster, tmp_path: Path) -> None:
    await world.create(build_gang(build_restarted_role(2, max_restarts=1)))
    for epoch in range(2):
        await wait_for_epoch(world, epoch, 2)
        (tmp_path / "gate" / f"kill-0-{epoch}").touch()
    done = (await world.wait_for_state("Completed"))["status"]["attemptStatus"]
    assert done["recovery"]["reason"] == "BudgetUsedUp"
    assert done["completionStatus"]["trigger"]["taskIndex"] == 0
    assert done["completionStatus"]["code"] == 128 + signal.SIGKILL


@pytest.mark.slow
async def test_pod_with_a_frozen_agent_is_replaced_and_the_gang_starts_the_epoch(
    world: GangCluster, tmp_path: Path
) -> None:
    """The start barrier names it FB_STOP_GRACE_SEC (1) + 30 s after the restart began."""
    role = build_role("worker", 3, SCRIPT, max_retries=1)
    role["task"]["pod"]["spec"]["terminationGracePeriodSeconds"] = 1
    restart_in_place(role, 2)
    await world.create(build_gang(role))
    await wait_for_epoch(world, 0, 3)
    frozen = find_agent(world, "gang-worker-2")
    os.kill(frozen, signal.SIGSTOP)
    began = time.monotonic()
    (tmp_path / "gate" / "kill-1-0").touch()
    late = await world.wait_for("end of worker 2", partial(has_ended_late, 2))
    assert late.at - began >= 31.0
    for index in range(3):
        pod, number = f"gang-worker-{index}", int(index == 2)
        await world.wait_for_log(pod, "epoch 1 runs", container="main", number=number)
    (tmp_path / "gate" / "end").touch()
    done = await wait_until_succeeded(world)
    assert done["status"]["attemptStatus"]["recovery"]["epoch"] == 1
    pods = world.list_pods()
    assert [len(pods[f"gang-worker-{index}"]) for index in range(3)] == [1, 1, 2]


def has_ended_late(index: int, change: Change) -> bool:
    """Return whether the Task of a worker has ended because it did not come to a start barrier."""
    if change.resource is not FRAMEWORKS:
        return False
    for role in (change.status.get("attemptStatus") or {}).get("taskRoleStatuses") or ():
        attempt = role["taskStatuses"][index]["attemptStatus"]
        return (attempt.get("completionStatus") or {}).get("code") == EPOCH_START_TIMEOUT
    return False


SIZED_SCRIPT = """
echo "epoch $FB_EPOCH runs of $FB_SIZE"
while [ ! -e /gate/end-$FC_TASK_INDEX ]; do
  [ ! -e /gate/kill-$FC_TASK_INDEX-$FB_EPOCH ] || kill -9 $$$$
  sleep 0.05
done
echo "epoch $FB_EPOCH ends"
"""


@pytest.mark.slow
async def test_ranks_start_with_one_size_when_members_succeed_and_fail_together(
    world: GangCluster, tmp_path: Path
) -> None:
    """Agents show the next generation only 2 s after the one before."""
    gate, count = tmp_path / "gate", 6
    role = build_role("worker", count, SIZED_SCRIPT)
    restart_in_place(role, 10)
    await world.create(build_gang(role))
    sizes = list(range(count, 2, -1))
    for epoch, size in enumerate(sizes):
        for index in range(size):
            pod, text = f"gang-worker-{index}", f"epoch {epoch} runs of {size}"
            await world.wait_for_log(pod, text, container="main")
        if size != sizes[-1]:
            # The last rank succeeds, and another one fails: before or after the Pod has ended. The
            # process has ended before: SIGTERM would restart it with the others.
            last = f"gang-worker-{size - 1}"
            (gate / f"end-{size - 1}").touch()
            await world.wait_for_log(last, f"epoch {epoch} ends", container="main")
            if epoch % 2:
                await wait_until_ended(world, last)
            (gate / f"kill-{epoch}-{epoch}").touch()
    for index in range(sizes[-1]):
        (gate / f"end-{index}").touch()
    await wait_until_succeeded(world)


TIMED_SCRIPT = """
trap 'date +%s.%N >/gate/ended-$FB_EPOCH-$FC_TASK_INDEX; exit 143' TERM
echo "epoch $FB_EPOCH runs"
while [ ! -e /gate/end ]; do
  if [ -e /gate/kill-$FC_TASK_INDEX-$FB_EPOCH ]; then
    date +%s.%N >/gate/died-$FB_EPOCH
    kill -9 $$$$
  fi
  sleep 0.02
done
"""


@pytest.mark.slow
async def test_survivors_are_ended_within_a_third_of_a_second_of_a_failure(
    world: GangCluster, tmp_path: Path
) -> None:
    """No rank waits for the timeout of its communication library."""
    gate, count, failures = tmp_path / "gate", 3, 5
    role = build_role("worker", count, TIMED_SCRIPT)
    # A rank that is killed after a second writes no file.
    restart_in_place(role, failures, grace_seconds=60)
    await world.create(build_gang(role))
    slowness, took = [measure_slowness()], []
    for epoch in range(failures):
        await wait_for_epoch(world, epoch, count)
        (gate / f"kill-1-{epoch}").touch()
        await wait_for_epoch(world, epoch + 1, count)
        ended = [float((gate / f"ended-{epoch}-{index}").read_text()) for index in (0, 2)]
        took.append(max(ended) - float((gate / f"died-{epoch}").read_text()))
        slowness.append(measure_slowness())
    (gate / "end").touch()
    await wait_until_succeeded(world)
    assert statistics.median(took) <= 0.3 * max(slowness), (took, slowness)
