"""Pods that are refused again and again fill neither the log nor the status nor the Events."""

import json
import logging
from dataclasses import replace

import pytest

from framework.kube.resources import EVENTS, FRAMEWORKS, PODS
from localcluster.apiserver.model.errors import StatusError
from tests.support.builders import FRAMEWORK, NAMESPACE, build_role_wire
from tests.support.simulator.shell import Shell, refuse

pytestmark = pytest.mark.looptime

TASKS = 25
MESSAGE = "spec.containers[0].image: Invalid value: " + "x" * 400_000


async def test_refused_pods_of_400_kb_are_told_briefly_and_not_at_every_try(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shell = Shell()
    role = build_role_wire("worker", TASKS)
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
