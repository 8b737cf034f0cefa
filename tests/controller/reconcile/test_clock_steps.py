"""A wall clock that is set back by an hour delays nothing by an hour.

One that is set forward ends no wait that the controller measures itself.
"""

import pytest

from controller.core.actions import ObjectKind
from controller.core.recovery.late_members import CONTROLLER_SECONDS
from framework.api import constants
from framework.api.completion import EPOCH_START_TIMEOUT
from framework.api.epochreports import ProcessEnd, encode_end
from framework.kube.resources import CONFIGMAPS, PODS
from tests.controller.reconcile.restartedgangs import open_restarted_gang
from tests.support.builders import FRAMEWORK
from tests.support.simulator.shell import Shell, refuse

pytestmark = pytest.mark.looptime

ATTEMPT = f"{FRAMEWORK}-attempt"
HOUR_SECONDS = 3600.0


async def open_shell(seconds: float = 1.0) -> Shell:
    shell = Shell()
    shell.create_framework()
    await shell.run(seconds)
    return shell


async def test_next_generation_is_published_after_the_clock_was_set_back() -> None:
    shell = await open_shell()
    generations = []
    for ip in ("10.0.0.1", "10.0.0.9"):
        shell.patch_pod(phase="Running", podIP=ip)
        await shell.run(5.0)
        roster = shell.known.published.roster
        assert roster is not None
        generations.append(roster.generation)
        shell.clock.skew_seconds = -HOUR_SECONDS
    assert generations == [1, 2]


async def test_refused_create_is_tried_again_after_the_clock_was_set_back() -> None:
    shell = Shell()
    shell.network.expect("create", CONFIGMAPS, refuse(500))
    shell.create_framework()
    await shell.run(0.1)
    shell.clock.skew_seconds = -HOUR_SECONDS
    await shell.run(5.0)
    assert shell.names(CONFIGMAPS) == [ATTEMPT]


async def test_unconfirmed_create_is_read_live_after_the_clock_was_set_back() -> None:
    shell = await open_shell()
    assert (ObjectKind.CONFIGMAP, ATTEMPT) in shell.known.unconfirmed
    shell.clock.skew_seconds = -HOUR_SECONDS
    shell.client.sent.clear()
    await shell.run(20.0)
    assert f"get configmaps {ATTEMPT}" in shell.sent("get")


async def test_start_that_is_awaited_is_measured_by_the_monotonic_clock() -> None:
    shell = await open_restarted_gang()
    reports = {constants.PROCESS_ENDED_ANNOTATION: encode_end(ProcessEnd(0, 137))}
    shell.patch(PODS, f"{FRAMEWORK}-worker-1", {"metadata": {"annotations": reports}})
    shell.show()
    await shell.run(2.0)
    shell.show()
    assert shell.status["attemptStatus"]["recovery"]["epoch"] == 1
    shell.clock.skew_seconds = HOUR_SECONDS
    shell.edit(retryPolicy={"maxRetryCount": 1})
    await shell.run(CONTROLLER_SECONDS - 10.0)
    assert [task["state"] for task in shell.tasks] == ["AttemptRunning"] * 2
    await shell.run(20.0)
    assert shell.tasks[0]["attemptStatus"]["completionStatus"]["code"] == EPOCH_START_TIMEOUT
    assert shell.tasks[1]["state"] == "AttemptRunning"
