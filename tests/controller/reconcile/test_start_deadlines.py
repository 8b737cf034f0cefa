"""The deadlines of a start barrier pass without an event: docs/design/recovery.md, "Steps"."""

import pytest

from controller.core.recovery.late_members import CONTROLLER_SECONDS
from framework.api import constants
from framework.api.completion import EPOCH_START_TIMEOUT
from framework.api.epochreports import (
    SERVER_SECONDS,
    EpochStart,
    ProcessEnd,
    encode_end,
    encode_start,
)
from framework.api.roster import fingerprint_uid
from framework.kube.resources import PODS
from tests.controller.reconcile.restartedgangs import open_restarted_gang
from tests.support.builders import FRAMEWORK
from tests.support.simulator.shell import Shell

pytestmark = pytest.mark.looptime


async def open_gang() -> Shell:
    """Two workers that restart in place: epoch 0 has run, and worker 1 failed.

    The last event is the report of worker 1: epoch 1 is published, and starts no more.
    """
    shell = await open_restarted_gang()
    annotate(shell, 0, constants.EPOCH_STARTED_ANNOTATION, encode_start(EpochStart(1, 0)))
    await shell.run(20.0)
    annotate(shell, 1, constants.PROCESS_ENDED_ANNOTATION, encode_end(ProcessEnd(0, 137)))
    await shell.run(2.0)
    barrier = {"since": 1, "startedEpoch": 0}
    recovered = shell.status["attemptStatus"]["recovery"]
    assert recovered["epoch"] == 1
    assert recovered["startBarrier"].items() >= barrier.items()
    return shell


def annotate(shell: Shell, index: int, name: str, value: str) -> None:
    metadata = {"annotations": {name: value}}
    shell.patch(PODS, f"{FRAMEWORK}-worker-{index}", {"metadata": metadata})
    shell.show()


def get_codes(shell: Shell) -> list[int | None]:
    completions = [task["attemptStatus"].get("completionStatus") or {} for task in shell.tasks]
    return [completion.get("code") for completion in completions]


async def test_member_that_serves_ends_after_the_deadline_of_the_controller() -> None:
    shell = await open_gang()
    await shell.run(CONTROLLER_SECONDS - 10.0)
    assert get_codes(shell) == [None, None]
    await shell.run(20.0)
    assert get_codes(shell) == [EPOCH_START_TIMEOUT, None]


async def test_member_that_others_choose_ends_when_they_may_choose_it() -> None:
    shell = await open_gang()
    await shell.run(SERVER_SECONDS - 1.0)
    uid = shell.get(PODS, f"{FRAMEWORK}-worker-0")["metadata"]["uid"]
    choice = encode_start(EpochStart(1, 1, (fingerprint_uid(uid),)))
    annotate(shell, 1, constants.EPOCH_STARTED_ANNOTATION, choice)
    await shell.run(10.0)
    assert get_codes(shell) == [EPOCH_START_TIMEOUT, None]


async def test_gang_that_starts_keeps_all_its_pods() -> None:
    shell = await open_gang()
    start = encode_start(EpochStart(1, 1))
    annotate(shell, 0, constants.EPOCH_STARTED_ANNOTATION, start)
    await shell.run(2 * CONTROLLER_SECONDS)
    assert get_codes(shell) == [None, None]
