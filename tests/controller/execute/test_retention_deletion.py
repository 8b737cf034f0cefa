"""The deletion of a completed Framework is requested once, after its retention."""

import pytest

from controller.core.settings import Settings
from framework.kube.resources import FRAMEWORKS
from tests.support.builders import FRAMEWORK, NAMESPACE
from tests.support.simulator.shell import Shell

pytestmark = pytest.mark.looptime

RETAIN_SECONDS = 5
DELETE = f"delete frameworks {FRAMEWORK}"


async def open_stopped() -> Shell:
    """A Framework that was stopped at once, so that it is completed."""
    shell = Shell(Settings(completed_retain_seconds=RETAIN_SECONDS))
    shell.create_framework(executionType="Stop")
    await shell.run(1.0)
    assert shell.status["state"] == "Completed"
    return shell


async def test_deletion_is_requested_once_while_the_watch_is_behind() -> None:
    shell = await open_stopped()
    await shell.run(30.0)
    assert shell.get(FRAMEWORKS, FRAMEWORK)["metadata"]["deletionTimestamp"]
    assert shell.sent("delete") == [DELETE]


@pytest.mark.parametrize("is_created_anew", [False, True])
async def test_framework_that_was_created_anew_is_left_alone(*, is_created_anew: bool) -> None:
    shell = await open_stopped()
    shell.delete(FRAMEWORKS, FRAMEWORK, propagation="Background")
    await shell.run(RETAIN_SECONDS - 2)
    body = {"metadata": {"name": FRAMEWORK}, "spec": {"taskRoles": []}}
    body |= {"apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": "Framework"}
    if is_created_anew:
        shell.storage.create(shell.type(FRAMEWORKS), NAMESPACE, body)
    await shell.run(30.0)
    assert shell.names(FRAMEWORKS) == [FRAMEWORK] * is_created_anew
    assert shell.sent("delete") == [DELETE]
