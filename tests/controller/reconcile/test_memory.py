"""The controller's memory: what is found in /proc and cgroups, and what is promised to whom."""

from dataclasses import replace
from pathlib import Path

import pytest

from controller.core.actions import ActionKey, ObjectKind, Verb
from controller.core.policies.limits import MEMORY_BUDGET, POD_MEMORY_BYTES, TASK_MEMORY_BYTES
from controller.core.settings import MEMORY_WAIT_SECONDS
from controller.reconcile.memory import UNLIMITED, MemoryLedger, find_limit_bytes, read_used_bytes
from framework.api import constants
from framework.api.states import FrameworkState, TaskState
from framework.api.types import Condition, FrameworkStatus
from framework.kube.resources import FRAMEWORKS, PODS
from tests.support.builders import build_role_status, build_status
from tests.support.builders.cases import cases
from tests.support.simulator.shell import Shell, refuse

MIB = 1024 * 1024


def pending(tasks: int) -> FrameworkStatus:
    """A Framework none of whose Pods exists."""
    role = build_role_status(number=tasks, state=TaskState.ATTEMPT_CREATION_PENDING)
    return build_status(role, state=FrameworkState.ATTEMPT_PREPARING)


class Process:
    """Uses as much memory as a test says."""

    def __init__(self, used_bytes: int = 0) -> None:
        self.used_bytes = used_bytes

    def read(self) -> int:
        return self.used_bytes


def build_ledger(process: Process, limit: int = 1000 * MIB, percent: int = 80) -> MemoryLedger:
    return MemoryLedger(limit, percent, process.read)


def free_of(ledger: MemoryLedger, key: str) -> int:
    memory = ledger.look(key)
    assert memory is not None
    return memory.free_bytes


def test_free_is_what_is_not_used_up_to_the_share() -> None:
    ledger = build_ledger(Process(300 * MIB))
    memory = ledger.look("a/x")
    assert memory is not None
    assert (memory.limit_bytes, memory.budget_bytes) == (1000 * MIB, 800 * MIB)
    assert memory.free_bytes == 500 * MIB


def running(tasks: int) -> FrameworkStatus:
    """A Framework all of whose Pods exist."""
    return build_status(build_role_status(number=tasks))


def fail_creates(kind: ObjectKind, number: int) -> list[ActionKey]:
    return [ActionKey(Verb.CREATE, kind, f"x-{n}", "0") for n in range(number)]


def test_namespace_that_fills_the_share_leaves_the_reserve_to_others() -> None:
    process = Process(800 * MIB)
    ledger = build_ledger(process)
    ledger.record_status("a/x", running(10_000))
    assert free_of(ledger, "a/y") == 0
    assert free_of(ledger, "b/x") == 25 * MIB
    # What is used beyond the share leaves less.
    process.used_bytes = 860 * MIB
    assert free_of(ledger, "b/x") == 10 * MIB
    process.used_bytes = 901 * MIB
    assert free_of(ledger, "b/x") == 0


@pytest.mark.parametrize("is_used", [True, False])
def test_however_many_namespaces_take_all_they_get_something_is_left(*, is_used: bool) -> None:
    process = Process(300 * MIB)
    ledger = build_ledger(process)
    for number in range(12):
        namespace = f"hostile-{number}"
        shares = []
        for name in range(20):
            key = f"{namespace}/{name}"
            tasks = free_of(ledger, key) // TASK_MEMORY_BYTES
            shares.append(tasks)
            ledger.record_status(key, running(tasks) if is_used else pending(tasks))
            process.used_bytes += tasks * TASK_MEMORY_BYTES if is_used else 0
        # Not twice, by a second Framework.
        assert shares[0] > 0
        assert sum(shares[1:]) <= 1
    assert free_of(ledger, "bystander/x") > 50 * TASK_MEMORY_BYTES
    assert process.used_bytes < 900 * MIB


def test_completed_frameworks_count_in_the_share_of_their_namespace() -> None:
    process = Process(800 * MIB)
    ledger = build_ledger(process)
    ledger.record_status("a/x", running(10_000))
    tasks = 25 * MIB // TASK_MEMORY_BYTES
    role = build_role_status(number=tasks)
    ledger.record_status("b/x", build_status(role, state=FrameworkState.COMPLETED))
    process.used_bytes += 25 * MIB
    assert free_of(ledger, "b/y") < TASK_MEMORY_BYTES
    ledger.forget("b/x")
    # The process uses as much as before: b may hold again what it has held.
    assert free_of(ledger, "b/y") == 25 * MIB


def end_one(ledger: MemoryLedger, process: Process) -> None:
    """Two services fill the memory; one ends, and Python keeps the memory for itself."""
    process.used_bytes = 850 * MIB
    ledger.record_status("a/x", running(5000))
    ledger.record_status("a/service", running(1))
    assert free_of(ledger, "a/y") == 0
    ledger.forget("a/x")


def test_memory_that_python_keeps_is_free_for_frameworks_as_large_as_those_that_ended() -> None:
    process = Process()
    ledger = build_ledger(process)
    end_one(ledger, process)
    assert free_of(ledger, "a/y") == 5000 * TASK_MEMORY_BYTES
    ledger.record_status("a/y", running(4000))
    assert free_of(ledger, "a/z") == 1000 * TASK_MEMORY_BYTES


def test_memory_that_others_fill_meanwhile_is_not_free_again() -> None:
    process = Process()
    ledger = build_ledger(process)
    end_one(ledger, process)
    process.used_bytes += 20 * MIB
    assert free_of(ledger, "a/y") == 5000 * TASK_MEMORY_BYTES - 20 * MIB
    # The kernel would end the process before all of the rest is in use.
    process.used_bytes = 890 * MIB
    assert free_of(ledger, "a/y") == 5000 * TASK_MEMORY_BYTES - 40 * MIB
    process.used_bytes = 901 * MIB
    assert free_of(ledger, "a/y") == 0


def test_memory_given_back_is_not_promised_twice() -> None:
    process = Process()
    ledger = build_ledger(process)
    end_one(ledger, process)
    ledger.record_status("b/x", pending(3000))
    assert free_of(ledger, "a/y") == 2000 * TASK_MEMORY_BYTES


def test_small_namespace_may_fill_the_share_too() -> None:
    ledger = build_ledger(Process(300 * MIB))
    ledger.record_status("a/x", running(10_000))
    assert free_of(ledger, "b/x") == 500 * MIB


@cases(
    "failures promised",
    none=([], 1000 * TASK_MEMORY_BYTES),
    some_Pods=(fail_creates(ObjectKind.POD, 400), 600 * TASK_MEMORY_BYTES + 400 * POD_MEMORY_BYTES),
    all_Pods=(fail_creates(ObjectKind.POD, 1200), 1000 * POD_MEMORY_BYTES),
    their_ConfigMap=(fail_creates(ObjectKind.CONFIGMAP, 1), 1000 * POD_MEMORY_BYTES),
    a_delete=([ActionKey(Verb.DELETE, ObjectKind.POD, "x-0", "0")], 1000 * TASK_MEMORY_BYTES),
)
def test_refused_pods_are_promised_what_they_would_take_themselves(
    failures: list[ActionKey], promised: int
) -> None:
    ledger = build_ledger(Process(300 * MIB))
    ledger.record_status("a/x", pending(1000), failures)
    assert free_of(ledger, "a/y") == 500 * MIB - promised
    ledger.record_status("a/x", running(1000), failures)
    assert free_of(ledger, "a/y") == 500 * MIB


@pytest.mark.parametrize(
    "state",
    [
        FrameworkState.ATTEMPT_DELETION_PENDING,
        FrameworkState.ATTEMPT_DELETION_REQUESTED,
        FrameworkState.ATTEMPT_DELETING,
        FrameworkState.ATTEMPT_COMPLETED,
        FrameworkState.COMPLETED,
    ],
)
def test_nothing_is_promised_to_an_attempt_that_ends(state: FrameworkState) -> None:
    ledger = build_ledger(Process(300 * MIB))
    role = build_role_status(number=1000, state=TaskState.ATTEMPT_CREATION_PENDING)
    ledger.record_status("a/x", pending(1000))
    ledger.record_status("a/x", build_status(role, state=state))
    assert free_of(ledger, "a/y") == 500 * MIB


def held(state: TaskState, reason: str = MEMORY_BUDGET) -> FrameworkStatus:
    """A Framework whose growth is held."""
    blocked = Condition(type=constants.BLOCKED_CONDITION, status="True", reason=reason)
    role = build_role_status(number=10, state=state)
    return replace(build_status(role), conditions=(blocked,))


def test_frameworks_held_with_nothing_left_to_do_do_not_wait_for_each_other() -> None:
    ledger = build_ledger(Process(850 * MIB))
    ledger.record_status("a/x", held(TaskState.COMPLETED))
    ledger.record_status("a/y", held(TaskState.COMPLETED))
    assert free_of(ledger, "a/x") == free_of(ledger, "a/y") == 100 * MIB
    # The first that goes on may end, and make room: the other one waits for it.
    ledger.record_status("a/x", pending(1000))
    assert free_of(ledger, "a/y") == 0
    ledger.record_status("a/x", build_status(state=FrameworkState.COMPLETED))
    assert free_of(ledger, "a/y") == 100 * MIB


@cases(
    "other",
    its_Tasks_run=held(TaskState.ATTEMPT_RUNNING),
    its_Tasks_may_be_retried=held(TaskState.ATTEMPT_COMPLETED),
    not_held=held(TaskState.COMPLETED, "CreationRefused"),
)
def test_held_framework_waits_for_one_that_may_end(other: FrameworkStatus) -> None:
    ledger = build_ledger(Process(850 * MIB))
    ledger.record_status("a/x", held(TaskState.COMPLETED))
    ledger.record_status("a/y", other)
    assert free_of(ledger, "a/x") == 0


def test_what_is_promised_to_others_is_not_free() -> None:
    ledger = build_ledger(Process(300 * MIB))
    ledger.record_status("a/x", pending(1000))
    assert free_of(ledger, "a/y") == 500 * MIB - 1000 * TASK_MEMORY_BYTES
    assert free_of(ledger, "a/x") == 500 * MIB


@cases(
    "after",
    its_Pods_are_there=build_status(build_role_status(number=1000)),
    it_is_over=build_status(state=FrameworkState.COMPLETED),
    it_is_gone=None,
)
def test_promise_ends_when_its_memory_is_in_use_or_not_needed(
    after: FrameworkStatus | None,
) -> None:
    ledger = build_ledger(Process(300 * MIB))
    ledger.record_status("a/x", pending(1000))
    if after is None:
        ledger.forget("a/x")
    else:
        ledger.record_status("a/x", after)
    assert free_of(ledger, "a/y") == 500 * MIB


def test_nothing_is_free_while_others_fill_the_share() -> None:
    ledger = build_ledger(Process(850 * MIB))
    ledger.record_status("a/x", build_status())
    assert free_of(ledger, "a/y") == 0


def test_one_framework_goes_on_where_no_other_could_make_room() -> None:
    ledger = build_ledger(Process(850 * MIB))
    assert free_of(ledger, "a/y") == 100 * MIB
    ledger.record_status("a/x", build_status())
    ledger.record_status("a/x", build_status(state=FrameworkState.COMPLETED))
    assert free_of(ledger, "a/y") == 100 * MIB


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


def read_blocked(shell: Shell, name: str) -> str:
    status = shell.get(FRAMEWORKS, name)["status"]
    (blocked,) = (c for c in status["conditions"] if c["type"] == "Blocked")
    return str(blocked["reason"])


@pytest.mark.looptime
async def test_frameworks_beyond_the_memory_wait_and_go_on_by_themselves() -> None:
    process = Process(799 * MIB)
    shell = Shell(memory=build_ledger(process))
    shell.create_framework("first", 600)
    shell.create_framework("second", 600)
    await shell.run(5)
    shell.show()
    assert read_blocked(shell, "first") == "NotBlocked"
    assert read_blocked(shell, "second") == "MemoryBudget"
    assert {name.split("-")[0] for name in shell.names(PODS)} == {"first"}

    process.used_bytes = 500 * MIB
    await shell.run(MEMORY_WAIT_SECONDS + 5)
    assert read_blocked(shell, "second") == "NotBlocked"
    assert len([name for name in shell.names(PODS) if name.startswith("second")]) == 600


@pytest.mark.looptime
async def test_promise_of_pods_that_the_server_refuses_shrinks() -> None:
    ledger = build_ledger(Process(300 * MIB))
    shell = Shell(memory=ledger)
    shell.network.expect("create", PODS, *[refuse(500)] * 100)
    shell.create_framework("first", 3)
    await shell.run(5)
    assert free_of(ledger, "default/second") == 500 * MIB - 3 * POD_MEMORY_BYTES
