"""The Secret of an attempt: created where a template refers to it, before the first Pod."""

import base64
from dataclasses import replace
from typing import Any

import pytest

from controller.core.actions import (
    ActionKey,
    CreateGangKey,
    DeleteObject,
    ObjectKind,
    Urgency,
    Verb,
)
from controller.core.decide import decide
from controller.core.decision import Decision
from controller.core.objects.object_templates import GangSecrets, build_gang_key
from controller.core.status.blocked import BLOCKED
from framework.api.states import FrameworkState, TaskState
from framework.api.types import Condition, FrameworkSpec, TaskSpec
from tests.support.builders import (
    CONFIGMAP_UID,
    build_framework,
    build_role,
    build_role_status,
    build_spec,
    build_status,
    build_template_wire,
)
from tests.support.builders.cases import cases
from tests.support.builders.worlds import SETTINGS, World, build_failure, build_snapshot

NAME = "gang-gang-key"
KEY = ActionKey(Verb.CREATE, ObjectKind.SECRET, NAME, CONFIGMAP_UID)
VOLUMES = [{"name": "key", "secret": {"secretName": "{{FC_FRAMEWORK_NAME}}-gang-key"}}]


def build_keyed_spec(number: int = 2) -> FrameworkSpec:
    """Two roles; only the second one's Pods mount the key."""
    keyed = TaskSpec(pod=build_template_wire(volumes=VOLUMES))
    return build_spec(build_role("ps", 1), build_role("worker", number, task=keyed))


def decide_start(spec: FrameworkSpec | None = None, **fields: Any) -> Decision:
    """Decide on an attempt whose ConfigMap is there and whose Pods are not."""
    pending = TaskState.ATTEMPT_CREATION_PENDING
    roles = build_role_status("ps", 1, pending), build_role_status("worker", 2, pending)
    status = build_status(*roles, state=FrameworkState.ATTEMPT_PREPARING)
    return decide(build_snapshot(spec or build_keyed_spec(), status, **fields), SETTINGS)


def find_blocked(decision: Decision) -> Condition:
    assert decision.status is not None
    return next(c for c in decision.status.conditions or () if c.type == BLOCKED)


@cases(
    "spec fields expected",
    key_first=(None, {}, [KEY.kind]),
    key_in_flight=(None, {"in_flight": frozenset({KEY})}, []),
    key_of_another_attempt=(None, {"gang_key_owner": "of-the-attempt-before"}, [KEY.kind]),
    pods_after_the_key=(None, {"gang_key_owner": CONFIGMAP_UID}, [ObjectKind.POD] * 3),
    pods_that_do_not_refer_to_a_key=(
        build_spec(build_role("ps", 1), build_role("worker", 2)),
        {},
        [ObjectKind.POD] * 3,
    ),
)
def test_attempt_creates(
    spec: FrameworkSpec | None, fields: dict[str, Any], expected: list[ObjectKind]
) -> None:
    decision = decide_start(spec, **fields)
    assert [action.key.kind for action in decision.actions] == expected
    if expected == [KEY.kind]:
        (action,) = decision.actions
        assert isinstance(action, CreateGangKey)
        assert (action.key, action.urgency) == (KEY, Urgency.NONE)


@pytest.mark.parametrize(
    ("code", "message", "reason", "remedy"),
    [
        (403, 'User "x" cannot create resource "secrets"', "CreationRefused", "let the controller"),
        (403, "exceeded quota: few, requested: secrets=1", "CreationRefused", "exceeded quota"),
        (409, "already exists", "NameTaken", "delete or rename the object"),
    ],
)
def test_key_that_cannot_be_created_blocks(
    code: int, message: str, reason: str, remedy: str
) -> None:
    failure = replace(build_failure(code, message, seconds=5), count=3)
    decision = decide_start(failures={KEY: failure})
    assert decision.actions == ()
    condition = find_blocked(decision)
    assert (condition.status, condition.reason) == ("True", reason)
    assert f"Secret {NAME} cannot be created" in condition.message
    assert remedy in condition.message
    assert [event.reason for event in decision.events] == [reason]


def test_failure_of_another_attempts_key_blocks_nothing() -> None:
    other = replace(KEY, identity="of-the-attempt-before")
    failure = replace(build_failure(403, "no", seconds=5), count=9)
    decision = decide_start(gang_key_owner=CONFIGMAP_UID, failures={other: failure})
    assert find_blocked(decision).status == "False"


def test_secret_is_owned_by_the_attempt_and_contains_its_uid() -> None:
    status = build_status()
    secrets = GangSecrets("ab" * 32, "CERTIFICATE", "PRIVATE KEY")
    body = build_gang_key(build_framework(build_keyed_spec(), status), secrets)
    assert body["metadata"]["name"] == NAME
    assert body["type"] == "Opaque"
    assert body["immutable"] is True
    (owner,) = body["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == (
        CONFIGMAP_UID,
        True,
        True,
    )
    texts = {name: base64.b64decode(text).decode() for name, text in body["data"].items()}
    assert texts == {
        "gang-key": f"{status.attempt_status.instance_uid}:{'ab' * 32}",
        "gang-tls.crt": "CERTIFICATE",
        "gang-tls.key": "PRIVATE KEY",
    }


def test_last_configmap_waits_for_its_secret() -> None:
    """Else the Secret would meet the next Framework of the name."""
    for spec, is_waited_for in ((build_keyed_spec(1), True), (build_spec(build_role()), False)):
        world = World(spec)
        for _ in range(6):
            world.carry_out(world.decide())
        for name in list(world.pods):
            world.end_pod(name)
        deleted = []
        for _ in range(8):
            decision = world.decide()
            deleted += [a for a in decision.actions if isinstance(a, DeleteObject)]
            world.carry_out(decision)
            for name, pod in list(world.pods.items()):
                if pod.is_terminating:
                    world.remove_pod(name)
        (last,) = [a for a in deleted if a.kind is ObjectKind.CONFIGMAP]
        assert (last.propagation is None) is is_waited_for
