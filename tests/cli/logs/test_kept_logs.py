"""`framework logs` of a cluster that is down: it prints the logs that were kept."""

import json
from pathlib import Path

import pytest

from cli.exitcodes import ExitCode
from tests.cli.calls import call, keep_log

pytestmark = pytest.mark.usefixtures("home")


@pytest.mark.parametrize(
    ("pods", "titles"),
    [
        ([("u0", 10, "0"), ("u1", 11, "1")], ["framework-attempt 0", "framework-attempt 1"]),
        ([("a", 10, "0"), ("b", 11, "0")], ["since 10:00:00 UTC", "since 11:00:00 UTC"]),
        ([("a", 10, "0"), ("b", 10, "0")], [f"since 10:00:00 UTC, Pod {uid}" for uid in "ab"]),
    ],
    ids=["framework-attempts", "pods", "pods-of-one-second"],
)
def test_logs_of_several_pods_of_a_task_have_different_titles(
    home: Path, pods: list[tuple[str, int, str]], titles: list[str]
) -> None:
    for uid, hour, attempt in pods:
        stored = keep_log(home / "state", uid, attempt=attempt) / "pod.json"
        started = {"startedAt": f"2026-01-01T{hour}:00:00+00:00"}
        stored.write_text(json.dumps({**json.loads(stored.read_text()), **started}))
    result = call("logs", "gang", "--directory", "state")
    assert result.stdout.splitlines() == [
        f"[worker/0 train {title}] at {attempt}"
        for title, (_, _, attempt) in zip(titles, pods, strict=True)
    ]


def test_logs_of_a_cluster_that_is_down_are_printed(home: Path) -> None:
    keep_log(home / "frameworkbarrier", "u")
    result = call("logs", "gang")
    assert (result.exit_code, result.stdout) == (ExitCode.SUCCEEDED, "at 0\n")
    assert f"printing the logs kept in {home / 'frameworkbarrier'}" in result.stderr
    assert call("logs", "gang", "--directory", str(home / "frameworkbarrier")).stdout == "at 0\n"


@pytest.fixture
def kept(home: Path) -> None:
    """Logs of gang: worker/0 and worker/1, each with a barrier and a container train."""
    for index in range(2):
        lines = [(name, f"{name} {index}") for name in ("barrier", "train")]
        keep_log(home / "state", "u", *lines, index=index)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gong"], "no Framework 'gong' in state (namespace default): there is gang"),
        (["gang", "chief"], "Framework gang has no role 'chief': its Tasks are worker/0-1"),
        (["gang", "worker/7"], "Framework gang has no Task worker/7: its Tasks are worker/0-1"),
        (["gang", "-c", "x"], "gang has no container 'x': there are barrier, train"),
        (
            ["gang", "worker/1", "--previous"],
            'worker/1 train: previous terminated container "train" in pod "p1" not found',
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
@pytest.mark.usefixtures("kept")
def test_logs_of_an_unknown_name_lists_the_known_names(arguments: list[str], message: str) -> None:
    result = call("logs", *arguments, "--directory", "state")
    assert result.exit_code == ExitCode.FAILED
    assert result.stderr == f"error: {message}\n"


@pytest.mark.usefixtures("kept")
def test_logs_without_container_leaves_out_init_containers() -> None:
    result = call("logs", "gang", "worker/0", "--directory", "state")
    assert (result.exit_code, result.stdout) == (0, "train 0\n")


def test_logs_with_a_directory_without_them_says_so() -> None:
    result = call("logs", "gang", "--directory", "state")
    assert result.exit_code == ExitCode.FAILED
    assert result.stderr == (
        "error: --directory: state does not exist: give the one that `run --local` named\n"
    )
