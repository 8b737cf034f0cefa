"""Progress in the status on a real API server: what it costs, and what a hostile Pod can do by it.

Controller, agents and their commands are processes, with the shipped rights and policies.
"""

import itertools
import math
from pathlib import Path

from framework.api import constants
from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.resources import FRAMEWORKS
from tests.kube.test_restart_in_place import (
    NAME,
    REPORT,
    STATUS,
    HealedGang,
    deploy,
    run_gang,
)
from tests.support.builders import build_role_wire, build_submission
from tests.support.servers.controlplane import Access
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.servers.policed import Policed, annotate
from tests.support.servers.watching import wait_until_completed
from tests.support.waiting import wait_until_async

COUNT = 32
PERIOD_SECONDS = 15.0
SETTINGS = {"FB_PROGRESS_STATUS": "on", "FB_PROGRESS_PATTERN": "Step {step}/{total}"}
# All ranks have printed their last step when the gate opens.
COMMAND = """
echo runs in $FB_EPOCH; i=0
while [ ! -e "$GATE" ]; do i=$((i+1)); echo "Step $i/900"; sleep 0.5; done
echo Step 900/900
# Rank 0 ends last: its agent waits only 1 s for the last steps of the others.
[ "$FC_TASK_INDEX" != 0 ] || sleep 10
"""
PROGRESS = constants.TRAINING_PROGRESS_ANNOTATION
POD, PATCHES = f"{NAME}-worker-0", 500


def report(policed: Policed, agent: JsonHttp, step: int) -> tuple[int, object]:
    """Report as the agent of rank 0 does, as often as the caller likes."""
    return policed.patch(agent, POD, annotate(**{PROGRESS: f"1 {step} - - - 0"}))


async def test_gang_of_any_size_takes_two_writes_in_15_seconds_and_shows_its_last_step(
    policies: None, audited_plane: Access, kube: KubeClient, namespace: str, tmp_path: Path
) -> None:
    deployed, policed = deploy(audited_plane, namespace, tmp_path)
    gang = HealedGang(policed, kube, tmp_path, ("sh", "-c", COMMAND), SETTINGS, COUNT)
    clock = SystemClock()
    child = deployed.launch()
    try:
        async with run_gang(gang, namespace):
            await wait_for_reports(gang, 1)
            begin = clock.now()
            await wait_for_reports(gang, 3)
            end = clock.now()
            gang.gate.touch()
            status = (await wait_until_completed(kube, namespace, NAME))["status"]
    finally:
        assert child.terminate() == 0
    writes = gang.writes.count_writes(begin, end)
    most = math.ceil((end - begin).total_seconds() / PERIOD_SECONDS) + 1
    assert writes.keys() == {REPORT, STATUS}
    assert max(writes.values()) <= most
    assert gang.writes.read_refused() == set()
    training = status["attemptStatus"][constants.TRAINING_PROGRESS_FIELD]
    assert (training["step"], training["totalSteps"]) == (900, 900)


async def wait_for_reports(gang: HealedGang, count: int) -> None:
    """Wait until so many values have been in the status, each another time."""
    seen: set[object] = set()

    def has_seen() -> bool:
        seen.add(gang.read_attempt(constants.TRAINING_PROGRESS_FIELD, "updateTime"))
        return len(seen - {None}) >= count

    await wait_until_async(has_seen)


async def test_pod_that_changes_its_progress_all_the_time_delays_nobody(
    policies: None, audited_plane: Access, kube: KubeClient, namespace: str, tmp_path: Path
) -> None:
    deployed, policed = deploy(audited_plane, namespace, tmp_path)
    gang = HealedGang(policed, kube, tmp_path)
    clock = SystemClock()
    child = deployed.launch()
    try:
        async with run_gang(gang, namespace):
            agent = policed.open_agent(POD)
            begin = clock.now()
            for step in range(PATCHES):
                assert report(policed, agent, step)[0] == 200
            end = clock.now()
            # Without Tasks: the kubelet here runs the Pods of one gang.
            other = build_submission("other", build_role_wire("worker", 0))
            await kube.create(FRAMEWORKS, namespace, other)
            for step in itertools.count(PATCHES):
                if (await kube.get(FRAMEWORKS, namespace, "other")).get("status"):
                    break
                report(policed, agent, step)
            gang.gate.touch()
            await wait_until_completed(kube, namespace, NAME)
    finally:
        assert child.terminate() == 0
    seconds = (end - begin).total_seconds()
    writes = gang.writes.count_writes(begin, end)
    assert writes[REPORT] == PATCHES
    assert writes[STATUS] <= seconds // PERIOD_SECONDS + 1
