"""examples/stacks/recovery-ddp.yaml with eight ranks of PyTorch: one is killed, and all continue.

All ranks begin again at the step of the checkpoint, and no Pod is created.
"""

import re
from pathlib import Path

from tests.consumers.examples import Example, run_example

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
