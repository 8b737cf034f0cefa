"""Limits of the tests of the stacks, which only bound a hang."""

from pathlib import Path

import pytest

# Three times what the slowest needs on two cores, and more than the limits of what they run
# (stacks.HANG_SECONDS, examples.RUN_SECONDS): those tell what the program has written.
TEST_SECONDS = 900


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(TEST_SECONDS))
