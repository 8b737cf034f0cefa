"""examples/stacks/recovery-ddp.yaml with eight ranks of PyTorch: one is killed, and all continue.

All ranks begin again at the step of the checkpoint, and no Pod is created. The ranks are processes
of ``run``, or workers of torchrun, which ends when one of them is killed.
"""

import re
from pathlib import Path

import pytest

from tests.consumers.examples import Example, run_example
from tests.support.slow import keep_first

RANKS, KILLED_STEP = 8, 4


def change(text: str) -> str:
    assert "taskNumber: 3" in text
    return text.replace("taskNumber: 3", f"taskNumber: {RANKS}")


def read_begins(example: Example, rank: int) -> list[tuple[int, int]]:
    """Epochs and first steps of a rank."""
    begins = re.findall(
        r"^epoch (\d+): rank \d+ begins at step (\d+)$",
        example.read_log(f"worker/{rank}"),
        re.MULTILINE,
    )
    return [(int(epoch), int(step)) for epoch, step in begins]


def test_killed_rank_of_eight_continues_with_all_from_the_checkpoint(tmp_path: Path) -> None:
    example = run_example("recovery-ddp.yaml", "torch", tmp_path, change)
    for rank in range(RANKS):
        begins = read_begins(example, rank)
        assert begins[0] == (0, 0), example.explain("another begin")
        assert begins[-1][1] == KILLED_STEP + 1, example.explain("not from the checkpoint")
        assert "has trained all steps" in example.read_log(f"worker/{rank}")
    pods = {path.name for path in (example.directory / "logs").glob("*_recovery-ddp-worker-*")}
    assert len(pods) == RANKS, f"Pods were created: {pods}"


# The second form also runs on a real node (tests/node/test_recovery_torch.py); here, only with
# make test-consumers STACKS=torch ARGS="-m consumers -k recovery_torch".
@pytest.mark.parametrize(("pods", "slots"), keep_first([(1, RANKS), (RANKS, 1)], slow_count=0))
def test_killed_worker_of_torchrun_continues_with_all_from_the_checkpoint(
    tmp_path: Path, pods: int, slots: int
) -> None:
    def use_torchrun(text: str) -> str:
        for before, after in (
            ("taskNumber: 3", f"taskNumber: {pods}"),
            ("args: [python3, -u, /app/train.py]", "args: [torchrun, /app/train.py]"),
            (
                "            env:\n",
                f'            env:\n            - {{name: FB_SLOTS, value: "{slots}"}}\n',
            ),
            # The ranks of a Pod have one volume.
            ('"/checkpoint/state.pt"', "f\"/checkpoint/state-{os.environ['RANK']}.pt\""),
        ):
            assert before in text
            text = text.replace(before, after)
        return text

    example = run_example("recovery-ddp.yaml", "torch", tmp_path, use_torchrun)
    # Lines of the workers of a Pod may follow each other without a line break.
    log = "".join(example.read_log(f"worker/{index}") for index in range(pods))
    found = re.findall(r"epoch (\d+): rank (\d+) begins at step (\d+)", log)
    begins = {(int(epoch), int(rank), int(step)) for epoch, rank, step in found}
    first, last = 0, max(epoch for epoch, _, _ in begins)
    assert last > first, example.explain("no restart")
    assert {(rank, step) for epoch, rank, step in begins if epoch == first} == {
        (rank, 0) for rank in range(RANKS)
    }, example.explain("another begin")
    assert {(rank, step) for epoch, rank, step in begins if epoch == last} == {
        (rank, KILLED_STEP + 1) for rank in range(RANKS)
    }, example.explain("not from the checkpoint")
    assert len(re.findall(r"rank \d+ has trained all steps", log)) == RANKS
    names = {path.name for path in (example.directory / "logs").glob("*_recovery-ddp-worker-*")}
    assert len(names) == pods, f"Pods were created: {names}"
