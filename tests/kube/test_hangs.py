"""A hang on a real API server: it is found without a write, and its restart in place takes five.

Controller, agents and training code are processes, with the shipped rights and policies.
"""

import sys
from pathlib import Path

from framework.clock import SystemClock
from framework.kube.client import KubeClient
from tests.kube.test_restart_in_place import (
    COUNT,
    NAME,
    REPORT,
    ROSTER,
    STATUS,
    HealedGang,
    deploy,
    list_uids,
    run_gang,
)
from tests.rendezvous.test_hang_agents import HUNG_STEP, SETTINGS, TRAINING
from tests.support.servers.controlplane import Access

HUNG = 2


async def test_hung_rank_is_restarted_with_its_gang_in_five_writes(
    policies: None, audited_plane: Access, kube: KubeClient, namespace: str, tmp_path: Path
) -> None:
    deployed, policed = deploy(audited_plane, namespace, tmp_path)
    numbers = [str(number) for number in (HUNG, HUNG_STEP, COUNT)]
    command = [sys.executable, "-c", TRAINING, str(tmp_path), "sleep", *numbers]
    # What the progress costs in the status is counted in test_progress.py.
    # The limit is longer than a busy machine takes until the gang is settled.
    settings = {**SETTINGS, "FB_PROGRESS_STATUS": "off", "FB_PROGRESS_TIMEOUT_SEC": "15"}
    gang = HealedGang(policed, kube, tmp_path, command, settings)
    clock = SystemClock()
    child = deployed.launch()
    try:
        async with run_gang(gang, namespace) as uids:
            begin = clock.now()
            await gang.wait_for_epoch(1)
            end = clock.now()
            assert await list_uids(kube, namespace) == uids
            # The end of the gang below kills its processes, too.
            first = gang.read_recovery("firstFailed")
    finally:
        assert child.terminate() == 0
    waiting = ", ".join(f"worker/{index}" for index in range(COUNT) if index != HUNG)
    verdict = f"after step {HUNG_STEP - 1}: worker/{HUNG} is behind; 3 wait for it: {waiting}\n"
    assert verdict in gang.read_log(f"{NAME}-worker-0")
    assert " in work\n" in gang.read_log(f"{NAME}-worker-{HUNG}")
    assert isinstance(first, dict)
    assert (first["index"], first["code"]) == (HUNG, 202)
    assert gang.writes.count_writes(begin, end) == {REPORT: 2, STATUS: 2, ROSTER: 1}
    assert gang.writes.read_refused() == set()
