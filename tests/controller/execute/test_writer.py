"""What a failed write means: nothing may rely on a status whose fate is unknown."""

import asyncio
from dataclasses import replace

import pytest

from controller.core.decision import Publication
from framework.api import constants
from framework.api.states import FrameworkState
from framework.api.types import FrameworkStatus
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS
from localcluster.apiserver.model.options import DeleteOptions
from tests.support.builders import FRAMEWORK, NAMESPACE, build_roster, build_status
from tests.support.builders.cases import cases
from tests.support.fakes.storageclient import Fate
from tests.support.simulator.shell import Shell, refuse

pytestmark = pytest.mark.looptime

NAME = "gang-attempt"


def open_shell() -> Shell:
    shell = Shell()
    shell.create_framework()
    return shell


def status(state: FrameworkState = FrameworkState.ATTEMPT_RUNNING) -> FrameworkStatus:
    return build_status(state=state)


def edit(shell: Shell, description: str) -> None:
    wire = shell.get(FRAMEWORKS, FRAMEWORK)
    wire["spec"]["description"] = description
    shell.storage.update(shell.type(FRAMEWORKS), NAMESPACE, FRAMEWORK, wire)


def is_unsure(shell: Shell) -> bool:
    return shell.entry.observed.needs_refresh


def stored_state(shell: Shell) -> str | None:
    wire = shell.get(FRAMEWORKS, FRAMEWORK)
    return (wire.get("status") or {}).get("state")


async def test_written_status_is_the_one_decided_from_next() -> None:
    shell = open_shell()
    assert await shell.writer.write_status(shell.entry, status())
    framework = shell.entry.observed.framework
    assert framework is not None
    assert framework.status == status()
    version = shell.get(FRAMEWORKS, FRAMEWORK)["metadata"]["resourceVersion"]
    assert framework.metadata.resource_version == version
    assert await shell.writer.write_status(shell.entry, status(FrameworkState.COMPLETED))


async def test_spec_is_never_written() -> None:
    shell = open_shell()
    before = shell.get(FRAMEWORKS, FRAMEWORK)
    assert await shell.writer.write_status(shell.entry, status())
    after = shell.get(FRAMEWORKS, FRAMEWORK)
    assert after["spec"] == before["spec"]
    assert after["metadata"]["generation"] == before["metadata"]["generation"]


async def test_conflict_takes_the_users_edit_and_keeps_our_status() -> None:
    shell = open_shell()
    assert await shell.writer.write_status(shell.entry, status())
    edit(shell, "new")
    assert not await shell.writer.write_status(shell.entry, status(FrameworkState.COMPLETED))
    framework = shell.entry.observed.framework
    assert framework is not None
    assert framework.spec.description == "new"
    assert framework.status == status()
    assert not shell.entry.observed.needs_refresh
    assert await shell.writer.write_status(shell.entry, status(FrameworkState.COMPLETED))


@cases(
    "fate is_applied",
    lost=(Fate(is_lost=True), False),
    applied_but_answer_lost=(Fate(is_answer_lost=True), True),
    refused=(refuse(500), False),
    applied_but_refused=(replace(refuse(504), is_answer_lost=True), True),
    no_answer_in_time=(Fate(downlink_seconds=100), True),
)
async def test_unknown_fate_is_told_by_a_live_get(fate: Fate, *, is_applied: bool) -> None:
    shell = open_shell()
    shell.network.expect("replace", FRAMEWORKS, fate)
    assert not await shell.writer.write_status(shell.entry, status())
    assert is_unsure(shell)
    assert await shell.writer.refresh(shell.entry)
    assert not is_unsure(shell)
    framework = shell.entry.observed.framework
    assert framework is not None
    assert (framework.status is not None) is is_applied
    assert (stored_state(shell) is not None) is is_applied


async def test_refresh_that_fails_leaves_the_fate_unknown() -> None:
    shell = open_shell()
    shell.entry.observed.needs_refresh = True
    shell.network.expect("get", FRAMEWORKS, refuse(500))
    assert not await shell.writer.refresh(shell.entry)
    assert shell.entry.observed.needs_refresh


async def test_refresh_that_finds_nothing_drops_the_framework() -> None:
    shell = open_shell()
    shell.entry.observed.needs_refresh = True
    shell.storage.delete(shell.type(FRAMEWORKS), NAMESPACE, FRAMEWORK)
    assert not await shell.writer.refresh(shell.entry)
    assert shell.entry.observed.framework is None
    assert not shell.entry.observed.needs_refresh


async def test_status_of_a_framework_that_is_gone_is_not_written() -> None:
    shell = open_shell()
    shell.storage.delete(shell.type(FRAMEWORKS), NAMESPACE, FRAMEWORK)
    assert not await shell.writer.write_status(shell.entry, status())
    assert shell.entry.observed.framework is None
    assert not shell.entry.observed.needs_refresh
    assert not await shell.writer.write_status(shell.entry, status())


async def test_status_of_another_instance_is_not_written() -> None:
    shell = open_shell()
    shell.storage.delete(shell.type(FRAMEWORKS), NAMESPACE, FRAMEWORK)
    body = {
        "apiVersion": constants.API_VERSION,
        "kind": "Framework",
        "metadata": {"name": FRAMEWORK},
        "spec": {},
    }
    shell.storage.create(shell.type(FRAMEWORKS), NAMESPACE, body)
    assert not await shell.writer.write_status(shell.entry, status())
    assert stored_state(shell) is None


# --- publishing ----------------------------------------------------------------------------------


async def open_published() -> Shell:
    """A Framework with its ConfigMap. No fixture: those run in real time."""
    shell = Shell()
    shell.create_framework()
    await shell.run(0.05)
    shell.show()
    return shell


def publication(shell: Shell, generation: int = 1) -> Publication:
    configmap = shell.entry.observed.configmap
    assert configmap is not None
    roster = build_roster(generation=generation)
    return Publication(NAME, configmap.uid, configmap.resource_version, roster, "")


async def test_published_roster_is_known_and_stored() -> None:
    published = await open_published()
    assert await published.writer.publish(published.entry, publication(published))
    assert published.entry.observed.published.roster == build_roster()
    assert published.entry.observed.published.published_at == published.clock.now()
    wire = published.get(CONFIGMAPS, NAME)
    assert constants.ROSTER_KEY in wire["binaryData"]
    assert wire["metadata"]["annotations"][constants.GENERATION_ANNOTATION] == "1"
    assert wire["metadata"]["finalizers"] == ["foregroundDeletion"]


async def test_progress_alone_leaves_the_roster() -> None:
    published = await open_published()
    assert await published.writer.publish(published.entry, publication(published))
    told = replace(publication(published), roster=None, progress='{"ready":0}')
    assert await published.writer.publish(published.entry, told)
    wire = published.get(CONFIGMAPS, NAME)
    assert wire["metadata"]["annotations"][constants.PROGRESS_ANNOTATION] == '{"ready":0}'
    assert constants.ROSTER_KEY in wire["binaryData"]
    assert published.entry.observed.published.roster == build_roster()


async def test_conflict_of_a_publication_reads_what_is_there() -> None:
    published = await open_published()
    stale = publication(published)
    patch = {"metadata": {"annotations": {"theirs": "x"}}}
    merge = "application/merge-patch+json"
    published.storage.patch(published.type(CONFIGMAPS), NAMESPACE, NAME, patch, merge)
    assert not await published.writer.publish(published.entry, stale)
    assert await published.writer.publish(published.entry, publication(published))


async def test_publication_to_a_configmap_that_is_gone_is_told() -> None:
    published = await open_published()
    stale = publication(published)
    wire = published.get(CONFIGMAPS, NAME)
    wire["metadata"]["finalizers"] = []
    published.storage.update(published.type(CONFIGMAPS), NAMESPACE, NAME, wire)
    published.storage.delete(published.type(CONFIGMAPS), NAMESPACE, NAME, DeleteOptions())
    assert not await published.writer.publish(published.entry, stale)
    assert published.entry.observed.configmap is None
    assert ("ConfigMap", NAME) in published.entry.observed.live


async def test_failed_publication_is_to_be_tried_again() -> None:
    published = await open_published()
    published.network.expect("patch", CONFIGMAPS, refuse(500))
    assert not await published.writer.publish(published.entry, publication(published))
    assert published.entry.observed.published.roster is None


async def test_framework_made_anew_while_a_get_was_answered_is_not_taken_for_gone() -> None:
    shell = Shell()
    shell.create_framework()
    await shell.run(1.0)
    shell.entry.observed.needs_refresh = True
    shell.storage.delete(shell.type(FRAMEWORKS), NAMESPACE, FRAMEWORK, DeleteOptions())
    shell.network.expect("get", FRAMEWORKS, Fate(downlink_seconds=2.0))
    reading = asyncio.create_task(shell.writer.refresh(shell.entry))
    await asyncio.sleep(1.0)
    shell.create_framework()
    assert not await reading
    assert shell.entry.observed.framework is not None
