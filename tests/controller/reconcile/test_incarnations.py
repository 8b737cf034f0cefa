"""Another Framework of the same name inherits no outcome of the former one."""

import asyncio

import pytest

from controller.core.actions import ActionKey, ObjectKind, Verb
from controller.core.snapshot import Failure
from framework.kube.resources import FRAMEWORKS
from tests.support.builders import AT, FRAMEWORK
from tests.support.builders.cases import cases
from tests.support.fakes.storageclient import Fate
from tests.support.simulator.shell import Shell

pytestmark = pytest.mark.looptime

CREATE = ActionKey(Verb.CREATE, ObjectKind.CONFIGMAP, f"{FRAMEWORK}-attempt", "former/0")


async def open_shell() -> Shell:
    shell = Shell()
    shell.create_framework()
    await shell.run(1.0)
    shell.entry.outcomes.record_failure(CREATE, Failure(403, "no", "", 1, AT))
    shell.entry.outcomes.blocked = ("Why", "words")
    shell.entry.pacing.changed_at = 0.0
    return shell


async def test_new_framework_of_a_name_is_decided_without_the_outcomes_of_the_former() -> None:
    shell = await open_shell()
    shell.delete(FRAMEWORKS, FRAMEWORK, grace_seconds=0)
    shell.create_framework()
    await shell.run(1.0)
    assert CREATE not in shell.entry.outcomes.failures
    assert shell.entry.outcomes.blocked is None
    assert shell.entry.pacing.changed_at is None


async def test_condition_of_the_former_framework_is_written_for_the_new_one_too() -> None:
    shell = await open_shell()
    shell.delete(FRAMEWORKS, FRAMEWORK, grace_seconds=0)
    shell.create_framework()
    assert await shell.writer.write_blocked(shell.entry, "Why", "words")
    assert shell.find_condition()["reason"] == "Why"


async def test_edit_of_a_framework_keeps_the_outcomes() -> None:
    shell = await open_shell()
    shell.edit(description="new")
    shell.executor.begin_decision(shell.entry)
    assert CREATE in shell.entry.outcomes.failures
    assert shell.entry.outcomes.blocked == ("Why", "words")


@cases("is_deletion_shown", deleted=True, replaced=False)
@pytest.mark.parametrize("verb", ["get", "replace"])
async def test_late_answer_about_the_former_framework_does_not_replace_the_new_one(
    verb: str, *, is_deletion_shown: bool
) -> None:
    shell = await open_shell()
    shell.entry.outcomes.blocked = None
    shell.network.expect(verb, FRAMEWORKS, Fate(downlink_seconds=5.0))
    send = {
        "get": lambda: shell.writer.refresh(shell.entry),
        "replace": lambda: shell.writer.write_blocked(shell.entry, "Why", "words"),
    }
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(send[verb]())
        await asyncio.sleep(1.0)
        former = shell.get(FRAMEWORKS, FRAMEWORK)
        shell.delete(FRAMEWORKS, FRAMEWORK, grace_seconds=0)
        if is_deletion_shown:
            shell.store.remove(ObjectKind.FRAMEWORK, former)
        created = shell.create_framework()
    assert shell.framework.metadata.uid == created["metadata"]["uid"]
