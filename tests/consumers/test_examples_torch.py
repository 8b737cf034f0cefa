"""The torchrun examples train, and continue from their step after a rescale."""

import re
from pathlib import Path

import pytest

from tests.consumers.examples import Example, run_example, start_example, wait_for_rescale


def test_torchrun_processes_average_their_gradients(tmp_path: Path) -> None:
    example = run_example("torchrun-ddp.yaml", "torch", tmp_path)
    for rank in range(3):
        log = example.read_log(f"worker/{rank}")
        assert f"rank {rank} of 3\n" in log, example.explain("other ranks")
        end = re.search(r"^off by 0\.00\d\d, the same everywhere: True$", log, re.MULTILINE)
        assert end is not None, example.explain("another end")


def read_starts(example: Example, task: str) -> list[tuple[int, int, int]]:
    """World, first step and restart count of every start of a Task's process."""
    found = re.findall(
        r"^world (\d+) rank \d+: from step (\d+), restarts (\d+)$",
        example.read_log(task),
        re.MULTILINE,
    )
    return [(int(world), int(step), int(restarts)) for world, step, restarts in found]


def slow_down(text: str) -> str:
    return wait_for_rescale(text, "SECONDS", step="step", size="size", first="first")


# What the text of the example says about c10d.
FRAMEWORK = "            - {name: FB_TORCH_BACKEND, value: framework}\n"
C10D = """\
            - {name: FB_TORCH_BACKEND, value: c10d}
            - {name: FB_TORCH_NODES, value: "2:8"}
            - {name: FB_TORCH_RDZV_CONF, value: last_call_timeout=5}
"""


@pytest.mark.parametrize("backend", ["framework", "c10d"])
def test_torchrun_continues_in_worlds_of_two_three_and_two(backend: str, tmp_path: Path) -> None:
    def change(text: str) -> str:
        assert FRAMEWORK in text
        text = slow_down(text)
        return text if backend == "framework" else text.replace(FRAMEWORK, C10D)

    with start_example("torchrun-elastic.yaml", "torch", tmp_path, change) as example:
        example.wait_for_log("worker/0", r"^world 2 step \d+: ")
        example.scale("worker", 3)
        example.wait_for_log("worker/2", r"^world 3 step \d+: ")
        example.scale("worker", 2)
        example.wait_for_log("worker/0", r"^world 3 .*\n(.*\n)*^world 2 step \d+: ")
        assert example.finish() == 0, example.explain("it failed")
    starts = read_starts(example, "worker/0")
    assert [world for world, _, _ in starts] == [2, 3, 2], example.explain("other worlds")
    first, second, third = (step for _, step, _ in starts)
    assert first == 0
    assert 10 <= second < third
    # Rank 0 keeps its state; the worker that joined later received it.
    assert read_starts(example, "worker/2")[0][1] == second
    if backend == "framework":
        assert [restarts for _, _, restarts in starts] == [0, 0, 0], example.explain("restarted")
    assert "done in world 2, off by 0.0" in example.read_log("worker/0")


@pytest.mark.parametrize("index", [0, 1])
def test_torchrun_continues_with_the_successor_of_a_lost_pod(index: int, tmp_path: Path) -> None:
    def change(text: str) -> str:
        policy = "retryPolicy: {fancyRetryPolicy: false, maxRetryCount: 0}"
        assert policy in text
        return slow_down(text).replace(
            policy, policy.replace("maxRetryCount: 0", "maxRetryCount: 1")
        )

    other = f"worker/{1 - index}"
    with start_example("torchrun-elastic.yaml", "torch", tmp_path, change) as example:
        example.wait_for_log(other, r"^world 2 step \d+: ")
        example.delete_pod(f"worker/{index}")
        example.wait_for_log(other, r"^world 2 .*\n(.*\n)*^world 2 rank \d: from step [1-9]")
        assert example.finish() == 0, example.explain("it failed")
    starts = read_starts(example, other)
    assert len(starts) == 2, example.explain("not two starts")
    (_, first, before), (world, second, after) = starts
    assert (world, first, before) == (2, 0, 0)
    # The successor, also that of rank 0, received the state of the other worker.
    assert [start[:2] for start in read_starts(example, f"worker/{index}")] == [(2, second)]
    assert after <= 1
    assert "done in world 2, off by 0.0" in example.read_log(other)
