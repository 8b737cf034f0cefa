"""Each test has the root logger of Python's defaults, after any other test in its process."""

import logging

import pytest

from framework.logs import configure_logging


@pytest.fixture(scope="module")
def program() -> None:
    """A program that was run in this process for all tests of a module."""
    configure_logging(level="error")


@pytest.mark.usefixtures("program")
def test_warnings_are_seen_although_a_fixture_of_the_module_ran_a_program(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logging.getLogger("any").warning("seen")
    assert "seen" in caplog.text
