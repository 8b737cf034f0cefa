"""A Framework that cannot continue reports that itself, costs little, and delays no other."""

from typing import Any

import pytest

from controller.core.actions import ObjectKind
from framework.api import codec
from framework.kube.resources import CONFIGMAPS, EVENTS, FRAMEWORKS, PODS, Object
from localcluster.apiserver.model.errors import StatusError
from tests.support.builders import FRAMEWORK, NAMESPACE
from tests.support.builders.cases import cases
from tests.support.fakes.storageclient import Fate, Request
from tests.support.simulator.shell import KEY, Shell, refuse

pytestmark = pytest.mark.looptime


def open_shell() -> Shell:
    shell = Shell()
    shell.create_framework()
    return shell


def count_events(shell: Shell) -> dict[str, int]:
    listed = shell.storage.list(shell.type(EVENTS), NAMESPACE)
    return {e["reason"]: e["count"] for e in listed.items}


def count_status_writes(shell: Shell) -> int:
    return shell.sent().count(f"replace frameworks {FRAMEWORK}")


def refuse_states(shell: Shell, fate: Fate) -> None:
    """Refuse each status that has a state; accept one that only has conditions."""

    def draw(request: Request) -> Fate:
        is_status = (request.verb, request.resource) == ("replace", FRAMEWORKS)
        return fate if is_status and "state" in request.body["status"] else Fate()

    shell.network.draw_fate = draw  # type: ignore[method-assign]  # as this test wants it


def refuse_with(message: str) -> Fate:
    return Fate(error=StatusError(500, "", message))


@cases(
    "fate",
    too_large=refuse(413, "RequestEntityTooLarge"),
    invalid=refuse(422, "Invalid"),
    bad=refuse(400, "BadRequest"),
    too_large_for_etcd=refuse_with("etcdserver: request is too large"),
    too_large_on_the_way_to_etcd=refuse_with(
        "desc = trying to send message larger than max (2800520 vs. 2097152)"
    ),
)
async def test_refused_status_is_reported_and_tried_seldom(fate: Fate) -> None:
    shell = open_shell()
    refuse_states(shell, fate)
    await shell.run(600.0)
    blocked = shell.find_condition()
    assert (blocked["status"], blocked["reason"]) == ("True", "StatusRefused")
    assert "lastTransitionTime" in blocked
    assert count_events(shell)["StatusRefused"] >= 2
    assert count_status_writes(shell) <= 17
    assert shell.names(CONFIGMAPS) == []


async def test_refused_status_is_tried_again_after_its_own_pause_whatever_the_server_asks() -> None:
    shell = open_shell()
    shell.network.expect("replace", FRAMEWORKS, refuse(422, "Invalid", retry_after=200))
    await shell.run(20)
    assert shell.names(PODS) == [f"{FRAMEWORK}-worker-0"]


async def test_first_status_refused_is_written_when_the_spec_was_mended() -> None:
    shell = open_shell()
    shell.network.expect("replace", FRAMEWORKS, refuse(413, retry_after=200))
    await shell.run(0.5)
    assert shell.find_condition()["reason"] == "StatusRefused"
    shell.edit(description="smaller")
    await shell.run(0.5)
    assert shell.find_condition()["status"] == "False"
    assert shell.names(PODS) == ["gang-worker-0"]


async def test_later_status_refused_changes_only_the_condition_that_is_stored() -> None:
    shell = open_shell()
    await shell.run(0.5)
    stored = shell.status
    shell.network.expect("replace", FRAMEWORKS, refuse(422))
    shell.patch_pod(phase="Running", podIP="10.0.0.1")
    await shell.run(0.7)
    assert shell.find_condition()["reason"] == "StatusRefused"
    others = [c for c in stored["conditions"] if c["type"] != "Blocked"]
    assert shell.status == {**stored, "conditions": [*others, shell.find_condition()]}
    await shell.run(5.0)
    assert shell.find_condition()["status"] == "False"
    assert shell.status["state"] == "AttemptRunning"


async def test_no_action_of_a_status_that_was_refused_is_sent() -> None:
    shell = open_shell()
    shell.network.expect("replace", FRAMEWORKS, *[refuse(422)] * 2)
    await shell.run(0.9)
    assert shell.sent("create", "delete") == []


async def test_unreadable_status_gets_the_condition_and_keeps_the_rest() -> None:
    shell = open_shell()
    await shell.run(0.5)
    attempt = {"taskRoleStatuses": None, "taskRoleStatusesCompressed": "bm9wZQ=="}
    shell.patch(FRAMEWORKS, FRAMEWORK, {"status": {"attemptStatus": attempt}}, "status")
    poisoned = shell.status
    shell.store.replace(ObjectKind.FRAMEWORK, [], "0")
    shell.show()
    before = len(shell.sent())
    await shell.run(60.0)
    blocked = shell.find_condition()
    assert blocked["reason"] == "UnreadableFramework"
    assert "taskRoleStatusesCompressed" in blocked["message"]
    assert {**shell.status, "conditions": []} == {**poisoned, "conditions": []}
    assert len(shell.status["conditions"]) == len(poisoned["conditions"])
    assert shell.sent()[before:] == ["get frameworks gang", "replace frameworks gang"]
    assert count_events(shell)["UnreadableFramework"] == 1


async def test_condition_that_is_stored_is_not_written_again() -> None:
    shell = open_shell()
    assert await shell.writer.write_blocked(shell.entry, "Why", "words")
    stored = shell.get(FRAMEWORKS, FRAMEWORK)
    shell.entry.outcomes.blocked = None
    assert await shell.writer.write_blocked(shell.entry, "Why", "words")
    assert shell.get(FRAMEWORKS, FRAMEWORK) == stored
    assert await shell.writer.write_blocked(shell.entry, "Why", "other words")
    assert shell.find_condition()["message"] == "other words"


async def test_condition_that_is_refused_is_not_tried_again() -> None:
    shell = open_shell()
    shell.network.expect("replace", FRAMEWORKS, refuse(500), refuse(422))
    assert not await shell.writer.write_blocked(shell.entry, "Why", "words")
    assert await shell.writer.write_blocked(shell.entry, "Why", "words")
    assert await shell.writer.write_blocked(shell.entry, "Why", "words")
    assert count_status_writes(shell) == 2


async def test_undecidable_framework_gets_a_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = open_shell()

    def fail(*_: Any) -> None:
        raise AssertionError("absurd")

    monkeypatch.setattr("controller.reconcile.worker.decide", fail)
    await shell.run(60.0)
    assert shell.find_condition()["reason"] == "UndecidableFramework"
    assert count_events(shell)["UndecidableFramework"] > 1
    assert count_status_writes(shell) == 1
    monkeypatch.undo()
    shell.queue.add(KEY)
    await shell.run(1.0)
    assert shell.find_condition()["status"] == "False"
    assert shell.names(PODS) == ["gang-worker-0"]


@pytest.mark.parametrize("wire", [{}, {"conditions": []}, {"conditions": [{"type": "Blocked"}]}])
def test_status_with_only_conditions_is_no_status_yet(wire: Object) -> None:
    assert codec.decode_status(wire) is None


@pytest.mark.parametrize("is_refused_again", [False, True])
async def test_framework_created_anew_inherits_no_refusal(*, is_refused_again: bool) -> None:
    shell = open_shell()
    refuse_states(shell, refuse(422, "Invalid"))
    await shell.run(200.0)
    shell.delete(FRAMEWORKS, FRAMEWORK)
    if not is_refused_again:
        refuse_states(shell, Fate())
        shell.show()
        await shell.run(1.0)
    shell.create_framework()
    await shell.run(3.0)
    assert shell.names(CONFIGMAPS) == ([] if is_refused_again else [f"{FRAMEWORK}-attempt"])
    if is_refused_again:
        assert shell.find_condition()["reason"] == "StatusRefused"
