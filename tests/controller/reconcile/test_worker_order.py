"""What a pass may send when its status is put off, or its roster met another; never twice."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from controller.core.actions import Action, DeleteObject, GetObject, ObjectKind, Urgency
from controller.core.decision import Decision, Publication
from controller.core.snapshot import Snapshot
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS, Resource
from tests.support.builders import NAMESPACE, build_roster, build_status
from tests.support.fakes.storageclient import Fate
from tests.support.simulator.shell import KEY, Shell, refuse

pytestmark = pytest.mark.looptime

MERGE = "application/merge-patch+json"
POD = "gang-worker-0"


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


def decide_by(
    monkeypatch: pytest.MonkeyPatch, decisions: Iterator[Decision]
) -> Callable[[Snapshot, Any], Decision]:
    def decide(*_: Any) -> Decision:
        return next(decisions, Decision())

    monkeypatch.setattr("controller.reconcile.worker.decide", decide)
    return decide


async def test_action_that_relies_on_a_status_put_off_is_put_off_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shell = await open_shell()
    unsettled: Action = delete_pod(shell)
    settled = GetObject(ObjectKind.POD, "gang-worker-1", "test")
    first = Decision(status=build_status(), actions=(unsettled, settled))
    later = Decision(status=build_status(), actions=(unsettled,))
    decide_by(monkeypatch, iter([first, *[later] * 5]))
    shell.queue.add(KEY)
    await shell.run(0.05)
    assert shell.sent() == ["get pods gang-worker-1"]
    await shell.run(5.0)
    sent = shell.sent("replace", "delete")
    assert sent[:2] == ["replace frameworks gang", f"delete pods {POD}"]


async def test_roster_that_met_another_version_sends_nothing_that_was_decided_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shell = await open_shell()
    configmap = shell.get(CONFIGMAPS, "gang-attempt")["metadata"]
    change = {"metadata": {"labels": {"a": "b"}}}
    shell.storage.patch(shell.type(CONFIGMAPS), NAMESPACE, "gang-attempt", change, MERGE)
    publication = Publication(
        "gang-attempt", configmap["uid"], configmap["resourceVersion"], build_roster(), ""
    )
    decide_by(monkeypatch, iter([Decision(publication=publication, actions=(delete_pod(shell),))]))
    shell.queue.add(KEY)
    await shell.run(5.0)
    assert shell.sent("patch") == ["patch configmaps gang-attempt"]
    assert shell.sent("delete") == []
    # It was decided anew, at once: the second decision was to do nothing.
    assert shell.names(PODS) == ["gang-worker-0", "gang-worker-1"]


async def test_roster_that_is_refused_lets_the_rest_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = await open_shell()
    configmap = shell.get(CONFIGMAPS, "gang-attempt")["metadata"]
    shell.network.expect("patch", CONFIGMAPS, Fate(is_lost=True))
    publication = Publication(
        "gang-attempt", configmap["uid"], configmap["resourceVersion"], build_roster(), ""
    )
    decide_by(monkeypatch, iter([Decision(publication=publication, actions=(delete_pod(shell),))]))
    shell.queue.add(KEY)
    await shell.run(60.0)
    assert shell.sent("delete") == [f"delete pods {POD}"]


async def test_action_unanswered_is_not_sent_again_by_a_later_decision() -> None:
    shell = await open_shell()
    shell.network.expect("delete", PODS, Fate(uplink_seconds=5.0))
    action = delete_pod(shell, Urgency.NONE)

    async def submit() -> None:
        for _ in range(4):
            # As each decision does before it is taken.
            shell.entry.outcomes.sent.clear()
            shell.executor.submit(KEY, [action])
            await asyncio.sleep(1.0)

    async with asyncio.TaskGroup() as tasks:
        shell.executor.start(tasks)
        tasks.create_task(submit())
    assert shell.sent("delete") == [f"delete pods {POD}"]


async def test_status_write_comes_before_the_delete_that_relies_on_it() -> None:
    shell = await open_shell()
    edit = {"spec": {"executionType": "Stop"}}
    shell.storage.patch(shell.type(FRAMEWORKS), NAMESPACE, "gang", edit, MERGE)
    shell.show()
    shell.network.expect("replace", FRAMEWORKS, *[Fate(is_lost=True)] * 2)
    await shell.run(30.0)
    sent = shell.sent("replace", "delete")
    assert sent[:4] == ["replace frameworks gang"] * 3 + ["delete configmaps gang-attempt"]


@pytest.mark.parametrize(
    ("verb", "resource"), [("replace", FRAMEWORKS), ("patch", CONFIGMAPS), ("get", FRAMEWORKS)]
)
async def test_server_that_asks_to_wait_is_not_asked_again_before(
    verb: str, resource: Resource
) -> None:
    shell = await open_shell()
    if verb == "get":
        shell.entry.observed.needs_refresh = True
    shell.network.expect(verb, resource, refuse(429, retry_after=17))
    for number in range(2):
        name = f"gang-worker-{number}"
        ip = f"10.0.0.{number + 1}"
        body = {"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}]}}
        rt = shell.type(PODS)
        shell.storage.patch(rt, NAMESPACE, name, body, MERGE, subresource="status")
    shell.show()
    await shell.run(1.0)
    refused_at = len(shell.sent(verb))
    assert refused_at == 1
    # What wakes the Framework meanwhile does not ask the server either.
    shell.queue.add(KEY)
    await shell.run(14.0)
    shell.queue.add(KEY)
    await shell.run(1.0)
    assert len(shell.sent(verb)) == refused_at
    await shell.run(5.0)
    assert shell.get(FRAMEWORKS, "gang")["status"]["state"] == "AttemptRunning"
    assert "binaryData" in shell.get(CONFIGMAPS, "gang-attempt")


async def test_server_that_asks_to_wait_for_ever_is_asked_again() -> None:
    shell = await open_shell()
    shell.network.expect("replace", FRAMEWORKS, refuse(429, retry_after=10**6))
    edit = {"spec": {"executionType": "Stop"}}
    shell.storage.patch(shell.type(FRAMEWORKS), NAMESPACE, "gang", edit, MERGE)
    shell.show()
    await shell.run(310.0)
    assert shell.sent("delete") == ["delete configmaps gang-attempt"]
