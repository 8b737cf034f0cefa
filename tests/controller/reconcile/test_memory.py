"""The controller's memory: its limit, its use, and how it is divided between Frameworks."""

from dataclasses import replace
from pathlib import Path

import pytest

from controller.core.actions import ActionKey, ObjectKind, Verb
from controller.core.policies.limits import MEMORY_BUDGET, POD_MEMORY_BYTES, TASK_MEMORY_BYTES
from controller.core.settings import MEMORY_WAIT_SECONDS
from controller.reconcile.memory import UNLIMITED, MemoryLedger, find_limit_bytes, read_used_bytes
from framework.api import constants
from framework.api.states import FRAMEWORK_COMPLETING, FrameworkState, TaskState
from framework.api.types import Condition, FrameworkStatus, TaskRoleStatus
from framework.kube.resources import PODS
from tests.support.builders import build_role_status, build_status
from tests.support.builders.cases import cases
from tests.support.simulator.shell import Shell, refuse

MIB = 1024 * 1024
PENDING = TaskState.ATTEMPT_CREATION_PENDING


def pending(tasks: int) -> FrameworkStatus:
    """A Framework none of whose Pods exists."""
    return build_status(build_many(tasks, PENDING), state=FrameworkState.ATTEMPT_PREPARING)


def running(tasks: int) -> FrameworkStatus:
    """A Framework all of whose Pods exist."""
    return build_status(build_many(tasks))


def build_many(tasks: int, state: TaskState = TaskState.ATTEMPT_RUNNING) -> TaskRoleStatus:
    """Build a role whose Tasks are all the same object: the ledger only counts them."""
    role = build_role_status(state=state)
    return replace(role, tasks=role.tasks * tasks)


COMPLETED = build_status(state=FrameworkState.COMPLETED)


class Bench:
    """A ledger of 1000 MiB, of which 800 are the share for Frameworks."""

    def __init__(self, used_mib: int = 0) -> None:
        self.used_bytes = used_mib * MIB
        self.ledger = MemoryLedger(1000 * MIB, 80, lambda: self.used_bytes)

    def record(self, key: str, status: FrameworkStatus | None, *failures: ActionKey) -> None:
        if status is None:
            self.ledger.forget(key)
        else:
            self.ledger.record_status(key, status, failures)

    def read_free(self, key: str) -> int:
        memory = self.ledger.look(key)
        assert memory is not None
        assert (memory.limit_bytes, memory.budget_bytes) == (1000 * MIB, 800 * MIB)
        return memory.free_bytes


def test_free_memory_is_the_unused_part_of_the_share() -> None:
    assert Bench(300).read_free("a/x") == 500 * MIB


def test_namespace_that_fills_the_share_leaves_the_reserve_to_others() -> None:
    bench = Bench(800)
    bench.record("a/x", running(10_000))
    assert bench.read_free("a/y") == 0
    # Use beyond the share leaves less.
    for used, free in ((800, 25), (860, 10), (901, 0)):
        bench.used_bytes = used * MIB
        assert bench.read_free("b/x") == free * MIB


@pytest.mark.parametrize("is_used", [True, False])
def test_any_number_of_greedy_namespaces_leaves_memory_to_others(*, is_used: bool) -> None:
    bench = Bench(300)
    for number in range(12):
        shares = []
        for name in range(20):
            key = f"hostile-{number}/{name}"
            tasks = bench.read_free(key) // TASK_MEMORY_BYTES
            shares.append(tasks)
            bench.record(key, running(tasks) if is_used else pending(tasks))
            bench.used_bytes += tasks * TASK_MEMORY_BYTES if is_used else 0
        # A second Framework of the namespace gets nothing more.
        assert shares[0] > 0
        assert sum(shares[1:]) <= 1
    assert bench.read_free("bystander/x") > 50 * TASK_MEMORY_BYTES
    assert bench.used_bytes < 900 * MIB


def test_completed_frameworks_count_in_the_share_of_their_namespace() -> None:
    bench = Bench(800)
    bench.record("a/x", running(10_000))
    role = build_role_status(number=25 * MIB // TASK_MEMORY_BYTES)
    bench.record("b/x", build_status(role, state=FrameworkState.COMPLETED))
    bench.used_bytes += 25 * MIB
    assert bench.read_free("b/y") < TASK_MEMORY_BYTES
    bench.record("b/x", None)
    # The process uses as much as before: b may hold again as much as it has held.
    assert bench.read_free("b/y") == 25 * MIB


def end_large_framework() -> Bench:
    """Two Frameworks fill the memory; the large one ends, and Python does not return its memory."""
    bench = Bench(850)
    bench.record("a/x", running(5000))
    bench.record("a/service", running(1))
    assert bench.read_free("a/y") == 0
    bench.record("a/x", None)
    return bench


def test_memory_that_python_keeps_is_free_for_frameworks_as_large_as_those_that_ended() -> None:
    bench = end_large_framework()
    assert bench.read_free("a/y") == 5000 * TASK_MEMORY_BYTES
    bench.record("a/y", running(4000))
    assert bench.read_free("a/z") == 1000 * TASK_MEMORY_BYTES


@pytest.mark.parametrize(
    ("used_mib", "expected"),
    [
        (870, 5000 * TASK_MEMORY_BYTES - 20 * MIB),
        # The kernel would end the process before all of the rest is in use.
        (890, 5000 * TASK_MEMORY_BYTES - 40 * MIB),
        (901, 0),
    ],
)
def test_memory_that_others_fill_meanwhile_is_not_free_again(used_mib: int, expected: int) -> None:
    bench = end_large_framework()
    bench.used_bytes = used_mib * MIB
    assert bench.read_free("a/y") == expected


def test_memory_that_was_returned_is_not_promised_twice() -> None:
    bench = end_large_framework()
    bench.record("b/x", pending(3000))
    assert bench.read_free("a/y") == 2000 * TASK_MEMORY_BYTES


def test_small_namespace_may_fill_the_share_too() -> None:
    bench = Bench(300)
    bench.record("a/x", running(10_000))
    assert bench.read_free("b/x") == 500 * MIB


def fail_creates(kind: ObjectKind, number: int) -> list[ActionKey]:
    return [ActionKey(Verb.CREATE, kind, f"x-{n}", "0") for n in range(number)]


@cases(
    "failures promised",
    none=([], 1000 * TASK_MEMORY_BYTES),
    some_pods=(fail_creates(ObjectKind.POD, 400), 600 * TASK_MEMORY_BYTES + 400 * POD_MEMORY_BYTES),
    all_pods=(fail_creates(ObjectKind.POD, 1200), 1000 * POD_MEMORY_BYTES),
    their_configmap=(fail_creates(ObjectKind.CONFIGMAP, 1), 1000 * POD_MEMORY_BYTES),
    a_delete=([ActionKey(Verb.DELETE, ObjectKind.POD, "x-0", "0")], 1000 * TASK_MEMORY_BYTES),
)
def test_memory_of_pods_to_be_created_is_promised(failures: list[ActionKey], promised: int) -> None:
    """Of a Pod whose create was refused, only the memory of the Pod itself."""
    bench = Bench(300)
    bench.record("a/x", pending(1000), *failures)
    assert bench.read_free("a/y") == 500 * MIB - promised
    assert bench.read_free("a/x") == 500 * MIB
    bench.record("a/x", running(1000), *failures)
    assert bench.read_free("a/y") == 500 * MIB


@pytest.mark.parametrize(
    "after",
    [None, running(1000)]
    + [
        build_status(build_role_status(number=1000, state=PENDING), state=state)
        for state in FrameworkState
        if state in FRAMEWORK_COMPLETING or "Completed" in state.value
    ],
)
def test_promise_ends_when_its_memory_is_used_or_not_needed(after: FrameworkStatus | None) -> None:
    bench = Bench(300)
    bench.record("a/x", pending(1000))
    bench.record("a/x", after)
    assert bench.read_free("a/y") == 500 * MIB


def hold(state: TaskState, reason: str = MEMORY_BUDGET) -> FrameworkStatus:
    """A Framework whose growth is held."""
    blocked = Condition(type=constants.BLOCKED_CONDITION, status="True", reason=reason)
    role = build_role_status(number=10, state=state)
    return replace(build_status(role), conditions=(blocked,))


def test_held_frameworks_without_work_do_not_wait_for_each_other() -> None:
    bench = Bench(850)
    bench.record("a/x", hold(TaskState.COMPLETED))
    bench.record("a/y", hold(TaskState.COMPLETED))
    assert bench.read_free("a/x") == bench.read_free("a/y") == 100 * MIB
    # The first that continues may end and release memory: the other one waits for it.
    bench.record("a/x", pending(1000))
    assert bench.read_free("a/y") == 0
    bench.record("a/x", COMPLETED)
    assert bench.read_free("a/y") == 100 * MIB


@cases(
    "other",
    its_tasks_run=hold(TaskState.ATTEMPT_RUNNING),
    its_tasks_may_be_retried=hold(TaskState.ATTEMPT_COMPLETED),
    not_held=hold(TaskState.COMPLETED, "CreationRefused"),
)
def test_held_framework_waits_for_one_that_may_end(other: FrameworkStatus) -> None:
    bench = Bench(850)
    bench.record("a/x", hold(TaskState.COMPLETED))
    bench.record("a/y", other)
    assert bench.read_free("a/x") == 0


def test_a_framework_starts_when_no_other_could_release_memory() -> None:
    bench = Bench(850)
    for status, free in ((None, 100), (build_status(), 0), (COMPLETED, 100)):
        bench.record("a/x", status)
        assert bench.read_free("a/y") == free * MIB


def test_controller_without_a_limit_keeps_no_account() -> None:
    UNLIMITED.record_status("a/x", pending(1))
    assert UNLIMITED.look("a/x") is None


def test_memory_of_this_process_is_read() -> None:
    assert MIB < read_used_bytes() < 64 * 1024 * MIB


@pytest.mark.parametrize("content", [None, "", "1", "a b c"])
def test_memory_that_cannot_be_read_counts_as_none(tmp_path: Path, content: str | None) -> None:
    (tmp_path / "self").mkdir()
    if content is not None:
        (tmp_path / "self" / "statm").write_text(content)
    assert read_used_bytes(tmp_path) == 0


V1_LINES = "12:cpu,cpuacct:/x\n9:memory:/kubepods/pod1\n"
LIMITS = {
    "v2": ("0::/\n", {"memory.max": "1073741824\n"}, 1 << 30),
    "v2_without_a_limit": ("0::/\n", {"memory.max": "max\n"}, None),
    "v2_the_lowest_of_all_levels": (
        "0::/a/b\n",
        {"a/b/memory.max": "max", "a/memory.max": "2000000", "memory.max": "3000000"},
        2_000_000,
    ),
    "v2_outside_its_root": ("0::/../../a\n", {"memory.max": "5000000"}, 5_000_000),
    "v1": (V1_LINES, {"memory/kubepods/pod1/memory.limit_in_bytes": "4000000\n"}, 4_000_000),
    "v1_a_root": (V1_LINES, {"memory/memory.limit_in_bytes": "6000000"}, 6_000_000),
    "v1_no_limit": (V1_LINES, {"memory/memory.limit_in_bytes": "9223372036854771712"}, None),
    "unreadable": ("0::/\n", {"memory.max": "garbage"}, None),
    "no_file": ("0::/\n", {}, None),
    "no_cgroups": (None, {"memory.max": "1"}, None),
}


@cases("cgroup files expected", **LIMITS)
def test_memory_limit_is_the_lowest_of_the_cgroups(
    tmp_path: Path, cgroup: str | None, files: dict[str, str], expected: int | None
) -> None:
    proc, cgroups = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    cgroups.mkdir()
    if cgroup is not None:
        (proc / "self" / "cgroup").write_text(cgroup)
    for name, content in files.items():
        (cgroups / name).parent.mkdir(parents=True, exist_ok=True)
        (cgroups / name).write_text(content)
    assert find_limit_bytes(proc, cgroups) == expected


def test_memory_limit_of_this_machine_can_be_asked_for() -> None:
    limit = find_limit_bytes()
    assert limit is None or limit > 0


@pytest.mark.looptime
async def test_frameworks_beyond_the_memory_wait_and_start_by_themselves() -> None:
    bench = Bench(799)
    shell = Shell(memory=bench.ledger)
    for name in ("first", "second"):
        shell.create_framework(name, 600)
    await shell.run(5)
    shell.show()
    assert shell.find_condition("first")["reason"] == "NotBlocked"
    assert shell.find_condition("second")["reason"] == "MemoryBudget"
    assert {name.split("-")[0] for name in shell.names(PODS)} == {"first"}

    bench.used_bytes = 500 * MIB
    await shell.run(MEMORY_WAIT_SECONDS + 5)
    assert shell.find_condition("second")["reason"] == "NotBlocked"
    assert len([name for name in shell.names(PODS) if name.startswith("second")]) == 600


@pytest.mark.looptime
async def test_promise_of_pods_that_the_server_refuses_shrinks() -> None:
    bench = Bench(300)
    shell = Shell(memory=bench.ledger)
    shell.network.expect("create", PODS, *[refuse(500)] * 100)
    shell.create_framework("first", 3)
    await shell.run(5)
    assert bench.read_free("default/second") == 500 * MIB - 3 * POD_MEMORY_BYTES
