"""Suspend, resume, deadline and TTL on a server: which requests are sent, and which are refused."""

import asyncio
from typing import Any

import pytest

from controller.core.settings import Settings
from framework.kube.resources import CONFIGMAPS, EVENTS, FRAMEWORKS, PODS, SECRETS, Object
from tests.support.builders import FRAMEWORK, build_template_wire
from tests.support.fakes.storageclient import Fate
from tests.support.simulator.shell import Shell

pytestmark = pytest.mark.looptime

TTL_SECONDS = 20
DELETE = f"delete frameworks {FRAMEWORK}"
POD = f"{FRAMEWORK}-worker-0"
KEY_SECRET = f"{FRAMEWORK}-gang-key"


async def rest(shell: Shell, seconds: float = 5.0) -> None:
    """Let controller, kubelet and garbage collector work."""
    for _ in range(int(seconds)):
        await shell.run(1.0)
        for pod in shell.storage.list(shell.type(PODS), None).items:
            if pod["metadata"].get("deletionTimestamp"):
                shell.delete(PODS, pod["metadata"]["name"], grace_seconds=0)
            elif pod["status"].get("phase") == "Pending":
                shell.patch_pod(pod["metadata"]["name"], phase="Running", podIP="10.0.0.1")
        shell.storage.collect_garbage()
        shell.show()


async def open_shell(**spec: Any) -> Shell:
    shell = Shell()
    shell.create_framework(**spec)
    await rest(shell)
    return shell


async def open_completed(**spec: Any) -> Shell:
    """A Framework that was stopped before it started anything."""
    shell = Shell()
    shell.create_framework(executionType="Stop", **spec)
    await shell.run(1.0)
    assert shell.status["state"] == "Completed"
    return shell


def list_event_reasons(shell: Shell) -> list[str]:
    found = shell.storage.list(shell.type(EVENTS), None).items
    return [str(event["reason"]) for event in found]


async def test_suspension_deletes_the_objects_and_a_resumption_creates_new_ones() -> None:
    shell = await open_shell()
    before = shell.get(PODS, POD)["metadata"]["uid"]
    shell.edit(suspend=True)
    await rest(shell)
    assert shell.names(PODS) == shell.names(CONFIGMAPS) == []
    assert shell.find_condition(condition_type="Suspended")["status"] == "True"
    sent = shell.sent("create", "delete")
    await rest(shell, 40)
    assert shell.sent("create", "delete") == sent
    shell.edit(suspend=False)
    await rest(shell)
    assert shell.get(PODS, POD)["metadata"]["uid"] != before
    assert shell.status["state"] == "AttemptRunning"
    reasons = list_event_reasons(shell)
    assert [reasons.count(r) for r in ("Suspending", "Suspended", "Resumed")] == [1, 1, 1]


async def test_framework_that_is_suspended_at_its_creation_sends_only_its_status() -> None:
    shell = await open_shell(suspend=True)
    assert shell.sent("create", "delete", "patch") == []
    assert shell.status["state"] == "AttemptCreationPending"


async def test_next_controller_keeps_a_framework_suspended_and_resumes_it() -> None:
    shell = await open_shell()
    shell.edit(suspend=True)
    await rest(shell)
    second = Shell(after=shell)
    second.show()
    await rest(second)
    assert second.sent("create", "delete") == []
    second.edit(suspend=False)
    await rest(second)
    assert second.status["state"] == "AttemptRunning"
    assert second.status["attemptStatus"]["id"] == 1


async def test_next_controller_counts_the_deadline_from_the_stored_start() -> None:
    shell = await open_shell(activeDeadlineSeconds=30)
    await asyncio.sleep(15)
    second = Shell(after=shell)
    second.show()
    await rest(second, 5)
    assert second.status["state"] == "AttemptRunning"
    await rest(second, 15)
    assert second.status["state"] == "Completed"
    assert second.status["attemptStatus"]["completionStatus"]["code"] == -240
    assert "DeadlineExceeded" in list_event_reasons(second)


async def test_status_of_a_resumption_that_is_lost_delays_all_creates() -> None:
    shell = await open_shell(suspend=True)
    shell.network.expect("replace", FRAMEWORKS, Fate(is_lost=True))
    shell.edit(suspend=False)
    await shell.run(0.02)
    assert "activeStartTime" not in shell.status
    assert shell.sent("create") == []
    await rest(shell)
    assert shell.status["state"] == "AttemptRunning"
    assert "activeStartTime" in shell.status


async def test_ttl_deletes_the_framework_and_says_so_in_an_event() -> None:
    shell = await open_completed(ttlSecondsAfterFinished=TTL_SECONDS)
    await shell.run(TTL_SECONDS - 2)
    assert shell.sent("delete") == []
    await shell.run(5.0)
    assert shell.sent("delete") == [DELETE]
    shell.storage.collect_garbage()
    assert shell.names(FRAMEWORKS) == []
    assert list_event_reasons(shell).count("Expired") == 1


async def test_ttl_of_zero_deletes_at_once() -> None:
    shell = Shell()
    shell.create_framework(executionType="Stop", ttlSecondsAfterFinished=0)
    await shell.run(1.0)
    shell.storage.collect_garbage()
    assert shell.names(FRAMEWORKS) == []
    assert shell.sent("replace", "delete")[-2:] == [f"replace frameworks {FRAMEWORK}", DELETE]


async def test_framework_whose_ttl_was_raised_unseen_is_not_deleted() -> None:
    """The controller decides from an old version: the server refuses the deletion."""
    shell = await open_completed(ttlSecondsAfterFinished=TTL_SECONDS)
    shell.patch(FRAMEWORKS, FRAMEWORK, {"spec": {"ttlSecondsAfterFinished": 100}})
    await shell.run(TTL_SECONDS + 5)
    assert DELETE in shell.sent("delete")
    assert "deletionTimestamp" not in shell.get(FRAMEWORKS, FRAMEWORK)["metadata"]
    shell.show()
    await shell.run(100 - TTL_SECONDS - 10)
    assert "deletionTimestamp" not in shell.get(FRAMEWORKS, FRAMEWORK)["metadata"]
    await shell.run(10)
    assert "deletionTimestamp" in shell.get(FRAMEWORKS, FRAMEWORK)["metadata"]


async def test_successor_of_the_same_name_is_not_deleted() -> None:
    shell = await open_completed(ttlSecondsAfterFinished=TTL_SECONDS)
    shell.delete(FRAMEWORKS, FRAMEWORK, propagation="Background")
    body: Object = {"metadata": {"name": FRAMEWORK}, "spec": {"taskRoles": []}}
    body |= {"apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": "Framework"}
    created = shell.storage.create(shell.type(FRAMEWORKS), "default", body)
    await shell.run(TTL_SECONDS + 40)
    assert DELETE in shell.sent("delete")
    assert shell.get(FRAMEWORKS, FRAMEWORK)["metadata"]["uid"] == created["metadata"]["uid"]


async def test_next_controller_deletes_a_framework_whose_ttl_passed_without_a_controller() -> None:
    shell = await open_completed(ttlSecondsAfterFinished=TTL_SECONDS)
    await asyncio.sleep(TTL_SECONDS)
    second = Shell(after=shell)
    second.show()
    await second.run(1.0)
    assert second.sent("delete") == [DELETE]


async def test_retention_of_the_config_is_also_reported() -> None:
    shell = Shell(Settings(completed_retain_seconds=5))
    shell.create_framework(executionType="Stop")
    await shell.run(10.0)
    assert list_event_reasons(shell).count("Expired") == 1


async def test_orphaned_gang_key_blocks_the_next_attempt_until_a_user_deletes_it() -> None:
    """The controller may neither read nor delete Secrets: the condition names the object."""
    shell = Shell()
    volume = {"name": "key", "secret": {"secretName": KEY_SECRET}}
    shell.create_framework(retryPolicy={"fancyRetryPolicy": True})
    roles = shell.get(FRAMEWORKS, FRAMEWORK)["spec"]["taskRoles"]
    roles[0]["task"]["pod"] = build_template_wire(volumes=[volume])
    shell.edit(taskRoles=roles)
    await rest(shell)
    shell.delete(CONFIGMAPS, f"{FRAMEWORK}-attempt", propagation="Orphan")
    await rest(shell, 60)
    assert shell.names(SECRETS) == [KEY_SECRET]
    assert shell.sent("delete") == []
    blocked = shell.find_condition()
    assert (blocked["status"], blocked["reason"]) == ("True", "NameTaken")
    assert f"Secret {KEY_SECRET} cannot be created: delete" in blocked["message"]
    shell.delete(SECRETS, KEY_SECRET)
    # The orphaned Pod has the name of the next one, too.
    shell.delete(PODS, POD, grace_seconds=0)
    await rest(shell, 40)
    assert shell.status["state"] == "AttemptRunning"
    assert shell.find_condition()["status"] == "False"
