"""Another Framework of the same name: nothing that was learnt for the former one counts for it."""

from datetime import UTC, datetime

from controller.core.actions import ActionKey, ObjectKind, Verb
from controller.core.snapshot import Failure
from framework.kube.resources import FRAMEWORKS
from localcluster.apiserver.model.options import DeleteOptions
from tests.support.builders import FRAMEWORK, NAMESPACE
from tests.support.simulator.shell import Shell

AT = datetime(2026, 1, 1, tzinfo=UTC)
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
    resource = shell.type(FRAMEWORKS)
    shell.storage.delete(resource, NAMESPACE, FRAMEWORK, DeleteOptions(grace_seconds=0))
    shell.create_framework()
    await shell.run(1.0)
    assert CREATE not in shell.entry.outcomes.failures
    assert shell.entry.outcomes.blocked is None
    assert shell.entry.pacing.changed_at is None


async def test_condition_of_the_former_framework_does_not_stand_for_that_of_the_new() -> None:
    shell = await open_shell()
    resource = shell.type(FRAMEWORKS)
    shell.storage.delete(resource, NAMESPACE, FRAMEWORK, DeleteOptions(grace_seconds=0))
    shell.create_framework()
    assert await shell.writer.write_blocked(shell.entry, "Why", "words")
    (blocked,) = [
        condition
        for condition in shell.get(FRAMEWORKS, FRAMEWORK)["status"]["conditions"]
        if condition["type"] == "Blocked"
    ]
    assert blocked["reason"] == "Why"


async def test_edit_of_a_framework_keeps_the_outcomes() -> None:
    shell = await open_shell()
    wire = shell.get(FRAMEWORKS, FRAMEWORK)
    wire["spec"]["description"] = "new"
    shell.storage.update(shell.type(FRAMEWORKS), NAMESPACE, FRAMEWORK, wire)
    shell.show()
    shell.executor.begin_decision(shell.entry)
    assert CREATE in shell.entry.outcomes.failures
    assert shell.entry.outcomes.blocked == ("Why", "words")
