"""The order of a pass: persist, publish, act; and what happens when a step fails."""

import asyncio
import logging
from typing import Any

import pytest

import controller.reconcile.worker
from controller.core.actions import ObjectKind
from controller.core.decide import decide
from controller.core.settings import Settings
from controller.core.snapshot import Snapshot
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS
from localcluster.apiserver.model.options import DeleteOptions
from tests.support.builders import FRAMEWORK, NAMESPACE
from tests.support.fakes.storageclient import Fate
from tests.support.simulator.shell import KEY, Shell, refuse

pytestmark = pytest.mark.looptime

MERGE = "application/merge-patch+json"


def patch_pod(shell: Shell, name: str, **status: Any) -> None:
    rt = shell.type(PODS)
    shell.storage.patch(rt, NAMESPACE, name, {"status": status}, MERGE, subresource="status")
    shell.show()


async def test_gang_is_persisted_then_made_and_recorded() -> None:
    shell = Shell()
    shell.create_framework(number=2)
    await shell.run(0.05)
    assert shell.sent("create", "replace")[:5] == [
        "replace frameworks gang",
        "create configmaps gang-attempt",
        "replace frameworks gang",
        "create pods gang-worker-0",
        "create pods gang-worker-1",
    ]
    assert shell.names(PODS) == ["gang-worker-0", "gang-worker-1"]


async def test_nothing_is_done_after_a_failed_status_write_until_a_live_get() -> None:
    shell = Shell()
    shell.network.expect("replace", FRAMEWORKS, Fate(is_answer_lost=True))
    shell.network.expect("get", FRAMEWORKS, refuse(500), refuse(503))
    shell.create_framework()
    await shell.run(10.0)
    sent = shell.sent()
    first = sent.index("create configmaps gang-attempt")
    assert sent[:first] == ["replace frameworks gang", *["get frameworks gang"] * 3]


async def test_conflict_of_a_status_write_is_decided_anew_from_the_edit() -> None:
    shell = Shell()
    shell.create_framework(number=1)
    wire = shell.get(FRAMEWORKS, FRAMEWORK)
    wire["spec"]["taskRoles"][0]["taskNumber"] = 3
    shell.storage.update(shell.type(FRAMEWORKS), NAMESPACE, FRAMEWORK, wire)
    await shell.run(5.0)
    assert len(shell.names(PODS)) == 3


async def test_informative_changes_are_written_together() -> None:
    shell = Shell()
    shell.create_framework(number=8)
    await shell.run(1.0)
    shell.client.sent.clear()

    async def address_all() -> None:
        for number, name in enumerate(shell.names(PODS)[:6]):
            await asyncio.sleep(0.01)
            ip = f"10.0.0.{number + 1}"
            patch_pod(shell, name, podIP=ip, podIPs=[{"ip": ip}])

    task = asyncio.create_task(address_all())
    await shell.run(1.0)
    await task
    assert 1 <= len(shell.sent("replace")) <= 3
    wire = shell.get(FRAMEWORKS, FRAMEWORK)
    tasks = wire["status"]["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"]
    assert [bool(task["attemptStatus"]["podIP"]) for task in tasks] == [True] * 6 + [False] * 2


async def test_recorded_pods_are_written_within_a_second() -> None:
    shell = Shell()
    shell.create_framework(number=2)
    await shell.run(1.0)
    status = shell.get(FRAMEWORKS, FRAMEWORK)["status"]
    tasks = status["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"]
    assert all(task["attemptStatus"]["podUID"] for task in tasks)


async def test_roster_is_published_after_the_addresses_are_persisted() -> None:
    shell = Shell()
    shell.create_framework(number=1)
    await shell.run(0.05)
    shell.client.sent.clear()
    ips = {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}
    patch_pod(shell, "gang-worker-0", phase="Running", **ips)
    await shell.run(0.05)
    assert shell.sent("replace", "patch") == [
        "replace frameworks gang",
        "patch configmaps gang-attempt",
    ]
    assert "roster.json.gz" in shell.get(CONFIGMAPS, "gang-attempt")["binaryData"]


async def test_no_roster_is_published_when_its_addresses_are_not_persisted() -> None:
    shell = Shell()
    shell.create_framework(number=1)
    await shell.run(0.05)
    shell.client.sent.clear()
    shell.network.expect("replace", FRAMEWORKS, *[refuse(500)] * 3)
    ips = {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}
    patch_pod(shell, "gang-worker-0", phase="Running", **ips)
    await shell.run(10.0)
    sent = shell.sent("replace", "patch")
    assert sent.index("patch configmaps gang-attempt") == 4
    assert sent[:4] == ["replace frameworks gang"] * 4


async def test_failed_publication_is_tried_again() -> None:
    shell = Shell()
    shell.create_framework(number=1)
    await shell.run(0.05)
    shell.network.expect("patch", CONFIGMAPS, refuse(500), refuse(429))
    ips = {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}
    patch_pod(shell, "gang-worker-0", phase="Running", **ips)
    await shell.run(10.0)
    assert shell.entry.observed.published.roster is not None


async def test_publication_that_finds_no_configmap_sends_nothing_decided_before() -> None:
    """The Pods of an attempt whose ConfigMap just went would belong to nobody."""
    shell = Shell()
    shell.create_framework(number=2, retryPolicy={"fancyRetryPolicy": True})
    await shell.run(0.05)
    shell.storage.delete(
        shell.type(PODS), NAMESPACE, "gang-worker-1", DeleteOptions(grace_seconds=0)
    )
    shell.show()
    wire = shell.get(CONFIGMAPS, "gang-attempt")
    wire["metadata"]["finalizers"] = []
    shell.storage.update(shell.type(CONFIGMAPS), NAMESPACE, "gang-attempt", wire)
    shell.storage.delete(shell.type(CONFIGMAPS), NAMESPACE, "gang-attempt")
    shell.client.sent.clear()
    await shell.run(2.5)
    sent = shell.sent("create", "patch")
    if "patch configmaps gang-attempt" in sent:
        after = sent[sent.index("patch configmaps gang-attempt") + 1 :]
        assert not after or after[0] == "create configmaps gang-attempt"


async def test_status_that_a_stranger_wrote_is_overwritten() -> None:
    shell = Shell()
    shell.create_framework(number=0)
    await shell.run(0.05)
    before = shell.get(FRAMEWORKS, FRAMEWORK)["status"]
    patch = {"status": {"state": "Completed"}}
    rt = shell.type(FRAMEWORKS)
    shell.storage.patch(rt, NAMESPACE, FRAMEWORK, patch, MERGE, subresource="status")
    shell.show()
    await shell.run(1.0)
    assert shell.get(FRAMEWORKS, FRAMEWORK)["status"]["state"] == before["state"]


async def test_poisoned_framework_stops_no_other(
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


async def test_unreadable_framework_stops_no_other_and_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shell = Shell()
    wire = shell.create_framework("poison")
    wire["metadata"]["resourceVersion"] = "999999"
    wire["spec"]["taskRoles"] = "nonsense"
    with caplog.at_level(logging.ERROR):
        shell.store.apply(ObjectKind.FRAMEWORK, wire)
        shell.create_framework()
        await shell.run(5.0)
    assert shell.names(PODS) == ["gang-worker-0"]
    assert len([r for r in caplog.records if r.message == "framework unreadable"]) == 1


async def test_framework_that_is_gone_is_forgotten_and_asked_for_no_more() -> None:
    shell = Shell()
    shell.network.expect("replace", FRAMEWORKS, Fate(is_lost=True))
    shell.create_framework()
    shell.storage.delete(shell.type(FRAMEWORKS), NAMESPACE, FRAMEWORK)
    await shell.run(30.0)
    assert shell.store.find(KEY) is None
    assert len(shell.sent("get")) <= 2


async def test_pod_held_by_a_finalizer_is_not_asked_for_again_and_again() -> None:
    shell = Shell()
    shell.create_framework(number=1)
    body = shell.get(FRAMEWORKS, FRAMEWORK)
    body["spec"]["taskRoles"][0]["task"]["podGracefulDeletionTimeoutSec"] = 1
    shell.storage.update(shell.type(FRAMEWORKS), NAMESPACE, FRAMEWORK, body)
    await shell.run(3.0)
    shell.show()
    patch = {"metadata": {"finalizers": ["example.com/hold"]}}
    rt = shell.type(PODS)
    shell.storage.patch(rt, NAMESPACE, "gang-worker-0", patch, MERGE)
    shell.storage.delete(rt, NAMESPACE, "gang-worker-0")
    shell.show()
    shell.client.sent.clear()
    await shell.run(60.0)
    assert 1 <= len(shell.sent("delete")) <= 12


async def test_pod_without_our_label_is_looked_at_now_and_then_only() -> None:
    shell = Shell()
    shell.create_framework(number=1)
    await shell.run(0.05)
    shell.show()
    live = shell.get(PODS, "gang-worker-0")
    shell.store.remove(ObjectKind.POD, live)
    shell.client.sent.clear()
    await shell.run(30.0)
    looks = [text for text in shell.sent("get") if "pods" in text]
    assert 1 <= len(looks) <= 8
    assert shell.names(PODS) == ["gang-worker-0"]


async def test_quiet_framework_writes_nothing() -> None:
    shell = Shell()
    shell.create_framework(number=1)
    await shell.run(0.05)
    ips = {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}
    patch_pod(shell, "gang-worker-0", phase="Running", **ips)
    await shell.run(5.0)
    shell.show()
    shell.client.sent.clear()
    await shell.run(120.0)
    assert shell.sent() == []
