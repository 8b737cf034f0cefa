"""The controller's memory: what is found in /proc and cgroups, and what is promised to whom."""

from pathlib import Path

import pytest

from controller.core.limits import TASK_MEMORY_BYTES
from controller.core.settings import MEMORY_WAIT_SECONDS
from controller.memory import UNLIMITED, MemoryLedger, find_limit_bytes, read_used_bytes
from framework.api.states import FrameworkState, TaskState
from framework.api.types import FrameworkStatus
from framework.kube.resources import FRAMEWORKS, PODS
from tests.support.builders import build_role_status, build_status
from tests.support.shell import Shell

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


def test_namespace_with_all_promises_leaves_some_memory_to_others() -> None:
    # Pods that a quota keeps away are promised memory for ever.
    process = Process(300 * MIB)
    ledger = build_ledger(process)
    ledger.note("a/x", pending(80_000))
    assert free_of(ledger, "a/y") == 0
    assert free_of(ledger, "b/x") == 100 * MIB
    ledger.note("b/x", pending(1000))
    assert free_of(ledger, "c/x") == 100 * MIB - 1000 * TASK_MEMORY_BYTES
    # What is used is no promise.
    process.used_bytes = 801 * MIB
    assert free_of(ledger, "c/x") == 0


def test_what_is_promised_to_others_is_not_free() -> None:
    ledger = build_ledger(Process(300 * MIB))
    ledger.note("a/x", pending(1000))
    assert free_of(ledger, "a/y") == 500 * MIB - 1000 * TASK_MEMORY_BYTES
    assert free_of(ledger, "a/x") == 500 * MIB


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(build_status(build_role_status(number=1000)), id="its Pods are there"),
        pytest.param(build_status(state=FrameworkState.COMPLETED), id="it is over"),
        pytest.param(None, id="it is gone"),
    ],
)
def test_promise_ends_when_its_memory_is_in_use_or_not_needed(
    after: FrameworkStatus | None,
) -> None:
    ledger = build_ledger(Process(300 * MIB))
    ledger.note("a/x", pending(1000))
    if after is None:
        ledger.forget("a/x")
    else:
        ledger.note("a/x", after)
    assert free_of(ledger, "a/y") == 500 * MIB


def test_nothing_is_free_while_others_fill_the_share() -> None:
    ledger = build_ledger(Process(850 * MIB))
    ledger.note("a/x", build_status())
    assert free_of(ledger, "a/y") == 0


def test_one_framework_goes_on_where_no_other_could_make_room() -> None:
    ledger = build_ledger(Process(850 * MIB))
    assert free_of(ledger, "a/y") == 100 * MIB
    ledger.note("a/x", build_status())
    ledger.note("a/x", build_status(state=FrameworkState.COMPLETED))
    assert free_of(ledger, "a/y") == 100 * MIB


def test_controller_without_a_limit_keeps_no_account() -> None:
    UNLIMITED.note("a/x", pending(1))
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
LIMITS = [
    pytest.param("0::/\n", {"memory.max": "1073741824\n"}, 1 << 30, id="v2"),
    pytest.param("0::/\n", {"memory.max": "max\n"}, None, id="v2 without a limit"),
    pytest.param(
        "0::/a/b\n",
        {"a/b/memory.max": "max", "a/memory.max": "2000000", "memory.max": "3000000"},
        2_000_000,
        id="v2, the lowest of all levels",
    ),
    pytest.param("0::/../../a\n", {"memory.max": "5000000"}, 5_000_000, id="v2, outside its root"),
    pytest.param(
        V1_LINES,
        {"memory/kubepods/pod1/memory.limit_in_bytes": "4000000\n"},
        4_000_000,
        id="v1",
    ),
    pytest.param(V1_LINES, {"memory/memory.limit_in_bytes": "6000000"}, 6_000_000, id="v1, a root"),
    pytest.param(
        V1_LINES, {"memory/memory.limit_in_bytes": "9223372036854771712"}, None, id="v1, no limit"
    ),
    pytest.param("0::/\n", {"memory.max": "garbage"}, None, id="unreadable"),
    pytest.param("0::/\n", {}, None, id="no file"),
    pytest.param(None, {"memory.max": "1"}, None, id="no cgroups"),
]


@pytest.mark.parametrize(("cgroup", "files", "expected"), LIMITS)
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
