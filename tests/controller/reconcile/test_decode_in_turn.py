"""A Framework is decoded in its own turn, whatever watches show before."""

import asyncio

import msgspec
import pytest

from controller.core.actions import ObjectKind
from framework.kube.deferred import DeferredObject, defer_object
from framework.kube.resources import FRAMEWORKS, PODS, Object
from tests.support.builders import FRAMEWORK, NAMESPACE, build_role_wire, build_submission
from tests.support.simulator.shell import Shell

pytestmark = pytest.mark.looptime


class CostlyObject(DeferredObject):
    """Takes 0.1 s of a clock to decode, and counts that."""

    spent_seconds: list[float]

    def decode(self) -> Object:
        self.spent_seconds.append(0.1)
        return super().decode()


def show(shell: Shell, version: int, spent_seconds: list[float]) -> None:
    """Let the store see a later version of the Framework, as a watch would."""
    wire = shell.get(FRAMEWORKS, FRAMEWORK)
    wire = wire | {"metadata": wire["metadata"] | {"resourceVersion": str(version)}}
    line = msgspec.json.encode({"type": "ADDED", "object": wire})
    obj = CostlyObject(dict(defer_object(wire)["metadata"]), line, unread_bytes=0)
    obj.spent_seconds = spent_seconds
    shell.store.apply(ObjectKind.FRAMEWORK, obj)


def start(shell: Shell, spec: Object | None = None) -> None:
    """Create a Framework, and let the store see it as a watch would, with this spec."""
    body = build_submission(FRAMEWORK, build_role_wire("worker", 1))
    wire = shell.storage.create(shell.type(FRAMEWORKS), NAMESPACE, body)
    if spec is not None:
        wire = wire | {"spec": spec}
    shell.store.apply(ObjectKind.FRAMEWORK, defer_object(wire))


async def test_unreadable_spec_is_found_in_the_turn() -> None:
    shell = Shell()
    start(shell, {"taskRoles": "nonsense"})
    assert shell.entry.observed.fault is None
    await shell.run(1)
    (condition,) = shell.get(FRAMEWORKS, FRAMEWORK)["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("Blocked", "UnreadableFramework")
    assert "spec.taskRoles" in condition["message"]
    assert not shell.names(PODS)


async def test_costly_decodes_take_a_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = Shell()
    start(shell)
    await shell.run(1)
    spent: list[float] = []
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(shell.clock, "monotonic", lambda: loop.time() + sum(spent))
    for n in range(40):
        show(shell, 1000 + n, spent)
        await shell.run(0.1)
    # Of 4 s, each decode of 0.1 s is followed by 0.4 s without one.
    assert 5 <= len(spent) <= 11
    await shell.run(1)
    assert shell.entry.observed.undecoded is None
