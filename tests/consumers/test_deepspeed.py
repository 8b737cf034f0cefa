"""DeepSpeed's own parser of host files, and its launcher."""

import re
from pathlib import Path

import pytest

from tests.consumers.examples import run_example
from tests.consumers.stacks import COUNTS, FAMILIES, ask, list_addresses, write_volume
from tests.rendezvous.gangs import IPV6, build_gang

DEEPSPEED = """
from deepspeed.launcher.runner import fetch_hostfile
answer(fetch_hostfile("current/hosts.deepspeed"))
"""


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("count", COUNTS)
def test_deepspeed_reads_every_host_with_its_slots(count: int, family: str, tmp_path: Path) -> None:
    write_volume(tmp_path, build_gang(count, family), slots="8")
    hosts = ask("torch", DEEPSPEED, tmp_path)
    assert hosts == dict.fromkeys(list_addresses(count, family), 8)


def test_deepspeed_reads_names(tmp_path: Path) -> None:
    write_volume(tmp_path, build_gang(2, IPV6), host_style="name")
    assert ask("torch", DEEPSPEED, tmp_path) == {"job-worker-0": 1, "job-worker-1": 1}


def test_deepspeed_processes_average_their_gradients(tmp_path: Path) -> None:
    example = run_example("deepspeed-launcher.yaml", "torch", tmp_path)
    for pod in range(2):
        log = example.read_log(f"worker/{pod}")  # two processes write it: lines may meet
        ranks = sorted(int(rank) for rank in re.findall(r"rank (\d) of 4", log))
        assert ranks == [2 * pod, 2 * pod + 1], example.explain("other ranks")
        ends = re.findall(r"off by 0\.0\d+, the same everywhere: True", log)
        assert len(ends) == 2, example.explain("no end")
