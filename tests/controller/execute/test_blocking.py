"""A Framework that cannot go on says so itself, costs little, and holds up no other."""

import asyncio
from typing import Any

import pytest

from controller.core.actions import ObjectKind
from framework.api import codec
from framework.kube.resources import CONFIGMAPS, EVENTS, FRAMEWORKS, PODS, Object
from localcluster.apiserver.model.errors import StatusError
from localcluster.apiserver.model.options import DeleteOptions
from tests.support.builders import FRAMEWORK, NAMESPACE
from tests.support.builders.cases import cases
from tests.support.fakes.storageclient import Fate, Request
from tests.support.simulator.shell import KEY, Shell, refuse

pytestmark = pytest.mark.looptime

MERGE = "application/merge-patch+json"


def refuse_in_words(message: str) -> Fate:
    return Fate(error=StatusError(500, "", message))


async def run(shell: Shell, seconds: float) -> None:
    recording = asyncio.create_task(shell.recorder.run())
    await shell.run(seconds)
    recording.cancel()


def find_blocked(shell: Shell, name: str = FRAMEWORK) -> Object:
    conditions = (shell.get(FRAMEWORKS, name).get("status") or {}).get("conditions") or []
    return next((c for c in conditions if c["type"] == "Blocked"), {})


def list_events(shell: Shell) -> dict[str, int]:
    listed = shell.storage.list(shell.type(EVENTS), NAMESPACE)
    return {e["reason"]: e["count"] for e in listed.items}


def count_tries(shell: Shell) -> int:
    return shell.sent().count(f"replace frameworks {FRAMEWORK}")


REFUSALS = {
    "too_large": refuse(413, "RequestEntityTooLarge"),
    "invalid": refuse(422, "Invalid"),
    "bad": refuse(400, "BadRequest"),
    "too_large_for_etcd": refuse_in_words("etcdserver: request is too large"),
    "too_large_on_the_way_to_etcd": refuse_in_words(
        "desc = trying to send message larger than max (2800520 vs. 2097152)"
    ),
}


@cases("fate", **REFUSALS)
async def test_refused_status_is_told_and_tried_seldom(fate: Fate) -> None:
    shell = Shell()
    shell.create_framework()

    class Refusing:
        """Takes no status that has a state; one that only has conditions it takes."""

        def __call__(self, request: Any) -> Fate:
            is_ours = (request.verb, request.resource) == ("replace", FRAMEWORKS)
            return fate if is_ours and "state" in request.body["status"] else Fate()

    shell.network.draw_fate = Refusing()  # type: ignore[method-assign]  # as this test wants it
    await run(shell, 600.0)
    blocked = find_blocked(shell)
    assert (blocked["status"], blocked["reason"]) == ("True", "StatusRefused")
    assert "lastTransitionTime" in blocked
    assert list_events(shell)["StatusRefused"] >= 2
    assert count_tries(shell) <= 17
    assert shell.names(CONFIGMAPS) == []


async def test_refused_status_is_tried_again_after_its_own_pauses_whatever_the_server_asks() -> (
    None
):
    shell = Shell()
    shell.create_framework()
    shell.network.expect("replace", FRAMEWORKS, refuse(422, "Invalid", retry_after=200))
    await shell.run(20)
    assert shell.names(PODS) == [f"{FRAMEWORK}-worker-0"]


async def test_first_status_refused_is_written_when_the_spec_was_mended() -> None:
    shell = Shell()
    shell.create_framework()
    shell.network.expect("replace", FRAMEWORKS, refuse(413, retry_after=200))
    await run(shell, 0.5)
    assert find_blocked(shell)["reason"] == "StatusRefused"
    edit = {"spec": {"description": "smaller"}}
    shell.storage.patch(shell.type(FRAMEWORKS), NAMESPACE, FRAMEWORK, edit, MERGE)
    shell.show()
    await run(shell, 0.5)
    assert find_blocked(shell)["status"] == "False"
    assert shell.names(PODS) == ["gang-worker-0"]


async def test_later_status_refused_changes_nothing_else_that_is_stored() -> None:
    shell = Shell()
    shell.create_framework()
    await run(shell, 0.5)
    stored = shell.get(FRAMEWORKS, FRAMEWORK)["status"]
    shell.network.expect("replace", FRAMEWORKS, refuse(422))
    ips = {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}
    patch = {"status": {"phase": "Running", **ips}}
    shell.storage.patch(
        shell.type(PODS), NAMESPACE, "gang-worker-0", patch, MERGE, subresource="status"
    )
    shell.show()
    await run(shell, 0.7)
    after = shell.get(FRAMEWORKS, FRAMEWORK)["status"]
    assert find_blocked(shell)["reason"] == "StatusRefused"
    others = [c for c in stored["conditions"] if c["type"] != "Blocked"]
    assert after == {**stored, "conditions": [*others, find_blocked(shell)]}
    await run(shell, 5.0)
    assert find_blocked(shell)["status"] == "False"
    assert shell.get(FRAMEWORKS, FRAMEWORK)["status"]["state"] == "AttemptRunning"


async def test_nothing_is_sent_for_a_status_that_was_refused() -> None:
    shell = Shell()
    shell.create_framework()
    shell.network.expect("replace", FRAMEWORKS, *[refuse(422)] * 2)
    await run(shell, 0.9)
    assert shell.sent("create", "delete") == []


async def test_unreadable_status_gets_the_condition_and_keeps_the_rest() -> None:
    shell = Shell()
    shell.create_framework()
    await run(shell, 0.5)
    attempt = {"taskRoleStatuses": None, "taskRoleStatusesCompressed": "bm9wZQ=="}
    poison = {"status": {"attemptStatus": attempt}}
    rt = shell.type(FRAMEWORKS)
    shell.storage.patch(rt, NAMESPACE, FRAMEWORK, poison, MERGE, subresource="status")
    poisoned = shell.get(FRAMEWORKS, FRAMEWORK)
    shell.store.replace(ObjectKind.FRAMEWORK, [], "0")
    shell.show()
    before = len(shell.sent())
    await run(shell, 60.0)
    blocked = find_blocked(shell)
    assert blocked["reason"] == "UnreadableFramework"
    assert "taskRoleStatusesCompressed" in blocked["message"]
    after = shell.get(FRAMEWORKS, FRAMEWORK)["status"]
    assert {**after, "conditions": []} == {**poisoned["status"], "conditions": []}
    assert len(after["conditions"]) == len(poisoned["status"]["conditions"])
    assert shell.sent()[before:] == ["get frameworks gang", "replace frameworks gang"]
    assert list_events(shell)["UnreadableFramework"] == 1


async def test_condition_that_is_stored_is_not_written_again() -> None:
    shell = Shell()
    shell.create_framework()
    assert await shell.writer.write_blocked(shell.entry, "Why", "words")
    stored = shell.get(FRAMEWORKS, FRAMEWORK)
    shell.entry.outcomes.blocked = None
    assert await shell.writer.write_blocked(shell.entry, "Why", "words")
    assert shell.get(FRAMEWORKS, FRAMEWORK) == stored
    assert await shell.writer.write_blocked(shell.entry, "Why", "other words")
    assert find_blocked(shell)["message"] == "other words"


async def test_condition_that_cannot_be_written_is_left_to_the_event() -> None:
    shell = Shell()
    shell.create_framework()
    shell.network.expect("replace", FRAMEWORKS, refuse(500), refuse(422))
    assert not await shell.writer.write_blocked(shell.entry, "Why", "words")
    assert await shell.writer.write_blocked(shell.entry, "Why", "words")
    assert await shell.writer.write_blocked(shell.entry, "Why", "words")
    assert count_tries(shell) == 2


async def test_undecidable_framework_gets_a_condition_and_an_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shell = Shell()
    shell.create_framework()

    def fail(*_: Any) -> None:
        raise AssertionError("absurd")

    monkeypatch.setattr("controller.reconcile.worker.decide", fail)
    await run(shell, 60.0)
    assert find_blocked(shell)["reason"] == "UndecidableFramework"
    assert list_events(shell)["UndecidableFramework"] > 1
    assert count_tries(shell) == 1
    monkeypatch.undo()
    shell.queue.add(KEY)
    await run(shell, 1.0)
    assert find_blocked(shell)["status"] == "False"
    assert shell.names(PODS) == ["gang-worker-0"]


@pytest.mark.parametrize("wire", [{}, {"conditions": []}, {"conditions": [{"type": "Blocked"}]}])
def test_status_of_nothing_but_conditions_is_none_yet(wire: Object) -> None:
    assert codec.decode_status(wire) is None


def refuse_statuses(shell: Shell) -> None:
    def draw(request: Request) -> Fate:
        is_ours = (request.verb, request.resource) == ("replace", FRAMEWORKS)
        is_refused = is_ours and "state" in request.body["status"]
        return refuse(422, "Invalid") if is_refused else Fate()

    shell.network.draw_fate = draw  # type: ignore[method-assign]  # as this test wants it


def delete_framework(shell: Shell) -> None:
    shell.storage.delete(shell.type(FRAMEWORKS), NAMESPACE, FRAMEWORK, DeleteOptions())


async def test_framework_made_anew_does_not_wait_for_the_refusal_of_the_one_before() -> None:
    shell = Shell()
    shell.create_framework()
    refuse_statuses(shell)
    await run(shell, 200.0)
    shell.network.draw_fate = lambda _: Fate()  # type: ignore[method-assign, assignment]  # the same
    delete_framework(shell)
    shell.show()
    await run(shell, 1.0)
    shell.create_framework()
    await run(shell, 3.0)
    assert shell.names(CONFIGMAPS) == [f"{FRAMEWORK}-attempt"]


async def test_framework_made_anew_is_told_the_same_refusal_again() -> None:
    shell = Shell()
    shell.create_framework()
    refuse_statuses(shell)
    await run(shell, 200.0)
    delete_framework(shell)
    shell.create_framework()
    await run(shell, 3.0)
    assert find_blocked(shell)["reason"] == "StatusRefused"
