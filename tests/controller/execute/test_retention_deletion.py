"""A completed Framework is deleted once its time is over, and that is asked for once."""

import pytest

from controller.core.settings import Settings
from framework.kube.resources import FRAMEWORKS
from localcluster.apiserver.model.options import DeleteOptions
from tests.support.builders import FRAMEWORK, NAMESPACE
from tests.support.simulator.shell import Shell

pytestmark = pytest.mark.looptime

RETAIN_SECONDS = 5


async def open_stopped() -> Shell:
    """A Framework that was stopped at once, so that it is completed."""
    shell = Shell(Settings(completed_retain_seconds=RETAIN_SECONDS))
    shell.create_framework(executionType="Stop")
    await shell.run(1.0)
    assert shell.get(FRAMEWORKS, FRAMEWORK)["status"]["state"] == "Completed"
    return shell


async def test_deletion_is_asked_for_once_while_the_watch_is_behind() -> None:
    shell = await open_stopped()
    await shell.run(30.0)
    assert shell.get(FRAMEWORKS, FRAMEWORK)["metadata"]["deletionTimestamp"]
    assert shell.sent("delete") == [f"delete frameworks {FRAMEWORK}"]


async def test_framework_that_others_deleted_meanwhile_is_forgotten() -> None:
    shell = await open_stopped()
    options = DeleteOptions(propagation="Background")
    shell.storage.delete(shell.type(FRAMEWORKS), NAMESPACE, FRAMEWORK, options)
    await shell.run(30.0)
    assert shell.sent("delete") == [f"delete frameworks {FRAMEWORK}"]


async def test_another_framework_of_the_name_is_left_alone() -> None:
    shell = await open_stopped()
    options = DeleteOptions(propagation="Background")
    shell.storage.delete(shell.type(FRAMEWORKS), NAMESPACE, FRAMEWORK, options)
    await shell.run(RETAIN_SECONDS - 2)
    body = {"metadata": {"name": FRAMEWORK}, "spec": {"taskRoles": []}}
    body |= {"apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": "Framework"}
    uid = shell.storage.create(shell.type(FRAMEWORKS), NAMESPACE, body)["metadata"]["uid"]
    await shell.run(30.0)
    assert shell.get(FRAMEWORKS, FRAMEWORK)["metadata"]["uid"] == uid
    assert shell.sent("delete") == [f"delete frameworks {FRAMEWORK}"]
