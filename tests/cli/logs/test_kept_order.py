"""`framework logs` of a local cluster: the order of lines, their times, colours and prefixes."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli.exitcodes import ExitCode
from cli.main import main
from framework.clock import SystemClock
from localcluster.kubelet.logs import LogStore
from tests.cli.test_sessions import (
    build_role,
    call,
    finish,
    read_until,
    start,
    wait_for,
    write,
)


def keep(root: Path, index: int, *lines: str) -> None:
    labels = {"FC_FRAMEWORK_NAME": "gang", "FC_TASKROLE_NAME": "w", "FC_TASK_INDEX": f"{index}"}
    metadata = {"namespace": "default", "name": f"p{index}", "uid": f"u{index}", "labels": labels}
    pod = {"metadata": metadata, "spec": {"containers": [{"name": "main"}]}}
    store = LogStore(root / "logs", SystemClock())
    store.register_pod(pod)
    store.open_log(pod, "main").write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture
def state(tmp_path: Path) -> str:
    """Logs of w/0 and w/1 whose lines alternate."""
    keep(
        tmp_path,
        0,
        "2026-01-01T00:00:00.0Z stdout F one",
        "2026-01-01T00:00:02.0Z stdout P thr",
        "2026-01-01T00:00:02.5Z stdout F ee",
    )
    keep(tmp_path, 1, "2026-01-01T00:00:01.0Z stdout F two", "2026-01-01T00:00:03.0Z stdout F four")
    return str(tmp_path)


def read(state: str, *options: str, **env: str) -> Result:
    arguments = ["logs", "gang", "--directory", state, *options]
    return CliRunner().invoke(main, arguments, env=env)


def test_lines_of_several_tasks_are_in_the_order_of_their_times(state: str) -> None:
    result = read(state)
    assert result.exit_code == ExitCode.SUCCEEDED, result.output
    assert result.stdout.splitlines() == [
        "[w/0 main] one", "[w/1 main] two", "[w/0 main] three", "[w/1 main] four"
    ]  # fmt: skip
    assert read(state, "--raw").stdout == result.stdout


def test_timestamps_and_prefix(state: str) -> None:
    assert read(state, "--timestamps", "--no-prefix").stdout.splitlines() == [
        "2026-01-01T00:00:00.0Z one",
        "2026-01-01T00:00:01.0Z two",
        "2026-01-01T00:00:02.0Z three",
        "2026-01-01T00:00:03.0Z four",
    ]
    assert read(state, "w/0", "--prefix", "--tail", "1").stdout == "[w/0 main] ee\n"


def test_since_leaves_out_old_lines(state: str) -> None:
    assert read(state, "--since", "1h").stdout == ""
    assert read(state, "--since-time", "2026-01-01T00:00:00Z").stdout.count("\n") == 4


def test_more_logs_than_allowed_are_printed_one_after_the_other(state: str) -> None:
    result = read(state, "--max-log-requests", "1")
    assert [line[:5] for line in result.stdout.splitlines()] == ["[w/0 "] * 2 + ["[w/1 "] * 2
    assert "2 logs are printed one after the other" in result.stderr


@pytest.mark.parametrize(
    ("options", "env", "colored"),
    [
        ((), {}, False),
        (("--color", "always"), {}, True),
        (("--color", "always"), {"NO_COLOR": "1"}, True),
        ((), {"FORCE_COLOR": "1"}, True),
        ((), {"FORCE_COLOR": "0"}, False),
        ((), {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (("--color", "never"), {"FORCE_COLOR": "1"}, False),
    ],
)
def test_prefix_has_a_colour_if_it_is_wanted(
    state: str, options: tuple[str, ...], env: dict[str, str], *, colored: bool
) -> None:
    unset = {"NO_COLOR": "", "FORCE_COLOR": ""}
    shown = read(state, *options, **unset | env).stdout
    assert bool(re.match(r"\x1b\[\d+m\[w/0 main\]\x1b\[0m one\n", shown)) is colored
    assert ("\x1b" in shown) is colored


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (("--since-time", "yesterday"), "is not a time with a zone"),
        (("--since-time", "2026-01-01T00:00:00"), "is not a time with a zone"),
        (("--since-time", "0001-01-01T00:00:00+05:00"), "is not a time with a zone"),
        (("--since", "1m", "--since-time", "2026-01-01T00:00:00Z"), "leave one out"),
        (("-c", "main", "--all-containers"), "leave out --container"),
    ],
)
def test_options_that_cannot_work_are_refused(
    state: str, options: tuple[str, ...], fault: str
) -> None:
    result = read(state, *options)
    assert (result.exit_code, fault in result.stderr) == (ExitCode.USAGE, True), result.stderr


@pytest.mark.slow
@pytest.mark.local
def test_follow_shows_all_tasks_and_the_next_attempt(tmp_path: Path) -> None:
    names = ("go", "again", "end", "down")
    go, again, end, down = (tmp_path / name for name in names)
    retried = f"{{ test -e {again} || {{ touch {again}; exit 1; }}; {wait_for(end)}; }}"
    script = f'echo hello; {wait_for(go)}; test "$FC_TASK_INDEX" = 0 || {retried}; echo bye'
    # The other role keeps the cluster, and with it the API server, until the logs have ended.
    roles = [build_role("w", 2, script, retries=1), build_role("other", 1, wait_for(down))]
    file = write(tmp_path / "f.yaml", *roles)
    state = tmp_path / "state"
    with start("run", "--local", "--directory", str(state), file) as program:
        for _ in range(2):
            read_until(program, r"w/[01] +Running")
        env = {"KUBECONFIG": str(state / "kubeconfig")}
        code, output = call("logs", "gang", "w", "-f", "--max-log-requests", "1", **env)
        assert (code, "--max-log-requests 2" in output) == (ExitCode.USAGE, True), output
        with start("logs", "gang", "w", "-f", **env) as logs:
            seen = read_until(logs, "hello") + read_until(logs, "hello")
            go.touch()
            # The log of a container goes with its Pod: it must be open before.
            seen += read_until(logs, "hello")
            end.touch()
            seen += finish(logs)
        assert logs.returncode == ExitCode.SUCCEEDED, seen
        down.touch()
        finish(program)
    lines = seen.splitlines()
    assert sorted(lines) == [
        "--- w/1 attempt 1 ---",
        "[w/0] bye",
        "[w/0] hello",
        "[w/1] bye",
        "[w/1] hello",
        "[w/1] hello",
    ]
    assert lines.index("--- w/1 attempt 1 ---") < lines.index("[w/1] bye")
