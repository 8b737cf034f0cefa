"""A Pod whose create is always refused and always retried costs few requests."""

from dataclasses import replace

import pytest

from controller.core.settings import Settings
from framework.kube.resources import PODS, Object
from tests.support.builders import NAMESPACE, build_role_wire
from tests.support.simulator.shell import Shell, refuse

pytestmark = pytest.mark.looptime

POD = "gang-worker-0"
PAUSES_OFF = Settings(max_pause_seconds=0)
# More than a controller may request in the time of a test.
MANY = 1000


def build_retried_role(max_retry_count: int = -1) -> Object:
    role = build_role_wire()
    role["task"]["retryPolicy"] = {"maxRetryCount": max_retry_count}
    return role


def open_refusing(max_retry_count: int = -1, settings: Settings | None = None) -> Shell:
    """A gang of one whose Pod the server refuses."""
    shell = Shell(settings)
    shell.network.expect("create", PODS, *[replace(refuse(422), uplink_seconds=0.01)] * MANY)
    shell.create_framework(taskRoles=[build_retried_role(max_retry_count)])
    return shell


def count_retries(shell: Shell) -> int:
    assert shell.framework.status is not None
    (task,) = shell.framework.status.attempt_status.task_roles[0].tasks
    return task.retry_policy_status.total_retried_count


async def test_retries_without_end_become_rare() -> None:
    shell = open_refusing()
    await shell.run(120)
    before, asked = count_retries(shell), len(shell.sent())
    assert 5 <= before <= 12
    await shell.run(120)
    assert 1 <= count_retries(shell) - before <= 5
    assert len(shell.sent()) - asked <= 60


async def test_two_retries_are_made_at_once_and_the_next_ones_after_pauses() -> None:
    shell = open_refusing()
    await shell.run(0.5)
    assert shell.sent("create").count(f"create pods {POD}") == 3
    await shell.run(4.5)
    # After pauses of 1 and 2 s.
    assert shell.sent("create").count(f"create pods {POD}") == 5


async def test_refused_pods_of_many_frameworks_are_requested_one_at_a_time() -> None:
    """However many retry, the server has one request of their namespace at a time."""
    shell = open_refusing()
    for number in range(30):
        shell.create_framework(f"more{number}", taskRoles=[build_retried_role()])
    await shell.run(2)
    assert shell.executor.get_window(NAMESPACE) == 1


async def test_without_pauses_a_few_retries_are_made_at_once() -> None:
    """As of the original; without an end, they pause all the same."""
    shell = open_refusing(-1, PAUSES_OFF)
    await shell.run(120)
    assert 20 <= count_retries(shell) <= 30
    shell = open_refusing(15, PAUSES_OFF)
    await shell.run(5)
    assert count_retries(shell) == 15
    assert shell.framework.status is not None
    assert shell.framework.status.attempt_status.completion_status is not None


async def test_count_of_refusals_ends_when_a_pod_is_accepted() -> None:
    """One refusal of its successor is the first again, and is retried at once."""
    shell = open_refusing()
    await shell.run(120)
    shell.network.script.clear()
    while not shell.names(PODS):
        await shell.run(1)
    shell.network.expect("create", PODS, refuse(422))
    shell.delete(PODS, POD)
    shell.show()
    before = count_retries(shell)
    await shell.run(2)
    assert count_retries(shell) == before + 2
    assert shell.names(PODS) == [POD]


async def test_pod_that_is_accepted_in_the_end_is_created_within_half_a_minute() -> None:
    shell = open_refusing()
    await shell.run(120)
    shell.network.script.clear()
    await shell.run(31)
    assert shell.names(PODS) == [POD]
