"""The JAX example trains: processes exchange gradients and agree on the weights."""

import re
from pathlib import Path

from tests.consumers.examples import run_example


def test_jax_processes_average_their_gradients(tmp_path: Path) -> None:
    example = run_example("jax-data-parallel.yaml", "jax", tmp_path)
    logs = [example.read_log(f"worker/{rank}") for rank in range(3)]
    for rank, log in enumerate(logs):
        assert f"process {rank} of 3, 3 devices" in log, example.explain("other processes")
    losses = [re.findall(r"^step .*", log, re.MULTILINE) for log in logs]
    assert len(losses[0]) == 7, example.explain("other steps")
    # Points differ, the mean loss and the weights do not: they went through the other processes.
    assert losses[0] == losses[1] == losses[2]
    ends = set(re.findall(r"^weights .*$", "\n".join(logs), re.MULTILINE))
    assert ends == {"weights [2.0, -3.0, 0.5, 1.5], off by 0.0004"}
