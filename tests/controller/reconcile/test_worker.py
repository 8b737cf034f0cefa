"""The order of a pass: persist, publish, act; and what happens when a step fails."""

import asyncio
import logging
from typing import Any

import pytest

import controller.reconcile.worker
from controller.core.decide import decide
from controller.core.settings import Settings
from controller.core.snapshot import Snapshot
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS
from tests.controller.reconcile.restartedgangs import build_restarted_role
from tests.support.builders import FRAMEWORK
from tests.support.fakes.storageclient import Fate
from tests.support.simulator.shell import KEY, Shell, refuse

pytestmark = pytest.mark.looptime


async def open_shell(number: int = 1, seconds: float = 0.05, **spec: Any) -> Shell:
    """A gang whose Pods exist."""
    shell = Shell()
    shell.create_framework(number=number, **spec)
    await shell.run(seconds)
    return shell


async def test_gang_is_persisted_then_created_and_recorded_within_a_second() -> None:
    shell = await open_shell(2)
    assert shell.sent("create", "replace")[:5] == [
        "replace frameworks gang",
        "create configmaps gang-attempt",
        "replace frameworks gang",
        "create pods gang-worker-0",
        "create pods gang-worker-1",
    ]
    assert shell.names(PODS) == ["gang-worker-0", "gang-worker-1"]
    await shell.run(0.95)
    assert all(task["attemptStatus"]["podUID"] for task in shell.tasks)


async def test_nothing_is_sent_after_a_failed_status_write_until_a_live_get() -> None:
    shell = Shell()
    shell.network.expect("replace", FRAMEWORKS, Fate(is_answer_lost=True))
    shell.network.expect("get", FRAMEWORKS, refuse(500), refuse(503))
    shell.create_framework()
    await shell.run(10.0)
    first = shell.sent().index("create configmaps gang-attempt")
    assert shell.sent()[:first] == ["replace frameworks gang", *["get frameworks gang"] * 3]


async def test_informative_changes_are_written_together() -> None:
    shell = await open_shell(8, 1.0)
    shell.client.sent.clear()

    async def address_all() -> None:
        for number, name in enumerate(shell.names(PODS)[:6]):
            await asyncio.sleep(0.01)
            shell.patch_pod(name, podIP=f"10.0.0.{number + 1}")

    task = asyncio.create_task(address_all())
    await shell.run(1.0)
    await task
    assert 1 <= len(shell.sent("replace")) <= 3
    addressed = [bool(task["attemptStatus"]["podIP"]) for task in shell.tasks]
    assert addressed == [True] * 6 + [False] * 2


@pytest.mark.parametrize("failures", [0, 3])
async def test_roster_is_published_only_after_its_addresses_are_persisted(failures: int) -> None:
    shell = await open_shell()
    shell.client.sent.clear()
    shell.network.expect("replace", FRAMEWORKS, *[refuse(500)] * failures)
    shell.patch_pod(phase="Running", podIP="10.0.0.1")
    await shell.run(10.0 if failures else 0.05)
    writes = ["replace frameworks gang"] * (failures + 1)
    expected = [*writes, "patch configmaps gang-attempt"]
    assert shell.sent("replace", "patch")[: len(expected)] == expected
    assert "roster.json.gz" in shell.get(CONFIGMAPS, "gang-attempt")["binaryData"]


async def test_failed_publication_is_tried_again() -> None:
    shell = await open_shell()
    shell.network.expect("patch", CONFIGMAPS, refuse(500), refuse(429))
    shell.patch_pod(phase="Running", podIP="10.0.0.1")
    await shell.run(10.0)
    assert shell.known.published.roster is not None


@pytest.mark.parametrize("code", [403, 422, 500])
async def test_publication_that_always_fails_is_tried_with_growing_delays(code: int) -> None:
    """With a start barrier, a decision follows each publication, but only one that succeeds."""
    shell = await open_shell(taskRoles=[build_restarted_role(1)])
    shell.client.sent.clear()
    shell.network.expect("patch", CONFIGMAPS, *[refuse(code)] * 1000)
    shell.patch_pod(phase="Running", podIP="10.0.0.1")
    await shell.run(10.0)
    assert 1 < shell.sent("patch").count("patch configmaps gang-attempt") < 20


async def test_publication_that_finds_no_configmap_sends_no_action_decided_before() -> None:
    """Pods of an attempt whose ConfigMap was deleted would have no owner."""
    shell = await open_shell(2, retryPolicy={"fancyRetryPolicy": True})
    shell.delete(PODS, "gang-worker-1", grace_seconds=0)
    shell.show()
    shell.patch(CONFIGMAPS, "gang-attempt", {"metadata": {"finalizers": []}})
    shell.delete(CONFIGMAPS, "gang-attempt")
    shell.client.sent.clear()
    await shell.run(2.5)
    sent = shell.sent("create", "patch")
    if "patch configmaps gang-attempt" in sent:
        after = sent[sent.index("patch configmaps gang-attempt") + 1 :]
        assert not after or after[0] == "create configmaps gang-attempt"


async def test_status_that_another_client_wrote_is_overwritten() -> None:
    shell = await open_shell(0)
    before = shell.status["state"]
    shell.patch(FRAMEWORKS, FRAMEWORK, {"status": {"state": "Completed"}}, "status")
    shell.show()
    await shell.run(1.0)
    assert shell.status["state"] == before


async def test_undecidable_framework_stops_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def decide_or_fail(snapshot: Snapshot, settings: Settings) -> Any:
        if snapshot.framework.metadata.name == "poison":
            raise AssertionError("absurd status")
        return decide(snapshot, settings)

    monkeypatch.setattr(controller.reconcile.worker, "decide", decide_or_fail)
    shell = Shell()
    shell.create_framework("poison")
    shell.create_framework()
    with caplog.at_level(logging.ERROR):
        await shell.run(5.0)
    assert shell.names(PODS) == ["gang-worker-0"]
    assert 2 <= len([r for r in caplog.records if r.message == "decision failed"]) < 20


async def test_framework_that_is_gone_is_forgotten_and_not_read_any_more() -> None:
    shell = Shell()
    shell.network.expect("replace", FRAMEWORKS, Fate(is_lost=True))
    shell.create_framework()
    shell.delete(FRAMEWORKS, FRAMEWORK)
    await shell.run(30.0)
    assert shell.store.find(KEY) is None
    assert len(shell.sent("get")) <= 2


async def test_pod_held_by_a_finalizer_is_deleted_by_force_only_now_and_then() -> None:
    shell = Shell()
    wire = shell.create_framework()
    wire["spec"]["taskRoles"][0]["task"]["podGracefulDeletionTimeoutSec"] = 1
    shell.patch(FRAMEWORKS, FRAMEWORK, {"spec": wire["spec"]})
    await shell.run(3.0)
    shell.show()
    shell.patch(PODS, "gang-worker-0", {"metadata": {"finalizers": ["example.com/hold"]}})
    shell.delete(PODS, "gang-worker-0")
    shell.show()
    shell.client.sent.clear()
    await shell.run(60.0)
    assert 1 <= len(shell.sent("delete")) <= 12


async def test_quiet_framework_writes_nothing() -> None:
    shell = await open_shell()
    shell.patch_pod(phase="Running", podIP="10.0.0.1")
    await shell.run(5.0)
    shell.show()
    shell.client.sent.clear()
    await shell.run(120.0)
    assert shell.sent() == []
