"""The meaning of each answer to an action, in virtual time on a storage."""

import asyncio
import base64
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509 import load_pem_x509_certificate

from controller.core.actions import (
    Action,
    CreateGangKey,
    CreatePod,
    DeleteObject,
    GetObject,
    ObjectKind,
    Propagation,
)
from controller.core.snapshot import Failure
from framework.api import constants
from framework.api.naming import TaskKey
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS, SECRETS, Object
from tests.support.builders import FRAMEWORK, NAMESPACE, build_template_wire
from tests.support.builders.cases import cases
from tests.support.fakes.storageclient import Fate
from tests.support.simulator.shell import KEY, Shell, refuse

pytestmark = pytest.mark.looptime

NAME = "gang-worker-0"
POD = (ObjectKind.POD, NAME)
CONFIGMAP = (ObjectKind.CONFIGMAP, "gang-attempt")
SECRET = "gang-gang-key"


async def open_shell() -> Shell:
    """A gang of three with its ConfigMap, and no Pod yet. (Fixtures run in real time.)"""
    shell = Shell()
    shell.create_framework(number=3)
    await shell.run(0.05)
    for name in shell.names(PODS):
        shell.delete(PODS, name, grace_seconds=0)
    shell.show()
    for known in (shell.known.pods, shell.known.live, shell.known.unconfirmed):
        known.clear()
    shell.client.sent.clear()
    shell.changed.clear()
    return shell


async def send(shell: Shell, *actions: Action, seconds: float = 1.0) -> None:
    """Send actions and wait for their answers; no worker decides meanwhile."""

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


async def open_with_pod() -> Shell:
    shell = await open_shell()
    await send(shell, create(shell))
    return shell


def create(shell: Shell, index: int = 0) -> CreatePod:
    """Create the Pod of a Task as the status has it."""
    assert shell.framework.status is not None
    task = shell.framework.status.attempt_status.task_roles[0].tasks[index]
    identity = f"{task.instance_uid}/{task.attempt_status.id}"
    key = TaskKey("worker", index)
    return CreatePod(shell.framework, f"gang-worker-{index}", identity, "why", task=key)


def delete(shell: Shell, **fields: Any) -> DeleteObject:
    return DeleteObject(*POD, read_uid(shell), "why", **fields)


def read_uid(shell: Shell) -> str:
    return str(shell.get(PODS, NAME)["metadata"]["uid"])


def create_foreign_pod(shell: Shell) -> Object:
    body = {"metadata": {"name": NAME}, "spec": build_template_wire()["spec"]}
    return shell.storage.create(shell.type(PODS), NAMESPACE, body)


def get_failure(shell: Shell) -> Failure:
    (failure,) = shell.entry.outcomes.failures.values()
    return failure


# --- creates -------------------------------------------------------------------------------------


async def test_created_pod_is_known_before_any_watch_shows_it() -> None:
    shell = await open_with_pod()
    assert shell.known.pods[NAME].uid == shell.known.live[POD] == read_uid(shell)
    assert POD in shell.known.unconfirmed
    assert shell.changed[-1] == KEY
    assert not shell.entry.outcomes.in_flight


async def test_action_in_flight_is_not_sent_again() -> None:
    shell = await open_shell()
    shell.network.expect("create", PODS, Fate(5.0, 5.0))
    action = create(shell)

    async def submit_again() -> None:
        await asyncio.sleep(1.0)
        assert action.key in shell.entry.outcomes.in_flight
        shell.executor.submit(KEY, [action])

    task = asyncio.create_task(submit_again())
    await send(shell, action, seconds=3.0)
    await task
    assert shell.sent() == [f"create pods {NAME}"]


async def test_action_sent_while_its_decision_was_written_is_not_sent_again() -> None:
    shell = await open_shell()
    action = create(shell)
    await send(shell, action)
    # The decision that asks for it again was made before the answer arrived.
    shell.entry.outcomes.sent.add(action.key)
    shell.executor.submit(KEY, [action])
    await asyncio.sleep(1)
    assert shell.sent("create") == [f"create pods {NAME}"]


async def test_create_whose_answer_was_lost_adopts_the_object_that_it_made() -> None:
    shell = await open_shell()
    shell.network.expect("create", PODS, Fate(is_answer_lost=True))
    await send(shell, create(shell))
    assert (get_failure(shell).code, get_failure(shell).count) == (0, 1)
    await send(shell, create(shell))
    assert shell.sent()[1:] == [f"create pods {NAME}", f"get pods {NAME}"]
    assert shell.known.pods[NAME].uid == read_uid(shell)
    assert not shell.entry.outcomes.failures


async def test_create_that_meets_a_foreign_object_fails_and_records_it() -> None:
    shell = await open_shell()
    foreign = create_foreign_pod(shell)
    await send(shell, create(shell))
    assert get_failure(shell).code == 409
    assert shell.known.live[POD] == foreign["metadata"]["uid"]
    assert not shell.known.pods


@pytest.mark.parametrize("code", [422, 413, 400, 403, 500])
async def test_refusal_is_kept_with_code_text_and_body(code: int) -> None:
    shell = await open_shell()
    started = shell.clock.now()
    shell.network.expect("create", PODS, refuse(code))
    await send(shell, create(shell))
    failure = get_failure(shell)
    assert (failure.code, failure.message) == (code, "injected")
    assert failure.body.startswith('{"ErrStatus":{')
    assert failure.not_before > started


async def test_pod_far_longer_than_its_template_is_refused_without_a_request() -> None:
    shell = await open_shell()
    (role,) = shell.framework.spec.task_roles
    role = replace(role, task=replace(role.task, pod={"spec": {"containers": [{}] * 400_000}}))
    spec = replace(shell.framework.spec, task_roles=(role,))
    await send(shell, replace(create(shell), framework=replace(shell.framework, spec=spec)))
    assert get_failure(shell).code == 413
    assert "a Pod of role worker would be more than" in get_failure(shell).message
    assert shell.sent("create pods") == []


async def test_action_that_cannot_be_built_fails_and_stops_no_other() -> None:
    shell = await open_shell()
    unknown = replace(create(shell), task=TaskKey("unknown", 0))
    await send(shell, unknown, create(shell, 1))
    assert get_failure(shell).message.startswith("LookupError: ")
    assert not shell.entry.outcomes.in_flight
    assert shell.names(PODS) == ["gang-worker-1"]


async def test_retry_after_of_the_server_is_honoured() -> None:
    shell = await open_shell()
    started = shell.clock.now()
    shell.network.expect("create", PODS, refuse(429, retry_after=17))
    await send(shell, create(shell))
    assert (get_failure(shell).not_before - started).total_seconds() >= 17


async def test_retry_after_of_the_server_is_bounded() -> None:
    shell = Shell()
    shell.network.expect("create", CONFIGMAPS, refuse(429, "TooManyRequests", retry_after=10**12))
    shell.create_framework()
    await shell.run(400.0)
    assert shell.names(CONFIGMAPS) == [CONFIGMAP[1]]


async def test_failures_are_counted_and_their_pauses_grow_to_half_a_minute() -> None:
    shell = await open_shell()
    pauses: list[float] = []
    for count in range(1, 10):
        shell.network.expect("create", PODS, refuse(500))
        started = shell.clock.now()
        await send(shell, create(shell))
        pauses.append((get_failure(shell).not_before - started).total_seconds())
        assert get_failure(shell).count == count
    assert pauses == sorted(pauses)
    assert 29 < pauses[-1] < 32


async def test_slow_start_after_an_error_then_all_succeed() -> None:
    shell = await open_shell()
    shell.network.expect("create", PODS, *[refuse(500)] * 3)
    actions = [create(shell, index) for index in range(3)]
    await send(shell, *actions)
    assert len(shell.sent()) == 3
    await send(shell, *actions)
    assert shell.names(PODS) == ["gang-worker-0", "gang-worker-1", "gang-worker-2"]


async def test_create_invalidates_the_result_of_the_last_live_get() -> None:
    shell = await open_shell()
    shell.known.live[POD] = ""
    shell.network.expect("create", PODS, Fate(is_lost=True))
    await send(shell, create(shell))
    assert POD not in shell.known.live


async def test_no_answer_in_time_is_a_failure() -> None:
    shell = await open_shell()
    shell.network.expect("create", PODS, Fate(downlink_seconds=100))
    await send(shell, create(shell), seconds=40)
    assert get_failure(shell).code == 0


# --- deletes -------------------------------------------------------------------------------------


async def test_deleted_pod_with_a_grace_period_is_terminating() -> None:
    shell = await open_with_pod()
    # Only a Pod on a node has a grace period.
    body = {"metadata": {"name": NAME}, "target": {"kind": "Node", "name": "node"}}
    shell.storage.bind(shell.type(PODS), NAMESPACE, NAME, body)
    await send(shell, delete(shell))
    assert shell.known.pods[NAME].is_terminating


async def test_deleted_pod_that_is_gone_at_once_is_known_to_be_absent() -> None:
    shell = await open_with_pod()
    await send(shell, delete(shell))
    assert not shell.known.pods
    assert shell.known.live[POD] == ""


@cases("is_replaced", not_found=False, another_uid=True)
async def test_delete_of_an_object_that_is_gone_succeeds(*, is_replaced: bool) -> None:
    shell = await open_with_pod()
    action = delete(shell)
    shell.delete(PODS, NAME)
    if is_replaced:
        create_foreign_pod(shell)
    await send(shell, action)
    assert not shell.known.pods
    assert not shell.entry.outcomes.failures
    assert len(shell.names(PODS)) == is_replaced


async def test_conflict_on_a_delete_does_not_count_as_absence() -> None:
    shell = await open_with_pod()
    shell.network.expect("delete", PODS, refuse(409, "Conflict"))
    await send(shell, delete(shell))
    assert NAME in shell.known.pods
    assert get_failure(shell).code == 409


async def test_forced_delete_that_a_finalizer_holds_is_a_failure() -> None:
    shell = await open_with_pod()
    shell.patch(PODS, NAME, {"metadata": {"finalizers": ["example.com/hold"]}})
    await send(shell, delete(shell, grace_seconds=0))
    assert "finalizer" in get_failure(shell).message
    assert shell.known.pods[NAME].is_terminating


async def test_framework_is_deleted_in_the_foreground() -> None:
    shell = await open_shell()
    propagation = Propagation.FOREGROUND
    uid = shell.framework.metadata.uid
    action = DeleteObject(ObjectKind.FRAMEWORK, FRAMEWORK, uid, "why", propagation=propagation)
    await send(shell, action)
    assert shell.get(FRAMEWORKS, FRAMEWORK)["metadata"]["finalizers"] == ["foregroundDeletion"]


async def test_configmap_delete_leaves_the_policy_to_its_finalizer() -> None:
    shell = await open_shell()
    uid = shell.get(CONFIGMAPS, CONFIGMAP[1])["metadata"]["uid"]
    await send(shell, DeleteObject(*CONFIGMAP, uid, "why"))
    assert shell.known.configmap is not None
    assert shell.known.configmap.is_terminating


# --- live GETs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_foreign", [False, True])
async def test_live_get_shows_that_no_pod_of_ours_exists(*, is_foreign: bool) -> None:
    shell = await open_shell()
    uid = create_foreign_pod(shell)["metadata"]["uid"] if is_foreign else ""
    await send(shell, GetObject(*POD, "why"))
    assert shell.known.live[POD] == uid
    assert not shell.known.pods


async def test_live_get_shows_our_pod() -> None:
    shell = await open_with_pod()
    shell.known.pods.clear()
    await send(shell, GetObject(*POD, "why"))
    assert shell.known.pods[NAME].uid == shell.known.live[POD]


# --- end of the process --------------------------------------------------------------------------


@cases("downlink_seconds expected", answered=(1.0, 2.0), not_for_ever=(50.0, 5.5))
async def test_drain_waits_for_answers_and_sends_nothing(
    downlink_seconds: float, expected: float
) -> None:
    shell = await open_shell()
    shell.network.expect("create", PODS, Fate(1.0, downlink_seconds))

    async def drain() -> float:
        await asyncio.sleep(0.5)
        await shell.executor.drain(5.0)
        shell.executor.submit(KEY, [create(shell, 1)])
        return shell.clock.monotonic()

    started = shell.clock.monotonic()
    task = asyncio.create_task(drain())
    await send(shell, create(shell), seconds=10)
    assert await task - started == pytest.approx(expected)
    assert shell.sent() == [f"create pods {NAME}"]


# --- the gang key --------------------------------------------------------------------------------


def create_key(shell: Shell) -> CreateGangKey:
    """Create the Secret of the attempt as the status has it."""
    assert shell.framework.status is not None
    uid = shell.framework.status.attempt_status.configmap_uid or ""
    return CreateGangKey(shell.framework, SECRET, uid, "why")


async def open_with_secret() -> Shell:
    """A Secret with the name of the key exists already."""
    shell = await open_shell()
    body: Object = {"metadata": {"name": SECRET}, "data": {}}
    shell.storage.create(shell.type(SECRETS), NAMESPACE, body)
    return shell


def is_recorded(shell: Shell) -> bool:
    return shell.known.gang_key_owner == create_key(shell).identity


async def test_gang_key_is_drawn_anew_and_recorded() -> None:
    keys, certificates = set(), set()
    for _ in range(2):
        shell = await open_shell()
        await send(shell, create_key(shell))
        assert is_recorded(shell)
        stored = {
            name: base64.b64decode(text)
            for name, text in shell.get(SECRETS, SECRET)["data"].items()
        }
        keys.add(stored[constants.GANG_KEY].rpartition(b":")[2])
        pair = stored[constants.GANG_CERTIFICATE], stored[constants.GANG_CERTIFICATE_KEY]
        certificates.add(pair)
    assert len(keys) == len(certificates) == 2
    assert all(len(bytes.fromhex(key.decode())) == 32 for key in keys)
    for certificate, private_key in certificates:
        public = load_pem_x509_certificate(certificate).public_key()
        assert load_pem_private_key(private_key, None).public_key() == public


@pytest.mark.parametrize("is_refused", [False, True])
async def test_gang_key_whose_answer_was_lost_is_found(*, is_refused: bool) -> None:
    shell = await open_shell()
    shell.network.expect("create", SECRETS, Fate(is_answer_lost=True))
    await send(shell, create_key(shell), seconds=40)
    assert shell.known.gang_key_owner == ""
    assert get_failure(shell).is_unknown
    if is_refused:
        shell.network.expect("create", SECRETS, refuse(429, "TooManyRequests"))
        await send(shell, create_key(shell))
    await send(shell, create_key(shell))
    assert is_recorded(shell)
    assert not shell.entry.outcomes.failures
    assert shell.sent() == [f"create secrets {SECRET}"] * (2 + is_refused)


async def test_gang_key_of_an_earlier_controller_is_found() -> None:
    shell = await open_with_secret()
    shell.known.own_configmap = ""  # another process began the attempt
    await send(shell, create_key(shell))
    assert is_recorded(shell)


async def test_secret_older_than_our_attempt_does_not_count_as_ours_and_is_not_read() -> None:
    shell = await open_with_secret()
    for _ in range(2):
        await send(shell, create_key(shell))
        assert get_failure(shell).code == 409
        assert shell.known.gang_key_owner == ""
    shell.delete(SECRETS, SECRET)
    await send(shell, create_key(shell))
    assert is_recorded(shell)
    assert {text.split()[0] for text in shell.sent() if "secrets" in text} == {"create"}
