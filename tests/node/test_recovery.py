"""A gang on a real node whose processes are killed: it restarts in its Pods, then by a new Pod.

The processes write a checkpoint into a file of their container, which only a new Pod loses.
"""

import re
from typing import Any

import pytest

from tests.node.cluster import Cluster
from tests.node.gangs import (
    apply_gang,
    build_gang,
    end_gang,
    get_pod_spec,
    list_pods,
    wait_until_training,
)

pytestmark = pytest.mark.node

NAME, RANKS, MAX_RESTARTS = "healed", 8, 1
# Says when it starts, in nanoseconds. Leaves a process behind when it is killed. A command of a Pod
# has `$$` for `$`.
SCRIPT = """\
trap 'exit 143' TERM
echo $$$$ >/tmp/pid
step=$(cat /tmp/checkpoint 2>/dev/null || echo 0)
echo "epoch $FB_EPOCH starts $(date +%s%N) at step $step"
while [ ! -e /tmp/end ]; do
  sleep 0.1
  step=$((step + 1))
  echo $step >/tmp/new && mv /tmp/new /tmp/checkpoint
done
exit "$(cat /tmp/end)"
"""


def build_healed_gang() -> dict[str, Any]:
    in_place = {"maxRestarts": MAX_RESTARTS, "withinSeconds": 3600}
    gang = build_gang(NAME, RANKS, recovery={"inPlace": in_place})
    get_pod_spec(gang)["containers"][0]["command"] = ["sh", "-c", SCRIPT]
    return gang


def read_start(cluster: Cluster, namespace: str, index: int, epoch: int) -> tuple[int, int] | None:
    """Read when the process of a rank started in an epoch, and its step; None if it has not."""
    read = ("logs", "--namespace", namespace, f"{NAME}-worker-{index}", "-c", "train")
    log = cluster.try_kubectl(*read).stdout
    found = re.search(rf"(?m)^epoch {epoch} starts (\d+) at step (\d+)$", log)
    return (int(found[1]), int(found[2])) if found else None


def wait_for_epoch(cluster: Cluster, namespace: str, epoch: int) -> tuple[int, list[int]]:
    """Wait until the processes of all ranks have started; give the last time, and their steps."""

    def look() -> tuple[int, list[int]] | None:
        found = [read_start(cluster, namespace, index, epoch) for index in range(RANKS)]
        starts = [start for start in found if start]
        if len(starts) < RANKS:
            return None
        return max(time for time, _ in starts), [step for _, step in starts]

    return cluster.wait(look, f"epoch {epoch} runs", namespace)


def kill_process(cluster: Cluster, namespace: str, index: int) -> int:
    """Kill the process of a rank, not its agent; give the time."""
    kill = "date +%s%N; kill -9 $(cat /tmp/pid)"
    return int(cluster.run_in(namespace, f"{NAME}-worker-{index}", "train", "sh", "-c", kill))


def get_uids(pods: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in pods.items()}


def test_killed_process_restarts_in_its_pod_then_in_a_new_one(
    cluster: Cluster, namespace: str
) -> None:
    apply_gang(cluster, namespace, build_healed_gang(), "--rendezvous", "wrapper")
    wait_until_training(cluster, namespace, RANKS)
    assert wait_for_epoch(cluster, namespace, 0)[1] == [0] * RANKS
    before = list_pods(cluster, namespace)

    died = kill_process(cluster, namespace, 1)
    started, steps = wait_for_epoch(cluster, namespace, 1)
    in_place = started - died
    assert all(steps), "all continue from their checkpoints"
    pods = list_pods(cluster, namespace)
    assert get_uids(pods) == get_uids(before)
    counts = [s["restartCount"] for p in pods.values() for s in p["status"]["containerStatuses"]]
    assert set(counts) == {0}

    died = kill_process(cluster, namespace, 2)
    started, steps = wait_for_epoch(cluster, namespace, 2)
    by_pod = started - died
    assert [index for index, step in enumerate(steps) if not step] == [2], "a new container"
    after = get_uids(list_pods(cluster, namespace))
    replaced = {name for name, uid in get_uids(before).items() if after[name] != uid}
    assert replaced == {f"{NAME}-worker-2"}
    status = end_gang(cluster, namespace, NAME, *range(RANKS))["status"]["attemptStatus"]
    assert status["completionStatus"]["code"] == 0
    recovery = status["recovery"]
    assert (recovery["epoch"], recovery["reason"]) == (2, "BudgetUsedUp")
    assert recovery["firstFailed"]["index"] == 2
    assert [len(entry["times"]) for entry in recovery["restarts"]] == [MAX_RESTARTS]
    print(f"in place {in_place / 1e9:.2f} s, by a new Pod {by_pod / 1e9:.2f} s")
