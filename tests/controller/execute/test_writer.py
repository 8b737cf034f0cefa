"""The meaning of a failed write: no decision relies on a status that may not be stored."""

import asyncio
from dataclasses import replace

import pytest

from controller.core.decision import Publication
from framework.api import constants
from framework.api.states import FrameworkState
from framework.api.trainingstatus import TrainingStatus
from framework.api.types import FrameworkStatus
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS
from tests.support.builders import AT, FRAMEWORK, build_roster, build_status
from tests.support.builders.cases import cases
from tests.support.fakes.storageclient import Fate
from tests.support.simulator.shell import Shell, refuse

pytestmark = pytest.mark.looptime

NAME = "gang-attempt"
RUNNING, COMPLETED = build_status(), build_status(state=FrameworkState.COMPLETED)


def open_shell() -> Shell:
    shell = Shell()
    shell.create_framework()
    return shell


async def write(shell: Shell, status: FrameworkStatus = RUNNING) -> bool:
    return await shell.writer.write_status(shell.entry, status)


async def test_written_status_is_the_one_decided_from_next_and_the_spec_is_not_written() -> None:
    shell = open_shell()
    before = shell.get(FRAMEWORKS, FRAMEWORK)
    assert await write(shell)
    after = shell.get(FRAMEWORKS, FRAMEWORK)
    assert shell.framework.status == RUNNING
    assert shell.framework.metadata.resource_version == after["metadata"]["resourceVersion"]
    assert after["spec"] == before["spec"]
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    assert await write(shell, COMPLETED)


async def test_conflict_takes_the_users_edit_and_keeps_our_status() -> None:
    shell = open_shell()
    assert await write(shell)
    shell.patch(FRAMEWORKS, FRAMEWORK, {"spec": {"description": "new"}})
    assert not await write(shell, COMPLETED)
    assert shell.framework.spec.description == "new"
    assert shell.framework.status == RUNNING
    assert not shell.known.needs_refresh
    assert await write(shell, COMPLETED)


@cases(
    "fate is_applied",
    lost=(Fate(is_lost=True), False),
    applied_but_answer_lost=(Fate(is_answer_lost=True), True),
    refused=(refuse(500), False),
    applied_but_refused=(replace(refuse(504), is_answer_lost=True), True),
    no_answer_in_time=(Fate(downlink_seconds=100), True),
)
async def test_unknown_result_requires_a_live_get(fate: Fate, *, is_applied: bool) -> None:
    shell = open_shell()
    shell.network.expect("replace", FRAMEWORKS, fate)
    assert not await write(shell)
    known = [shell.known.needs_refresh]
    assert await shell.writer.refresh(shell.entry)
    known.append(shell.known.needs_refresh)
    assert known == [True, False]
    assert (shell.framework.status is not None) is is_applied
    assert bool(shell.status) is is_applied


async def test_refresh_that_fails_leaves_the_result_unknown() -> None:
    shell = open_shell()
    shell.known.needs_refresh = True
    shell.network.expect("get", FRAMEWORKS, refuse(500))
    assert not await shell.writer.refresh(shell.entry)
    assert shell.known.needs_refresh


@pytest.mark.parametrize("is_refresh", [True, False])
async def test_framework_that_is_gone_is_dropped_and_not_written(*, is_refresh: bool) -> None:
    shell = open_shell()
    shell.known.needs_refresh = is_refresh
    shell.delete(FRAMEWORKS, FRAMEWORK)
    assert not await (shell.writer.refresh(shell.entry) if is_refresh else write(shell))
    assert shell.known.framework is None
    assert not shell.known.needs_refresh
    assert not await write(shell)


async def test_status_of_another_instance_is_not_written() -> None:
    shell = open_shell()
    shell.delete(FRAMEWORKS, FRAMEWORK)
    body = {"apiVersion": constants.API_VERSION, "kind": "Framework", "spec": {}}
    body |= {"metadata": {"name": FRAMEWORK}}
    shell.storage.create(shell.type(FRAMEWORKS), "default", body)
    assert not await write(shell)
    assert shell.status == {}


async def test_framework_created_anew_while_a_get_was_answered_is_kept() -> None:
    shell = open_shell()
    await shell.run(1.0)
    shell.known.needs_refresh = True
    shell.delete(FRAMEWORKS, FRAMEWORK)
    shell.network.expect("get", FRAMEWORKS, Fate(downlink_seconds=2.0))
    reading = asyncio.create_task(shell.writer.refresh(shell.entry))
    await asyncio.sleep(1.0)
    shell.create_framework()
    assert not await reading
    assert shell.known.framework is not None


async def open_with_configmap() -> Shell:
    """A Framework with its ConfigMap. (Fixtures run in real time.)"""
    shell = open_shell()
    await shell.run(0.05)
    shell.show()
    return shell


def build_publication(shell: Shell) -> Publication:
    configmap = shell.known.configmap
    assert configmap is not None
    return Publication(NAME, configmap.uid, configmap.resource_version, build_roster(), "")


async def publish(shell: Shell, publication: Publication | None = None) -> bool:
    return await shell.writer.publish(shell.entry, publication or build_publication(shell))


async def test_published_roster_is_known_and_stored_and_readiness_alone_keeps_it() -> None:
    shell = await open_with_configmap()
    assert await publish(shell)
    assert shell.known.published.roster == build_roster()
    assert shell.known.published.published_at == shell.clock.now()
    wire = shell.get(CONFIGMAPS, NAME)
    assert wire["metadata"]["annotations"][constants.GENERATION_ANNOTATION] == "1"
    assert wire["metadata"]["finalizers"] == ["foregroundDeletion"]
    readiness = replace(build_publication(shell), roster=None, readiness='{"ready":0}')
    assert await publish(shell, readiness)
    after = shell.get(CONFIGMAPS, NAME)
    assert after["metadata"]["annotations"][constants.READINESS_ANNOTATION] == '{"ready":0}'
    assert after["binaryData"][constants.ROSTER_KEY] == wire["binaryData"][constants.ROSTER_KEY]
    assert shell.known.published.roster == build_roster()


async def test_conflict_of_a_publication_reads_the_stored_configmap() -> None:
    shell = await open_with_configmap()
    stale = build_publication(shell)
    shell.patch(CONFIGMAPS, NAME, {"metadata": {"annotations": {"theirs": "x"}}})
    assert not await publish(shell, stale)
    assert await publish(shell)


async def test_publication_to_a_configmap_that_is_gone_records_its_absence() -> None:
    shell = await open_with_configmap()
    shell.patch(CONFIGMAPS, NAME, {"metadata": {"finalizers": []}})
    shell.delete(CONFIGMAPS, NAME)
    assert not await publish(shell)
    assert shell.known.configmap is None
    assert ("ConfigMap", NAME) in shell.known.live


async def test_stored_progress_of_a_training_is_counted_once() -> None:
    shell = open_shell()
    for step in (None, 1, 1, 2):
        training = None if step is None else TrainingStatus(step, update_time=AT)
        attempt = replace(RUNNING.attempt_status, training=training)
        assert await write(shell, replace(RUNNING, attempt_status=attempt))
    assert "frameworkcontroller_training_updates_total 2.0" in shell.metrics.render().decode()
