"""Tasks leave on one machine: controller, agents, and processes that write checkpoints."""

from pathlib import Path

import pytest

from framework.api import constants
from framework.kube.client import PatchContent
from framework.kube.resources import NODES, PODS, Object
from tests.e2e.steps import restart_in_place, wait_until_succeeded, wrap_command
from tests.support.servers.gang import MAIN, NAMESPACE, GangCluster, build_gang, build_role
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.local

SCRIPT = """
exec python3 -c '
import os, sys, time
import peers
name = os.environ["FC_TASK_INDEX"] + "-" + os.environ["FC_TASK_ATTEMPT_ID"]
print("runs", name, flush=True)
open("/gate/runs-" + name, "w").close()
while not os.path.exists("/gate/end"):
    left = peers.leaving()
    if left:
        with open("/gate/checkpoint-" + name, "w") as file:
            print(*(pod.index for pod in left), file=file)
        # Rank 0 has seen it, too: after the end of this Pod, the roster lists nobody who leaves.
        if any(pod.is_own for pod in left) and os.path.exists("/gate/checkpoint-0-0"):
            sys.exit(143)
    time.sleep(0.05)
'
"""


# Rank 1 leaves when rank 0 knows of it. Rank 0 loses its connection, and fails.
CONNECTED = """
exec python3 -c '
import os, socket, sys, time
import peers
index, attempt = os.environ["FC_TASK_INDEX"], os.environ["FC_TASK_ATTEMPT_ID"]
run = index + "-" + attempt + "-" + os.environ["FB_GENERATION"]
print("runs", index + "-" + attempt, flush=True)
store = "/gate/store"
if index == "0":
    server = socket.socket(socket.AF_UNIX)
    server.bind(store + ".new")
    server.listen()
    os.rename(store + ".new", store)
    peer = server.accept()[0]
else:
    peer = socket.socket(socket.AF_UNIX)
    while peer.connect_ex(store):
        time.sleep(0.01)
while not os.path.exists("/gate/end"):
    left = bool(peers.leaving())
    try:
        peer.sendall(b"1" if left else b"0")
        answer = peer.recv(1)
    except OSError:
        answer = b""
    if not answer:
        # The other rank ends as soon as it sees the file, maybe before this rank has looked.
        sys.exit(None if os.path.exists("/gate/end") else "connection lost")
    if left and answer == b"1":
        open("/gate/checkpoint-" + run, "w").close()
        if any(pod.is_own for pod in peers.leaving()):
            sys.exit(143)
    time.sleep(0.02)
'
"""
NOTICE = [
    {
        "op": "add",
        "path": "/status/conditions/-",
        "value": {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"},
    }
]


def build_leaving_role(count: int, script: str = SCRIPT, *, in_place: bool = False) -> Object:
    role = build_role("worker", count, script)
    if in_place:
        restart_in_place(role, 1)
    else:
        wrap_command(role)
    role["task"]["pod"]["spec"]["containers"][0].setdefault("env", []).extend(
        [
            {"name": "FB_ON_LEAVING", "value": "wait"},
            {"name": "FB_ON_CHANGE", "value": "restart"},
            {"name": "FB_DEBOUNCE_SEC", "value": "0"},
        ]
    )
    recovery = role.setdefault(constants.RECOVERY_FIELD, {})
    recovery[constants.LEAVE_NODES_FIELD] = {constants.TIMEOUT_SECONDS_FIELD: 600}
    return role


async def wait_for_run(world: GangCluster, index: int, attempt: int) -> None:
    text = f"runs {index}-{attempt}"
    await world.wait_for_log(f"gang-worker-{index}", text, container=MAIN, number=attempt)


async def disrupt(world: GangCluster, pod: str) -> None:
    await world.client.patch(
        PODS, NAMESPACE, pod, NOTICE, content=PatchContent.JSON, subresource="status"
    )


async def wait_for_file(path: Path, text: str) -> None:
    await wait_until_async(lambda: path.exists() and path.read_text().strip() == text)


async def test_all_ranks_write_a_checkpoint_before_a_pod_leaves(
    world: GangCluster, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    await world.create(build_gang(build_leaving_role(2)))
    for index in range(2):
        await wait_for_run(world, index, 0)
    await disrupt(world, "gang-worker-1")
    await wait_for_file(gate / "checkpoint-0-0", "1")
    await wait_for_file(gate / "checkpoint-1-0", "1")
    await wait_for_run(world, 1, 1)
    await world.client.patch(NODES, None, "local", {"spec": {"unschedulable": True}})
    # A next Pod that starts in the second of the cordon leaves once more.
    await wait_until_async(lambda: has_run(gate, 0, 1) and has_run(gate, 1, 2))
    (gate / "end").touch()
    done = await wait_until_succeeded(world)
    (role,) = done["status"]["attemptStatus"]["taskRoleStatuses"]
    retries = [task["retryPolicyStatus"] for task in role["taskStatuses"]]
    assert [each["accountableRetriedCount"] for each in retries] == [0, 0]


def has_run(gate: Path, index: int, attempt: int) -> bool:
    """Whether this attempt of a rank, or a later one, has run."""
    runs = [path.name.rsplit("-", 1)[1] for path in gate.glob(f"runs-{index}-*")]
    return any(int(number) >= attempt for number in runs)


@pytest.mark.slow
@pytest.mark.parametrize("in_place", [False, True], ids=["restart", "in place"])
async def test_ranks_that_lose_their_connection_to_one_that_leaves_start_again(
    world: GangCluster, tmp_path: Path, *, in_place: bool
) -> None:
    gate = tmp_path / "gate"
    role = build_leaving_role(2, CONNECTED, in_place=in_place)
    await world.create(build_gang(role))
    for index in range(2):
        await wait_for_run(world, index, 0)
    await disrupt(world, "gang-worker-1")
    await wait_for_run(world, 1, 1)
    await world.wait_for_log("gang-worker-0", "connection lost", container=MAIN)
    (gate / "end").touch()
    done = await wait_until_succeeded(world)
    assert {path.name[:14] for path in gate.glob("checkpoint-*")} == {
        "checkpoint-0-0",
        "checkpoint-1-0",
    }
    attempt = done["status"]["attemptStatus"]
    retries = [task["retryPolicyStatus"] for task in attempt["taskRoleStatuses"][0]["taskStatuses"]]
    assert [each["totalRetriedCount"] for each in retries] == [0, 1]
    assert [each["accountableRetriedCount"] for each in retries] == [0, 0]
    assert not (attempt.get("recovery") or {}).get("restarts")
