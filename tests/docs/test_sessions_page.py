"""docs/sessions.md has a session of each command, and nothing of the machine that recorded it.

That the commands print what it shows: tests/kube/test_sessions.py.
"""

import re

import pytest

from cli.catalog import SECTIONS
from tests.docs.commands import read_page
from tests.kube.sessions.page import hide_machine, normalize

PAGE = read_page("docs/sessions.md")


@pytest.mark.parametrize("name", [name for names in SECTIONS.values() for name in names])
def test_each_command_of_the_catalog_has_a_session(name: str) -> None:
    assert re.search(rf"^\$ framework {name}( |$)", PAGE, re.MULTILINE)


def test_kubectl_runs_the_plugin_in_a_session() -> None:
    assert re.search(r"^\$ kubectl framework \w+", PAGE, re.MULTILINE)


def test_page_has_no_path_of_the_machine_that_recorded_it() -> None:
    paths = re.findall(r"(?<![\w.])/(?:home|root|tmp|var|work|opt)\b\S*", PAGE)
    assert [path for path in paths if not path.startswith("/var/run/frameworkbarrier")] == []


@pytest.mark.parametrize(
    ("recorded", "now", "is_equal"),
    [
        ("    0.5s  worker/0  Running\n", "   12.5s  worker/0  Running\n", True),
        ("Created: 2026-01-01T00:00:00Z (2m ago)", "Created: 2026-01-02T03:04:05Z (7s ago)", True),
        ("train  10.1.0.7  30s\n", "train   10.1.0.12  9s\n", True),
        ("127.0.0.1:40137 -> 6006", "127.0.0.1:51 -> 6006", True),
        ("127.0.0.1:40137 -> 6006", "127.0.0.1:40137 -> 6007", False),
        ("train  0/3  30s", "train  1/3  30s", False),
        ("[exit code 1]", "[exit code 2]", False),
    ],
)
def test_comparison_leaves_out_times_and_addresses_only(
    recorded: str, now: str, *, is_equal: bool
) -> None:
    assert (normalize(recorded) == normalize(now)) == is_equal


def test_lines_of_tasks_that_changed_at_one_time_are_sorted() -> None:
    lines = ["    0.1s  worker/1  Running\n", "    0.2s  worker/0  Running\n"]
    assert hide_machine("".join(lines), "test-1") == "".join(reversed(lines))
    other = ["    0.1s  worker/1  Running\n", "    0.2s  worker/0  Ending\n"]
    assert hide_machine("".join(other), "test-1") == "".join(other)
