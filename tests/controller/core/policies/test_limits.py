"""A Framework that asks for more than a limit allows is Blocked, and keeps its Tasks."""

from dataclasses import replace
from datetime import timedelta

import pytest

from controller.core.decision import EventType
from controller.core.policies.limits import TASK_MEMORY_BYTES
from controller.core.settings import MEMORY_WAIT_SECONDS, FrameworkLimits, Settings
from controller.core.snapshot import MemoryBudget, Snapshot
from framework.api.states import FrameworkState, TaskState
from framework.api.types import Condition, ExecutionType, FrameworkSpec, RetryPolicySpec
from tests.support.builders import build_role, build_spec
from tests.support.builders.cases import cases
from tests.support.builders.worlds import World

MIB = 1024 * 1024
SETTINGS = Settings(limits=FrameworkLimits(max_roles=3, max_tasks=8))


class LimitedWorld(World):
    """A World whose controller has limits."""

    def __init__(self, spec: FrameworkSpec, settings: Settings = SETTINGS) -> None:
        super().__init__(spec, settings)
        self.memory: MemoryBudget | None = None
        self.object_bytes = 1000

    def observe(self) -> Snapshot:
        return replace(super().observe(), memory=self.memory, object_bytes=self.object_bytes)

    @property
    def blocked(self) -> Condition:
        (condition,) = (c for c in self.status.conditions or () if c.type == "Blocked")
        return condition

    @property
    def counts(self) -> dict[str, int]:
        """Tasks by role."""
        return {role.name: len(role.tasks) for role in self.status.attempt_status.task_roles}

    @property
    def running(self) -> list[str]:
        """Names of the Pods that are there and not on their way out."""
        return sorted(pod.name for pod in self.pods.values() if not pod.is_terminating)

    def start(self) -> "LimitedWorld":
        """Let every Pod run."""
        self.settle()
        for name in list(self.pods):
            self.run_pod(name)
        self.settle()
        return self


def spec_of(*numbers: int, **fields: object) -> FrameworkSpec:
    return build_spec(*(build_role(f"a{i}", n) for i, n in enumerate(numbers)), **fields)


TOO_MUCH: dict[str, tuple[FrameworkSpec, str, str]] = {
    "Tasks": (
        spec_of(6, 3),
        "TooManyTasks",
        "spec.taskRoles: has 9 Tasks; at most 8 Tasks are allowed in all roles together: lower",
    ),
    "roles": (
        spec_of(1, 1, 1, 1),
        "TooManyRoles",
        "spec.taskRoles: has 4 roles; at most 3 roles are allowed: give Tasks that are alike one",
    ),
    "empty": (spec_of(0, 0, 0, 0), "TooManyRoles", "spec.taskRoles: has 4 roles"),
    "as_many_as_a_number_says": (
        spec_of(10**9),
        "TooManyTasks",
        "spec.taskRoles: has 1000000000 Tasks",
    ),
}


@cases("spec reason message", **TOO_MUCH)
def test_framework_beyond_a_limit_is_blocked_and_gets_no_task(
    spec: FrameworkSpec, reason: str, message: str
) -> None:
    world = LimitedWorld(spec)
    first = world.decide()
    world.carry_out(first)
    assert (world.blocked.status, world.blocked.reason) == ("True", reason)
    assert world.blocked.message.startswith(message)
    assert [(e.type, e.reason) for e in first.events] == [(EventType.WARNING, reason)]
    assert world.status.attempt_status.task_roles == ()
    assert (first.actions, first.wake_at) == ((), None)
    # It costs nothing until its spec changes.
    again = world.decide()
    assert (again.status, again.actions, again.events, again.wake_at) == (None, (), (), None)


def test_framework_whose_spec_is_mended_starts() -> None:
    world = LimitedWorld(spec_of(6, 3))
    world.settle()
    world.edit(spec_of(2, 3))
    world.start()
    assert world.blocked.status == "False"
    assert world.counts == {"a0": 2, "a1": 3}
    assert world.status.state is FrameworkState.ATTEMPT_RUNNING
    assert len(world.running) == 5


def test_blocked_framework_can_be_stopped() -> None:
    world = LimitedWorld(spec_of(6, 3))
    world.settle()
    world.edit(replace(world.framework.spec, execution_type=ExecutionType.STOP))
    world.settle()
    assert world.status.state is FrameworkState.COMPLETED


@pytest.mark.parametrize("more", [spec_of(2, 60), spec_of(2, 1, 60), spec_of(2, 1, 0, 0, 0)])
def test_running_gang_that_is_rescaled_beyond_a_limit_is_kept_as_it_is(more: FrameworkSpec) -> None:
    world = LimitedWorld(spec_of(2, 1)).start()
    before = world.running
    world.edit(more)
    world.settle()
    assert world.blocked.status == "True"
    assert world.running == before
    assert world.counts == {"a0": 2, "a1": 1}
    for name in before:
        world.end_pod(name)
    for _ in range(3):
        world.settle()
        world.collect_garbage()
        for pod in [pod for pod in world.pods.values() if pod.is_terminating]:
            world.remove_pod(pod.name)
    assert world.status.state is FrameworkState.COMPLETED


def test_tasks_of_a_blocked_gang_are_retried() -> None:
    task = replace(build_role().task, retry_policy=RetryPolicySpec(max_retry_count=1))
    world = LimitedWorld(build_spec(build_role("a0", 2, task=task))).start()
    world.edit(build_spec(build_role("a0", 60, task=task)))
    world.end_pod("gang-a0-1", code=1)
    world.settle()
    world.remove_pod("gang-a0-1")
    world.settle()
    assert world.running == ["gang-a0-0", "gang-a0-1"]
    (role,) = world.status.attempt_status.task_roles
    assert [task.attempt_status.id for task in role.tasks] == [0, 1]


def test_blocked_spec_still_scales_down() -> None:
    world = LimitedWorld(spec_of(2, 2)).start()
    world.edit(spec_of(1, 60))
    world.settle()
    assert world.running == ["gang-a0-0", "gang-a1-0", "gang-a1-1"]


def test_next_attempt_of_a_blocked_framework_waits_for_its_spec() -> None:
    retried = RetryPolicySpec(max_retry_count=1)
    world = LimitedWorld(spec_of(1, retry_policy=retried)).start()
    world.edit(spec_of(60, retry_policy=retried))
    world.settle()
    world.terminate_configmap()
    world.settle()
    world.remove_pod("gang-a0-0")
    world.collect_garbage()
    world.settle()
    assert world.status.attempt_status.id == 1
    assert world.status.state is FrameworkState.ATTEMPT_CREATION_PENDING
    assert (world.configmap, world.blocked.reason) == (None, "TooManyTasks")
    world.edit(spec_of(3, retry_policy=retried))
    world.settle()
    assert world.running == ["gang-a0-0", "gang-a0-1", "gang-a0-2"]


def test_framework_that_is_larger_than_newer_limits_and_does_not_grow_is_not_blocked() -> None:
    world = LimitedWorld(spec_of(6, 6), Settings()).start()
    world.settings = SETTINGS
    world.edit(spec_of(6, 5))
    world.settle()
    assert world.blocked.status == "False"
    assert world.counts["a0"] == 6


def test_completed_framework_is_left_alone() -> None:
    world = LimitedWorld(spec_of(1, execution_type=ExecutionType.STOP))
    world.settle()
    assert world.status.state is FrameworkState.COMPLETED
    world.edit(spec_of(60, execution_type=ExecutionType.STOP))
    assert world.decide().status is None


@pytest.mark.parametrize(
    ("is_compressed", "object_bytes", "is_blocked"),
    [(True, 1000, False), (True, 10_000, True), (False, 1000, True), (False, 100, False)],
)
def test_framework_that_no_server_would_store_does_not_start(
    *, is_compressed: bool, object_bytes: int, is_blocked: bool
) -> None:
    limits = FrameworkLimits(max_object_bytes=10_500, is_compressed=is_compressed)
    world = LimitedWorld(spec_of(8, 8), Settings(limits=limits))
    world.object_bytes = object_bytes
    world.settle()
    assert (world.blocked.status == "True") is is_blocked
    if is_blocked:
        assert world.blocked.reason == "TooLarge"
        assert "at most 10500 are stored: lower taskNumber, shorten" in world.blocked.message
        assert ("largeFrameworkCompression" in world.blocked.message) is not is_compressed
        assert world.counts == {}


def build_memory(free_bytes: int) -> MemoryBudget:
    return MemoryBudget(limit_bytes=1024 * MIB, budget_bytes=819 * MIB, free_bytes=free_bytes)


def test_framework_for_which_memory_is_missing_waits_and_starts_by_itself() -> None:
    world = LimitedWorld(spec_of(2, 1), Settings())
    world.memory = build_memory(3 * TASK_MEMORY_BYTES - 1)
    decision = world.decide()
    world.carry_out(decision)
    assert (world.blocked.reason, world.counts) == ("MemoryBudget", {})
    assert world.blocked.message == (
        "3 more Tasks need about 1 MiB, and the controller may use 819 MiB of its 1024 MiB: they "
        "start when other Tasks have ended; to start them now, give the controller more "
        "memory or delete completed Frameworks"
    )
    assert [(e.type, e.reason) for e in decision.events] == [(EventType.WARNING, "MemoryBudget")]
    assert decision.wake_at == world.now + timedelta(seconds=MEMORY_WAIT_SECONDS)
    # Other numbers are no reason for a write.
    world.memory = build_memory(0)
    assert world.decide().status is None

    world.memory = build_memory(3 * TASK_MEMORY_BYTES)
    world.start()
    assert (world.blocked.status, len(world.running)) == ("False", 3)


def test_running_gang_needs_no_more_memory() -> None:
    world = LimitedWorld(spec_of(2), Settings()).start()
    world.memory = build_memory(0)
    world.end_pod("gang-a0-0")
    world.settle()
    assert world.blocked.status == "False"
    (role,) = world.status.attempt_status.task_roles
    assert role.tasks[0].state is not TaskState.ATTEMPT_RUNNING
    world.edit(spec_of(3))
    world.settle()
    assert (world.blocked.reason, world.counts) == ("MemoryBudget", {"a0": 2})


def test_gang_that_waits_for_memory_is_not_completed_without_its_new_tasks() -> None:
    world = LimitedWorld(spec_of(2), Settings()).start()
    world.memory = build_memory(0)
    world.edit(spec_of(3))
    world.settle()
    for name in world.running:
        world.end_pod(name)
    world.settle()
    for name in list(world.pods):
        world.remove_pod(name)
    world.settle()
    assert (world.status.state, world.blocked.reason) == (
        FrameworkState.ATTEMPT_RUNNING,
        "MemoryBudget",
    )
    assert world.decide().wake_at is not None

    world.memory = build_memory(TASK_MEMORY_BYTES)
    world.settle()
    assert world.running == ["gang-a0-2"]
    world.run_pod("gang-a0-2")
    world.end_pod("gang-a0-2")
    world.settle()
    world.remove_pod("gang-a0-2")
    world.settle()
    assert world.status.attempt_status.completion_status is not None
