"""What each answer to an action means, in virtual time on a storage."""

import asyncio
import base64
from dataclasses import replace
from typing import Any

import pytest

from controller.core.actions import (
    Action,
    CreateConfigMap,
    CreateGangKey,
    CreatePod,
    DeleteObject,
    GetObject,
    ObjectKind,
    Propagation,
)
from framework.api.naming import TaskKey
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS, SECRETS, Object
from localcluster.apiserver.model.options import DeleteOptions
from tests.support.builders import FRAMEWORK, NAMESPACE, build_template_wire
from tests.support.cases import cases
from tests.support.shell import KEY, Shell, refuse
from tests.support.storageclient import Fate

pytestmark = pytest.mark.looptime

POD = (ObjectKind.POD, "gang-worker-0")
CONFIGMAP = (ObjectKind.CONFIGMAP, "gang-attempt")


async def open_shell() -> Shell:
    """A gang of three with its ConfigMap, and no Pod yet.

    No fixture: those run in real time.
    """
    shell = Shell()
    shell.create_framework(number=3)
    await shell.run(0.05)
    for name in shell.names(PODS):
        shell.storage.delete(shell.type(PODS), NAMESPACE, name, DeleteOptions(grace_seconds=0))
    shell.show()
    for known in (
        shell.entry.observed.pods,
        shell.entry.observed.live,
        shell.entry.observed.unconfirmed,
    ):
        known.clear()
    shell.client.sent.clear()
    shell.changed.clear()
    return shell


async def send(shell: Shell, *actions: Action, seconds: float = 1.0) -> None:
    """Send actions and wait for their answers; no worker decides anew."""

    async def stop() -> None:
        await asyncio.sleep(seconds)
        raise TimeoutError

    try:
        async with asyncio.TaskGroup() as tasks:
            shell.executor.start(tasks)
            shell.entry.outcomes.sent.clear()  # as the decision does that asks for these
            shell.executor.submit(KEY, actions)
            tasks.create_task(stop())
    except* TimeoutError:
        pass


def create(shell: Shell, index: int = 0) -> CreatePod:
    """Create the Pod of a Task as the status has it."""
    framework = shell.entry.observed.framework
    assert framework is not None
    assert framework.status is not None
    task = framework.status.attempt_status.task_roles[0].tasks[index]
    identity = f"{task.instance_uid}/{task.attempt_status.id}"
    key = TaskKey("worker", index)
    return CreatePod(framework, key, f"gang-worker-{index}", identity, "why")


def delete(shell: Shell, name: str, **fields: Any) -> DeleteObject:
    uid = shell.get(PODS, name)["metadata"]["uid"]
    return DeleteObject(ObjectKind.POD, name, uid, "why", **fields)


def squat(shell: Shell, **metadata: Any) -> Object:
    body = {"metadata": {"name": POD[1], **metadata}, "spec": build_template_wire()["spec"]}
    return shell.storage.create(shell.type(PODS), NAMESPACE, body)


async def test_created_pod_is_known_before_any_watch_shows_it() -> None:
    shell = await open_shell()
    await send(shell, create(shell))
    uid = shell.get(PODS, POD[1])["metadata"]["uid"]
    assert shell.entry.observed.pods[POD[1]].uid == uid
    assert shell.entry.observed.live[POD] == uid
    assert POD in shell.entry.observed.unconfirmed
    assert shell.changed[-1] == KEY
    assert not shell.entry.outcomes.in_flight


async def test_action_in_flight_is_not_sent_again() -> None:
    shell = await open_shell()
    shell.network.expect("create", PODS, Fate(5.0, 5.0))
    action = create(shell)

    async def again() -> None:
        await asyncio.sleep(1.0)
        assert action.key in shell.entry.outcomes.in_flight
        shell.executor.submit(KEY, [action])

    task = asyncio.create_task(again())
    await send(shell, action, seconds=3.0)
    await task
    assert shell.sent() == ["create pods gang-worker-0"]


async def test_create_whose_answer_was_lost_adopts_what_it_made() -> None:
    shell = await open_shell()
    shell.network.expect("create", PODS, Fate(is_answer_lost=True))
    await send(shell, create(shell))
    (failure,) = shell.entry.outcomes.failures.values()
    assert (failure.code, failure.count) == (0, 1)
    await send(shell, create(shell))
    assert shell.sent()[1:] == ["create pods gang-worker-0", "get pods gang-worker-0"]
    assert shell.entry.observed.pods[POD[1]].uid == shell.get(PODS, POD[1])["metadata"]["uid"]
    assert not shell.entry.outcomes.failures


async def test_create_that_meets_a_foreign_object_fails_and_knows_it() -> None:
    shell = await open_shell()
    squatter = squat(shell)
    await send(shell, create(shell))
    (failure,) = shell.entry.outcomes.failures.values()
    assert failure.code == 409
    assert shell.entry.observed.live[POD] == squatter["metadata"]["uid"]
    assert not shell.entry.observed.pods


@pytest.mark.parametrize("code", [422, 413, 400, 403, 500])
async def test_refusal_is_kept_with_code_text_and_body(code: int) -> None:
    shell = await open_shell()
    started = shell.clock.now()
    shell.network.expect("create", PODS, refuse(code))
    await send(shell, create(shell))
    (failure,) = shell.entry.outcomes.failures.values()
    assert (failure.code, failure.message) == (code, "injected")
    assert failure.body.startswith('{"ErrStatus":{')
    assert failure.not_before > started


async def test_pod_far_longer_than_its_template_is_refused_without_a_request() -> None:
    shell = await open_shell()
    template: Object = {"spec": {"containers": [{}] * 400_000}}
    framework = shell.entry.observed.framework
    assert framework is not None
    (role,) = framework.spec.task_roles
    role = replace(role, task=replace(role.task, pod=template))
    framework = replace(framework, spec=replace(framework.spec, task_roles=(role,)))
    await send(shell, replace(create(shell), framework=framework))
    (failure,) = shell.entry.outcomes.failures.values()
    assert failure.code == 413
    assert "a Pod of role worker would be more than" in failure.message
    assert shell.sent("create pods") == []


async def test_defect_that_one_action_shows_is_its_failure_and_ends_no_other() -> None:
    shell = await open_shell()
    unknown = replace(create(shell), task=TaskKey("nobody", 0))
    await send(shell, unknown, create(shell, 1))
    (failure,) = shell.entry.outcomes.failures.values()
    assert failure.message.startswith("LookupError: ")
    assert not shell.entry.outcomes.in_flight
    assert shell.names(PODS) == ["gang-worker-1"]


async def test_retry_after_of_the_server_is_honoured() -> None:
    shell = await open_shell()
    started = shell.clock.now()
    shell.network.expect("create", PODS, refuse(429, retry_after=17))
    await send(shell, create(shell))
    (failure,) = shell.entry.outcomes.failures.values()
    assert (failure.not_before - started).total_seconds() >= 17


async def test_failures_are_counted_and_their_pauses_grow_to_half_a_minute() -> None:
    shell = await open_shell()
    pauses: list[float] = []
    for count in range(1, 10):
        shell.network.expect("create", PODS, refuse(500))
        started = shell.clock.now()
        await send(shell, create(shell))
        (failure,) = shell.entry.outcomes.failures.values()
        pauses.append((failure.not_before - started).total_seconds())
        assert failure.count == count
    assert pauses == sorted(pauses)
    assert 29 < pauses[-1] < 32


async def test_slow_start_after_an_error_then_all_succeed() -> None:
    shell = await open_shell()
    shell.network.expect("create", PODS, *[refuse(500)] * 3)
    await send(shell, *(create(shell, index) for index in range(3)))
    assert len(shell.sent()) == 3
    await send(shell, *(create(shell, index) for index in range(3)))
    assert shell.names(PODS) == ["gang-worker-0", "gang-worker-1", "gang-worker-2"]


# --- deletes -------------------------------------------------------------------------------------


async def test_deleted_pod_that_has_time_to_end_is_terminating() -> None:
    shell = await open_shell()
    await send(shell, create(shell))
    bind(shell)
    await send(shell, delete(shell, POD[1]))
    assert shell.entry.observed.pods[POD[1]].is_terminating


async def test_deleted_pod_that_is_gone_at_once_is_known_to_be() -> None:
    shell = await open_shell()
    await send(shell, create(shell))
    await send(shell, delete(shell, POD[1]))
    assert not shell.entry.observed.pods
    assert shell.entry.observed.live[POD] == ""


@cases("is_replaced", not_found=False, another_uid=True)
async def test_delete_of_what_is_gone_is_done(*, is_replaced: bool) -> None:
    shell = await open_shell()
    await send(shell, create(shell))
    action = delete(shell, POD[1])
    shell.storage.delete(shell.type(PODS), NAMESPACE, POD[1])
    if is_replaced:
        squat(shell)
    await send(shell, action)
    assert not shell.entry.observed.pods
    assert not shell.entry.outcomes.failures
    assert len(shell.names(PODS)) == is_replaced


async def test_conflict_on_a_delete_is_not_taken_for_absence() -> None:
    shell = await open_shell()
    await send(shell, create(shell))
    shell.network.expect("delete", PODS, refuse(409, "Conflict"))
    await send(shell, delete(shell, POD[1]))
    assert POD[1] in shell.entry.observed.pods
    assert [failure.code for failure in shell.entry.outcomes.failures.values()] == [409]


async def test_forced_delete_that_a_finalizer_holds_is_an_error_and_a_retry() -> None:
    shell = await open_shell()
    await send(shell, create(shell))
    patch = {"metadata": {"finalizers": ["example.com/hold"]}}
    merge = "application/merge-patch+json"
    shell.storage.patch(shell.type(PODS), NAMESPACE, POD[1], patch, merge)
    await send(shell, delete(shell, POD[1], grace_seconds=0))
    (failure,) = shell.entry.outcomes.failures.values()
    assert "finalizer" in failure.message
    assert shell.entry.observed.pods[POD[1]].is_terminating


async def test_framework_is_deleted_in_the_foreground() -> None:
    shell = await open_shell()
    uid = shell.get(FRAMEWORKS, FRAMEWORK)["metadata"]["uid"]
    kind = ObjectKind.FRAMEWORK
    await send(shell, DeleteObject(kind, FRAMEWORK, uid, "why", propagation=Propagation.FOREGROUND))
    wire = shell.get(FRAMEWORKS, FRAMEWORK)
    assert wire["metadata"]["finalizers"] == ["foregroundDeletion"]


async def test_configmap_delete_leaves_the_policy_to_its_finalizer() -> None:
    shell = await open_shell()
    uid = shell.get(CONFIGMAPS, CONFIGMAP[1])["metadata"]["uid"]
    await send(shell, DeleteObject(*CONFIGMAP, uid, "why"))
    assert shell.entry.observed.configmap is not None
    assert shell.entry.observed.configmap.is_terminating


# --- live GETs -----------------------------------------------------------------------------------


async def test_live_get_of_nothing_is_certainty() -> None:
    shell = await open_shell()
    await send(shell, GetObject(*POD, "why"))
    assert shell.entry.observed.live[POD] == ""


async def test_live_get_of_a_stranger_is_foreign() -> None:
    shell = await open_shell()
    squatter = squat(shell)
    await send(shell, GetObject(*POD, "why"))
    assert shell.entry.observed.live[POD] == squatter["metadata"]["uid"]
    assert not shell.entry.observed.pods


async def test_live_get_of_ours_is_seen() -> None:
    shell = await open_shell()
    await send(shell, create(shell))
    shell.entry.observed.pods.clear()
    await send(shell, GetObject(*POD, "why"))
    assert shell.entry.observed.pods[POD[1]].uid == shell.entry.observed.live[POD]


async def test_create_makes_what_was_known_of_the_name_void() -> None:
    shell = await open_shell()
    shell.entry.observed.live[POD] = ""
    shell.network.expect("create", PODS, Fate(is_lost=True))
    await send(shell, create(shell))
    assert POD not in shell.entry.observed.live


async def test_no_answer_in_time_is_a_failure() -> None:
    shell = await open_shell()
    shell.network.expect("create", PODS, Fate(downlink_seconds=100))
    await send(shell, create(shell), seconds=40)
    (failure,) = shell.entry.outcomes.failures.values()
    assert failure.code == 0


async def test_configmap_is_created_ready_for_a_roster() -> None:
    shell = Shell()
    shell.create_framework()
    await shell.run(0.05)
    framework = shell.entry.observed.framework
    assert framework is not None
    shell.storage.delete(shell.type(CONFIGMAPS), NAMESPACE, CONFIGMAP[1])
    action = CreateConfigMap(framework, CONFIGMAP[1], "uid/0", "why")
    await send(shell, action)
    assert "create configmaps gang-attempt" in shell.sent()


async def test_drain_sends_nothing_more_and_waits_for_answers() -> None:
    shell = await open_shell()
    shell.network.expect("create", PODS, Fate(1.0, 1.0))

    async def drain() -> float:
        await asyncio.sleep(0.5)
        await shell.executor.drain(5.0)
        shell.executor.submit(KEY, [create(shell, 1)])
        return shell.clock.monotonic()

    started = shell.clock.monotonic()
    task = asyncio.create_task(drain())
    await send(shell, create(shell), seconds=10)
    assert await task - started == pytest.approx(2.0)
    assert shell.sent() == ["create pods gang-worker-0"]


async def test_drain_does_not_wait_for_ever() -> None:
    shell = await open_shell()
    shell.network.expect("create", PODS, Fate(1.0, 50.0))

    async def drain() -> float:
        await asyncio.sleep(0.5)
        await shell.executor.drain(5.0)
        return shell.clock.monotonic()

    started = shell.clock.monotonic()
    task = asyncio.create_task(drain())
    await send(shell, create(shell), seconds=10)
    assert await task - started == pytest.approx(5.5)


def bind(shell: Shell) -> None:
    """Give the Pod a node: only then has it a grace period."""
    target = {"kind": "Node", "name": "node"}
    body = {"metadata": {"name": POD[1]}, "target": target}
    rt = shell.type(PODS)
    shell.storage.create_subresource(rt, NAMESPACE, POD[1], "binding", body)


async def test_action_sent_while_its_decision_was_written_is_not_sent_again() -> None:
    shell = await open_shell()
    action = create(shell)
    await send(shell, action)
    sent = len(shell.client.sent)
    assert sent > 0
    # The decision that asks for it again was made before the answer came.
    shell.entry.outcomes.sent.add(action.key)
    shell.executor.submit(KEY, [action])
    await asyncio.sleep(1)
    assert len(shell.client.sent) == sent


async def test_wait_the_server_asks_for_is_bounded() -> None:
    shell = Shell()
    shell.network.expect("create", CONFIGMAPS, refuse(429, "TooManyRequests", retry_after=10**12))
    shell.create_framework()
    await shell.run(400.0)
    assert shell.names(CONFIGMAPS) == [CONFIGMAP[1]]


SECRET = (ObjectKind.SECRET, "gang-gang-key")


def create_key(shell: Shell) -> CreateGangKey:
    """Create the Secret of the attempt as the status has it."""
    framework = shell.entry.observed.framework
    assert framework is not None
    assert framework.status is not None
    uid = framework.status.attempt_status.configmap_uid or ""
    return CreateGangKey(framework, SECRET[1], uid, "why")


def squat_key(shell: Shell) -> None:
    body = {"metadata": {"name": SECRET[1]}, "data": {}}
    shell.storage.create(shell.type(SECRETS), NAMESPACE, body)


async def test_gang_key_is_drawn_anew_and_remembered() -> None:
    shell, other = await open_shell(), await open_shell()
    values = set()
    for one in (shell, other):
        action = create_key(one)
        await send(one, action)
        assert one.entry.observed.gang_key_owner == action.identity
        (value,) = one.get(SECRETS, SECRET[1])["data"].values()
        values.add(base64.b64decode(value).rpartition(b":")[2])
    assert len(values) == 2
    assert all(len(bytes.fromhex(value.decode())) == 32 for value in values)


async def test_gang_key_after_a_lost_answer_is_created_again_and_found() -> None:
    shell = await open_shell()
    shell.network.expect("create", SECRETS, Fate(is_answer_lost=True))
    await send(shell, create_key(shell), seconds=40)
    assert shell.entry.observed.gang_key_owner == ""
    (failure,) = shell.entry.outcomes.failures.values()
    assert failure.is_unknown
    await send(shell, create_key(shell))
    assert shell.entry.observed.gang_key_owner == create_key(shell).identity
    assert not shell.entry.outcomes.failures
    assert shell.sent() == ["create secrets gang-gang-key"] * 2


async def test_gang_key_after_a_lost_answer_and_a_refusal_is_found() -> None:
    shell = await open_shell()
    shell.network.expect("create", SECRETS, Fate(is_answer_lost=True))
    await send(shell, create_key(shell), seconds=40)
    shell.network.expect("create", SECRETS, refuse(429, "TooManyRequests"))
    await send(shell, create_key(shell))
    await send(shell, create_key(shell))
    assert shell.entry.observed.gang_key_owner == create_key(shell).identity


async def test_gang_key_of_a_controller_before_us_is_found() -> None:
    shell = await open_shell()
    squat_key(shell)
    shell.entry.observed.own_configmap = ""  # the attempt began before this process did
    await send(shell, create_key(shell))
    assert shell.entry.observed.gang_key_owner == create_key(shell).identity


async def test_secret_that_was_there_before_our_attempt_is_not_taken_for_ours() -> None:
    shell = await open_shell()
    squat_key(shell)
    for _ in range(2):
        await send(shell, create_key(shell))
        (failure,) = shell.entry.outcomes.failures.values()
        assert failure.code == 409
        assert shell.entry.observed.gang_key_owner == ""
    shell.storage.delete(shell.type(SECRETS), NAMESPACE, SECRET[1])
    await send(shell, create_key(shell))
    assert shell.entry.observed.gang_key_owner == create_key(shell).identity


async def test_nobody_reads_secrets() -> None:
    shell = await open_shell()
    squat_key(shell)
    await send(shell, create_key(shell))
    assert {text.split()[0] for text in shell.sent() if "secrets" in text} == {"create"}
