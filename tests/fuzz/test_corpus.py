"""Replays the kept inputs; checks the targets' seeds, the judge, and that fixed runs are alike."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz import forms
from tests.fuzz.budget import Budget, Target, judge
from tests.fuzz.kept import CORPUS, list_corpus
from tests.fuzz.targets import TARGETS
from tests.fuzz.worker import Progress, read_progress

# The budget is CPU time, but a busy machine's caches make that longer too.
SLACK = 3.0
MAX_KEPT_BYTES = 65536
KEPT = [(name, path) for name in TARGETS for path in list_corpus(name)]


@pytest.fixture(scope="module", autouse=True)
def files() -> Iterator[None]:
    """Remove the files that decoders read."""
    yield
    forms.remove_files()


@pytest.mark.parametrize(("name", "path"), KEPT, ids=[f"{n}-{path.name}" for n, path in KEPT])
def test_kept_input_is_within_the_budget(name: str, path: Path) -> None:
    assert judge(TARGETS[name], path.read_bytes(), slack=SLACK) == ""


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_are_decoded_within_the_budget(name: str) -> None:
    for seed in TARGETS[name].seeds:
        assert judge(TARGETS[name], seed, slack=SLACK) == ""


def test_kept_inputs_are_small_and_belong_to_a_target() -> None:
    assert {path.name for path in CORPUS.iterdir()} <= set(TARGETS)
    assert max(path.stat().st_size for _, path in KEPT) <= MAX_KEPT_BYTES


def test_judge_finds_what_costs_more_than_the_input_explains() -> None:
    def square(data: bytes) -> object:
        return sum(1 for _ in data for _ in data)

    slow = Target("slow", square, (), budget=Budget(base_seconds=0.01, seconds_per_mib=1.0))
    assert judge(slow, b"x" * 10) == ""
    assert "s of CPU for 2000 bytes" in judge(slow, b"x" * 2000)


def test_judge_finds_memory_beyond_the_budget() -> None:
    large = Target("large", lambda data: bytearray(len(data) * 10_000), ())
    assert judge(large, b"x") == ""
    assert "MiB for 1000 bytes" in judge(large, b"x" * 1000)


def test_judge_finds_errors_that_are_not_expected() -> None:
    def refuse(data: bytes) -> object:
        raise KeyError(data) if data else ValueError("empty")

    target = Target("refusing", refuse, (), expected=(ValueError,))
    assert judge(target, b"") == ""
    assert judge(target, b"x").startswith("raised KeyError")


def fuzz_fixed(out: Path, hash_seed: str) -> Progress:
    out.mkdir()
    worker = [sys.executable, "-m", "tests.fuzz.worker", "selector", str(out), "--inputs", "100"]
    subprocess.run(worker, env={**os.environ, "PYTHONHASHSEED": hash_seed}, check=True)
    return read_progress(out)


@pytest.mark.slow
def test_two_fixed_runs_of_a_target_try_the_same_inputs(tmp_path: Path) -> None:
    first, second = (fuzz_fixed(tmp_path / seed, seed) for seed in ("1", "2"))
    assert first == second
    assert first.executions == 100
