"""Actions are sent once, and never before the status or the roster that they rely on."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from controller.core.actions import DeleteObject, GetObject, ObjectKind, Urgency
from controller.core.decision import Decision, Publication
from controller.execute.executor import MAX_NAMESPACE_ACTIONS
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS, Resource
from tests.support.builders import build_role_wire, build_roster, build_status
from tests.support.builders.cases import cases
from tests.support.fakes.storageclient import Fate
from tests.support.simulator.shell import KEY, Shell, refuse

pytestmark = pytest.mark.looptime

POD = "gang-worker-0"
LARGE = MAX_NAMESPACE_ACTIONS + 8
STATUS_WRITE = "replace frameworks gang"


async def open_shell() -> Shell:
    shell = Shell()
    shell.create_framework(number=2)
    await shell.run(1.0)
    shell.show()
    shell.client.sent.clear()
    return shell


def delete_pod(shell: Shell, urgency: Urgency = Urgency.NOW) -> DeleteObject:
    uid = shell.get(PODS, POD)["metadata"]["uid"]
    return DeleteObject(ObjectKind.POD, POD, uid, "test", urgency=urgency)


async def run_decisions(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, seconds: float, *decisions: Decision
) -> None:
    """Run the worker with these decisions; all later ones do nothing."""
    following = iter(decisions)

    def decide(*_: Any) -> Decision:
        return next(following, Decision())

    monkeypatch.setattr("controller.reconcile.worker.decide", decide)
    shell.queue.add(KEY)
    await shell.run(seconds)


async def test_action_of_a_delayed_status_is_delayed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = await open_shell()
    relying = delete_pod(shell)
    first = Decision(
        status=build_status(), actions=(relying, GetObject(ObjectKind.POD, "gang-worker-1", "test"))
    )
    later = Decision(status=build_status(), actions=(relying,))
    await run_decisions(shell, monkeypatch, 0.05, first, *[later] * 5)
    assert shell.sent() == ["get pods gang-worker-1"]
    await shell.run(5.0)
    assert shell.sent("replace", "delete")[:2] == [STATUS_WRITE, f"delete pods {POD}"]


@pytest.mark.parametrize("is_conflict", [True, False])
async def test_only_a_conflict_of_the_roster_drops_the_actions_decided_with_it(
    monkeypatch: pytest.MonkeyPatch, *, is_conflict: bool
) -> None:
    shell = await open_shell()
    known = shell.get(CONFIGMAPS, "gang-attempt")["metadata"]
    if is_conflict:
        shell.patch(CONFIGMAPS, "gang-attempt", {"metadata": {"labels": {"a": "b"}}})
    else:
        shell.network.expect("patch", CONFIGMAPS, Fate(is_lost=True))
    roster = build_roster()
    publication = Publication("gang-attempt", known["uid"], known["resourceVersion"], roster, "")
    decision = Decision(publication=publication, actions=(delete_pod(shell),))
    await run_decisions(shell, monkeypatch, 60.0, decision)
    assert shell.sent("patch") == ["patch configmaps gang-attempt"]
    assert shell.sent("delete") == ([] if is_conflict else [f"delete pods {POD}"])


async def open_with_unsent_creates(change: Callable[[Shell], None]) -> Shell:
    """A gang with more Pods than may be created at once, which changes before their answers."""
    shell = Shell()
    shell.network.expect("create", PODS, *[Fate(uplink_seconds=1.0)] * MAX_NAMESPACE_ACTIONS)
    shell.create_framework(number=LARGE)

    def change_at_once() -> None:
        assert len(shell.sent("create")) == 1 + MAX_NAMESPACE_ACTIONS
        # It is stored at once; its answer comes after those to the creates.
        shell.network.expect("replace", FRAMEWORKS, Fate(downlink_seconds=2.0))
        change(shell)

    asyncio.get_running_loop().call_later(0.5, change_at_once)
    await shell.run(2.0)
    return shell


@cases(
    "spec",
    stopped={"executionType": "Stop"},
    suspended={"suspend": True},
    scaled_down={"taskRoles": [build_role_wire("worker", MAX_NAMESPACE_ACTIONS)]},
)
async def test_no_create_is_sent_while_the_status_that_cancels_it_is_being_written(
    spec: dict[str, Any],
) -> None:
    shell = await open_with_unsent_creates(lambda shell: shell.edit(**spec))
    assert len(shell.names(PODS)) == MAX_NAMESPACE_ACTIONS
    await shell.run(5.0)
    assert len(shell.sent("create")) == 1 + MAX_NAMESPACE_ACTIONS


async def test_creates_that_are_still_wanted_are_sent_while_a_status_is_being_written() -> None:
    policy = {"maxRetryCount": 1}
    shell = await open_with_unsent_creates(lambda shell: shell.edit(retryPolicy=policy))
    assert len(shell.names(PODS)) == LARGE
    assert len(shell.sent("create")) == 1 + LARGE


async def test_action_without_an_answer_is_not_sent_again_by_a_later_decision() -> None:
    shell = await open_shell()
    shell.network.expect("delete", PODS, Fate(uplink_seconds=5.0))
    action = delete_pod(shell, Urgency.NONE)

    async def submit() -> None:
        for _ in range(4):
            shell.entry.outcomes.sent.clear()  # as each decision does before it is made
            shell.executor.submit(KEY, [action])
            await asyncio.sleep(1.0)

    async with asyncio.TaskGroup() as tasks:
        shell.executor.start(tasks)
        tasks.create_task(submit())
    assert shell.sent("delete") == [f"delete pods {POD}"]


async def test_status_is_written_before_the_delete_that_relies_on_it() -> None:
    shell = await open_shell()
    shell.edit(executionType="Stop")
    shell.network.expect("replace", FRAMEWORKS, *[Fate(is_lost=True)] * 2)
    await shell.run(30.0)
    sent = shell.sent("replace", "delete")
    assert sent[:4] == [STATUS_WRITE] * 3 + ["delete configmaps gang-attempt"]


@pytest.mark.parametrize(
    ("verb", "resource"), [("replace", FRAMEWORKS), ("patch", CONFIGMAPS), ("get", FRAMEWORKS)]
)
async def test_no_request_is_sent_before_retry_after(verb: str, resource: Resource) -> None:
    shell = await open_shell()
    shell.known.needs_refresh = verb == "get"
    shell.network.expect(verb, resource, refuse(429, retry_after=17))
    for number in range(2):
        shell.patch_pod(f"gang-worker-{number}", phase="Running", podIP=f"10.0.0.{number + 1}")
    # Events that wake the Framework meanwhile send no request either.
    for seconds in (1.0, 14.0, 1.0):
        await shell.run(seconds)
        assert len(shell.sent(verb)) == 1
        shell.queue.add(KEY)
    await shell.run(5.0)
    assert shell.status["state"] == "AttemptRunning"
    assert "binaryData" in shell.get(CONFIGMAPS, "gang-attempt")


async def test_retry_after_of_the_server_is_bounded() -> None:
    shell = await open_shell()
    shell.network.expect("replace", FRAMEWORKS, refuse(429, retry_after=10**6))
    shell.edit(executionType="Stop")
    await shell.run(310.0)
    assert shell.sent("delete") == ["delete configmaps gang-attempt"]
