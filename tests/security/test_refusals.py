"""Refused Pods fill neither the memory of the controller nor the log, the status and the Events.

The author of a template decides the text of the server's refusals.
"""

import json
import logging
from dataclasses import replace
from functools import partial

import pytest

from controller.core.actions import ActionKey, CreatePod, ObjectKind, Verb
from controller.core.snapshot import Failure
from controller.store.entry import Entry
from framework.api.naming import TaskKey
from framework.kube.errors import ApiError, build_api_error
from framework.kube.resources import EVENTS, FRAMEWORKS, PODS
from localcluster.apiserver.model.errors import StatusError
from tests.support.builders import FRAMEWORK, NAMESPACE, at, build_framework, build_role_wire
from tests.support.measuring.cost import assert_costs_at_most, assert_grows_at_most
from tests.support.simulator.shell import Shell, refuse

TASKS = 10_000


def build_key(index: int, attempt: int = 0) -> ActionKey:
    name = f"gang-worker-{index}"
    return ActionKey(Verb.CREATE, ObjectKind.POD, name, f"{index}/{attempt}")


def build_failure(row: int = 1) -> Failure:
    return Failure(422, "message", "body", 1, at(1), at(0), row)


def build_refusal(path: str) -> ApiError:
    """Build the answer to a Pod whose template has such a key in 32 maps."""
    causes = [{"reason": "FieldValueInvalid", "message": "is wrong", "field": path}] * 32
    status = {"message": "no: " + path, "reason": "Invalid", "details": {"causes": causes}}
    return build_api_error(422, json.dumps(status).encode(), method="POST", path="/x")


def record_failures(count: int) -> None:
    """Record one more failure of each of so many creates, in the next attempt."""
    entry = Entry("default", "gang")
    for index in range(count):
        entry.outcomes.record_failure(build_key(index), build_failure())
    for index in range(count):
        key = build_key(index, 1)
        row = entry.outcomes.drop_former_failure(key)
        entry.outcomes.record_failure(key, build_failure(1 + row))
    assert {failure.consecutive_failures for failure in entry.outcomes.failures.values()} == {2}
    assert len(entry.outcomes.failures) == len(entry.outcomes.failed_keys) == count


def test_recording_a_failure_costs_no_more_when_there_are_many() -> None:
    assert_grows_at_most(16, partial(record_failures, TASKS // 4), partial(record_failures, TASKS))
    assert_costs_at_most(1.0, partial(record_failures, TASKS))


def test_failures_of_other_names_and_verbs_stay() -> None:
    entry = Entry("default", "gang")
    others = [build_key(1), ActionKey(Verb.DELETE, ObjectKind.POD, "gang-worker-0", "uid")]
    for key in (build_key(0), *others):
        entry.outcomes.record_failure(key, build_failure(3))
    assert entry.outcomes.drop_former_failure(build_key(0)) == 0
    assert entry.outcomes.drop_former_failure(build_key(0, 1)) == 3
    assert list(entry.outcomes.failures) == others
    entry.outcomes.drop_failure(build_key(0))
    entry.outcomes.drop_failure(others[1])
    assert list(entry.outcomes.failed_keys.values()) == others[:1]
    entry.outcomes.follow(1)
    assert not entry.outcomes.failures
    assert not entry.outcomes.failed_keys


def test_path_of_a_field_is_cut() -> None:
    """A resource may have a name as long as the Pod, which is part of the path."""
    error = build_refusal("spec.containers[0].resources.limits[" + "a" * 200_000 + "]")
    assert len(json.dumps(error.body)) < 100_000


@pytest.mark.slow
@pytest.mark.looptime
async def test_texts_of_all_failures_are_bounded_together() -> None:
    shell = Shell()
    shell.create_framework(number=1)
    await shell.run(0.05)
    error = build_refusal("x" * 8000)
    for index in range(TASKS):
        framework, key = build_framework(), TaskKey("worker", index)
        action = CreatePod(framework, f"gang-worker-{index}", f"{index}/0", "why", task=key)
        shell.executor._record_failure(shell.entry, action, error)
    texts = [len(f.message) + len(f.body) for f in shell.entry.outcomes.failures.values()]
    assert len(texts) == TASKS
    assert texts[0] > 30_000
    assert sum(texts) < 200 * 1024 * 1024
    assert max(texts[-1000:]) < 4096


MESSAGE = "spec.containers[0].image: Invalid value: " + "x" * 400_000


@pytest.mark.looptime
async def test_refusals_of_400_kb_are_reported_briefly_and_not_at_every_try(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shell = Shell()
    role = build_role_wire("worker", 8)
    role["task"]["retryPolicy"] = {"maxRetryCount": -1}
    fate = replace(refuse(422), error=StatusError(422, "Invalid", MESSAGE), uplink_seconds=0.01)
    shell.network.expect("create", PODS, *[fate] * 5000)
    shell.create_framework(taskRoles=[role])
    caplog.set_level(logging.WARNING)
    await shell.run(60)
    logged = [f"{record.getMessage()} {vars(record)}" for record in caplog.records]
    assert 1 <= len(logged) <= 20
    assert sum(map(len, logged)) < 100_000
    assert len(json.dumps(shell.get(FRAMEWORKS, FRAMEWORK))) < 1_000_000
    events = shell.storage.list(shell.type(EVENTS), NAMESPACE).items
    assert all(len(event["message"]) <= 1024 for event in events)
