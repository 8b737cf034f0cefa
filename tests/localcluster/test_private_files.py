"""A claim of a directory is refused by another claim, and not by a process that only looks."""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster.private_files import claim, is_in_use


@pytest.fixture
def descriptors(tmp_path: Path) -> Iterator[tuple[int, int]]:
    """The same directory, opened twice, as by two processes."""
    opened = tuple(os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY) for _ in range(2))
    yield opened[0], opened[1]
    for descriptor in opened:
        os.close(descriptor)


def test_second_claim_is_refused(descriptors: tuple[int, int], tmp_path: Path) -> None:
    first, second = descriptors
    assert not is_in_use(tmp_path)
    assert claim(first)
    assert is_in_use(tmp_path)
    assert not claim(second)


def test_claim_while_another_process_looks_waits_for_it(
    descriptors: tuple[int, int],
) -> None:
    ours, looking = descriptors
    fcntl.flock(looking, fcntl.LOCK_SH)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            fcntl.flock(looking, fcntl.LOCK_UN)

    assert claim(ours, pause)
    assert len(pauses) == 3


def test_claim_while_another_process_never_ends_to_look_is_refused(
    descriptors: tuple[int, int],
) -> None:
    ours, looking = descriptors
    fcntl.flock(looking, fcntl.LOCK_SH)
    pauses: list[float] = []
    assert not claim(ours, pauses.append)
    assert sum(pauses) <= 5.1
