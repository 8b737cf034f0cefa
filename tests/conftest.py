"""What every test may use: kinds by folder, Hypothesis profiles, the seed, golden files.

Virtual time is asked for test by test with ``@pytest.mark.looptime``; all others run in real time.
"""

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.skips import find_forbidden_skip

# Failed assertions of the tests' helpers show their values, as those of the tests themselves do.
pytest.register_assert_rewrite("tests.support", "tests.upgrade")

TESTS = Path(__file__).parent
GOLDEN = TESTS / "golden"
# Folders whose tests need what an ordinary machine lacks; each is the name of its marker.
KINDS = ("kube", "node", "release", "consumers")
# Folders whose tests in virtual time have no sockets: nothing can arrive from outside between two
# timers, so looptime need not poll 42 times for it before it moves the time.
WITHOUT_SOCKETS = ("controller", "security", "simulation")

# Neither a deadline nor the check of the time to generate inputs: both depend on the load.
settings.register_profile(
    "base", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "ci", settings.get_profile("base"), max_examples=60, derandomize=True, database=None
)
settings.register_profile("nightly", settings.get_profile("base"), max_examples=2000)
settings.load_profile("ci")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write golden files instead of comparing"
    )
    parser.addoption("--seed", type=int, default=0, help="seed of the tests that draw (0)")


def pytest_report_header(config: pytest.Config) -> str:
    profile = config.getoption("--hypothesis-profile", default=None) or "ci"
    return f"seed: {config.getoption('--seed')}, hypothesis profile: {profile}"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the search for cycles, which would look at each test again and again.

    All of them are kept to the end of the run.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = find_folder(item.path)
        if folder in KINDS:
            item.add_marker(folder)
        if folder in WITHOUT_SOCKETS and item.get_closest_marker("looptime"):
            item.add_marker(pytest.mark.looptime(noop_cycles=0))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Make a skipped test a failed one in CI, where no check may be left out in silence."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        failure = find_forbidden_skip(reason, os.environ)
        if failure is not None:
            report.outcome = "failed"
            report.longrepr = failure
    return report


@cache
def find_folder(path: Path) -> str:
    """Return the folder of tests/ that a file of tests is in; empty if it is in no such folder."""
    return path.relative_to(TESTS).parts[0] if TESTS in path.parents else ""


@pytest.fixture(scope="session", autouse=True)
def idle_event_loop() -> Iterator[None]:
    """Own the loop that looptime asks for in every test that is not async.

    Without one it makes a loop that nobody closes, and the ResourceWarning fails whichever test
    the garbage collector next runs in.
    """
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    loop.close()


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    """Give each test the root logger as it was: a program run in this process sets up its own.

    Fixtures of a module come before this one, and may have run such a program.
    """
    root = logging.getLogger()
    handlers = root.handlers[:]
    root.setLevel(logging.WARNING)
    yield
    root.handlers[:] = handlers
    root.setLevel(logging.WARNING)
    logging.captureWarnings(capture=False)


@pytest.fixture
def hangup_by_default() -> Iterator[None]:
    """Let SIGHUP end the programs that a test starts, also where ``nohup`` started the tests."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def pytest_configure() -> None:
    """Let SIGINT end the programs that tests start, also where a shell started the tests with &."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    """The number all draws of this run come from; the header of the run shows it."""
    value: int = request.config.getoption("--seed")
    return value


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, bytes], None]:
    """Compare bytes with ``tests/golden/NAME``; with --update-golden write them there."""
    update = request.config.getoption("--update-golden")

    def check(name: str, actual: bytes) -> None:
        path = GOLDEN / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(actual)
            return
        assert path.exists(), f"no golden file {name}: run make golden, then read the diff"
        assert actual == path.read_bytes(), f"{name} differs: see make golden"

    return check
