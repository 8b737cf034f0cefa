"""Bad input: the message names field and remedy, the exit code is the documented one."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli import session
from cli.exitcodes import ExitCode
from framework.kube.config import load_kube_config
from localcluster.cluster import LocalCluster, PartFailedError
from tests.cli.calls import FRAMEWORK, call, check_refusal, keep_log, write, write_kubeconfig

pytestmark = pytest.mark.usefixtures("home")

ROOT = Path(__file__).parents[2]
CONFIGMAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"


@pytest.fixture
def closed_server() -> Iterator[str]:
    """The address of a server that does not listen; no other program can take its port."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "f.yaml:1:5: while parsing a flow node"),
        (FRAMEWORK.replace("Number: 1", "Number: x"), "f.yaml: spec.taskRoles[0].taskNumber: "),
        (None, "f.yaml: cannot be read: No such file or directory; give a readable YAML file\n"),
    ],
    ids=["yaml", "type", "missing"],
)
@pytest.mark.parametrize("place", [["--local", "--directory", "state"], []], ids=["local", "none"])
def test_run_of_a_bad_file_names_its_fault_and_starts_no_cluster(
    text: str | None, message: str, place: list[str]
) -> None:
    if text is not None:
        write(text)
    result = call("run", *place, "f.yaml")
    assert result.exit_code == ExitCode.USAGE
    assert result.stderr.startswith(f"error: {message}")
    assert not Path("state").exists()


@pytest.mark.parametrize("has_other", [False, True])
def test_run_with_a_stale_kubeconfig_variable_names_it_and_the_cluster_it_uses(
    monkeypatch: pytest.MonkeyPatch, closed_server: str, home: Path, *, has_other: bool
) -> None:
    write(FRAMEWORK)
    monkeypatch.setenv("KUBECONFIG", "/gone/config")
    if has_other:
        (home / ".kube").mkdir()
        write_kubeconfig(closed_server, ".kube/config")
    result = call("run", "f.yaml")
    kind = "warning" if has_other else "error"
    assert result.stderr.startswith(f"{kind}: $KUBECONFIG: no such file: /gone/config; ")
    if has_other:
        assert f"now using {closed_server}\n" in result.stderr
    else:
        assert result.exit_code == ExitCode.USAGE
        assert "no cluster is configured" not in result.stderr


def test_stale_kubeconfig_variable_while_a_local_cluster_runs_names_its_kubeconfig(
    monkeypatch: pytest.MonkeyPatch, closed_server: str, home: Path
) -> None:
    config = load_kube_config(None, write_kubeconfig(closed_server), {})
    running = session.LocalCluster(config, home, home)
    monkeypatch.setattr("cli.session.list_local_clusters", lambda: [running])
    monkeypatch.setenv("KUBECONFIG", "/gone/config")
    result = call("get")
    assert result.exit_code == ExitCode.USAGE
    assert result.stderr == (
        "error: $KUBECONFIG: no such file: /gone/config; a local cluster runs: to use it, run "
        f"`export KUBECONFIG={home}`\n"
    )


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        ("run f.yaml", "without a cluster, `framework run --local FILE` makes one"),
        (
            "logs gang worker",
            (
                "logs of a local cluster stay after its end; to read them: "
                "`framework logs gang worker --directory DIR`"
            ),
        ),
    ],
)
def test_command_without_any_cluster_says_what_to_do(arguments: str, remedy: str) -> None:
    write(FRAMEWORK)
    result = call(*arguments.split())
    assert result.exit_code == ExitCode.USAGE
    assert result.stderr == (
        "error: no cluster is configured: name a kubeconfig with --kubeconfig or $KUBECONFIG, or "
        f"create ~/.kube/config\nerror: {remedy}\n"
    )


def test_run_with_an_unreachable_server_names_it(closed_server: str) -> None:
    write(FRAMEWORK)
    result = call("run", "--kubeconfig", write_kubeconfig(closed_server), "f.yaml")
    message = f"the API server {closed_server} cannot be reached"
    check_refusal(result, message, "check --kubeconfig", code=ExitCode.UNREACHABLE)


@pytest.mark.parametrize(
    ("text", "message"),
    [("a: [", "kubeconfig"), ("{}", "kubeconfig"), (None, "absent")],
    ids=["no-yaml", "empty", "missing"],
)
def test_run_with_a_bad_kubeconfig_names_it(text: str | None, message: str) -> None:
    write(FRAMEWORK)
    if text is not None:
        Path("kubeconfig").write_text(text)
    result = call("run", "--kubeconfig", "absent" if text is None else "kubeconfig", "f.yaml")
    check_refusal(result, message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "Missing argument 'FILE...'"),
        (["run", "--timeout", "soon", "f"], "'soon' is not a time span; write it for example 90s"),
        (["run", "--timeout", "-1s", "f"], "'-1s' is not a positive time span"),
        (["run", "--local", "--kubeconfig", "x", "f"], "leave out --kubeconfig"),
        (["run", "--directory", "x", "f"], "--directory is for --local"),
        (["run", "--no-such-option", "f"], "No such option"),
        (["local", "up", "--port", "70000"], "70000 is not in the range"),
        (["logs", "gang", "Worker-1"], "'Worker-1' is not a Task: write it as worker or worker/0"),
        (["frobnicate"], "No such command"),
        (["runn"], "Did you mean 'run'?"),
        (["apply", "-f", "f"], "No such command 'apply': `framework run FILE` applies"),
        (["help"], "No such command 'help': write `framework --help`"),
        (["run", "-f", "f"], "No such option '-f'. Write the file without it: "),
        (["lint", "-f", "f"], "No such option '-f'. Write the file without it: "),
        (["get", "-f", "f"], "No such option '-f'.\n"),
        (["completion"], "'{bash|zsh|fish}'. Choose from: bash, zsh, fish\n"),
        (["scale", "worker=3"], "of a-z, 0-9 and '-'; write the Framework in front of it: NAME wo"),
        ([], "\nThis machine:\n"),
        (["local"], "\nCommands:\n"),
        (["run", "--local", "-n", "My_NS", "f"], "--namespace: 'My_NS' is not a valid namespace: "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_call_with_bad_arguments_names_the_remedy(arguments: list[str], message: str) -> None:
    check_refusal(call(*arguments), message)


def test_run_whose_local_cluster_fails_is_no_failed_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise PartFailedError("the controller ended")

    monkeypatch.setattr(LocalCluster, "__aenter__", fail)
    write(FRAMEWORK.replace("busybox", "busybox, command: [sleep]"))
    result = call("run", "--local", "--directory", "state", "f.yaml")
    assert (result.exit_code, result.stderr) == (
        ExitCode.UNREACHABLE,
        "error: the controller ended\n",
    )


@pytest.mark.parametrize("command", ["run", "lint", "inject"])
@pytest.mark.parametrize(("text", "kinds"), [("", ""), (CONFIGMAP, " (it has: ConfigMap)")])
def test_file_without_a_framework_is_an_error_that_names_its_kinds(
    command: str, text: str, kinds: str
) -> None:
    write(text)
    result = call(command, "f.yaml")
    assert (result.exit_code, result.stdout) == (ExitCode.USAGE, "")
    assert result.stderr.startswith(f"error: f.yaml: no Framework in it{kinds}: give a file with")


def test_lint_names_the_kinds_in_a_file_that_it_skips() -> None:
    write(FRAMEWORK)
    Path("other.yaml").write_text(CONFIGMAP)
    result = call("lint", "f.yaml", "other.yaml")
    assert (result.exit_code, result.stdout) == (ExitCode.SUCCEEDED, "nothing found\n")
    assert result.stderr == "note: other.yaml: no Framework in it, skipped: ConfigMap\n"


MAIN_POD = "spec.taskRoles[0].task.pod.spec"


@pytest.mark.parametrize(
    ("arguments", "before", "after", "message"),
    [
        (["run"], "Number: 1", "Number: -1", "error: {}: spec.taskRoles[0].taskNumber: must be"),
        (["lint"], "Number: 1", "Number: -1", "error: {}: spec.taskRoles[0].taskNumber: must be"),
        (["inject"], "Number: 1", "Number: -1", "error: {}: spec.taskRoles[0].taskNumber: must be"),
        (["inject", "--dns"], "gang2", "2nd", "error: {}: metadata.name: 2nd begins with a digit"),
        (["inject"], "Never", "Always", f"note: {{}}: {MAIN_POD}.restartPolicy: Never instead"),
    ],
    ids=["run", "lint", "inject", "inject-agents", "inject-note"],
)
def test_message_on_a_later_document_names_its_line_and_path(
    arguments: list[str], before: str, after: str, message: str
) -> None:
    later = FRAMEWORK.replace("gang", "gang2").replace(before, after)
    write(f"{FRAMEWORK}---\n{later}")
    result = call(*arguments, "f.yaml")
    changed = [n for n, line in enumerate(later.splitlines()) if after in line][-1]
    name = "2nd" if after == "2nd" else "gang2"
    expected = message.format(
        f"f.yaml:{len(FRAMEWORK.splitlines()) + 2 + changed}: Framework {name}"
    )
    assert result.stderr.splitlines()[0].startswith(expected)


@pytest.mark.parametrize("command", ["lint", "inject"])
def test_framework_whose_kind_is_misspelt_is_an_error(command: str) -> None:
    write(FRAMEWORK.replace("kind: Framework", "kind: framework"))
    result = call(command, "f.yaml")
    assert (result.exit_code, result.stdout) == (ExitCode.USAGE, "")
    assert result.stderr == "error: f.yaml: kind: is 'framework'; write Framework\n"


def test_run_of_a_container_without_image_is_refused(closed_server: str) -> None:
    write(FRAMEWORK.replace("image:", "imagee:"))
    result = call("run", "f.yaml", "--kubeconfig", write_kubeconfig(closed_server))
    fault = f"error: f.yaml: {MAIN_POD}.containers[0].image: is missing: "
    remedy = "the API server refuses the Pod; write `image` for `imagee`\n"
    assert (result.exit_code, result.stderr) == (ExitCode.USAGE, fault + remedy)


@pytest.mark.parametrize("command", [["run", "f.yaml"], ["logs", "gang"]], ids=["run", "logs"])
def test_unknown_context_is_no_missing_cluster(home: Path, command: list[str]) -> None:
    write(FRAMEWORK)
    keep_log(home / ".local/state/frameworkbarrier", "u0")
    file = write_kubeconfig("http://127.0.0.1:1")
    result = call(*command, "--kubeconfig", file, "--context", "nope")
    assert (result.exit_code, result.stdout) == (ExitCode.USAGE, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: context: 'nope' is not among the contexts of the file; use one")


def test_run_local_without_dashes_has_a_hint() -> None:
    write(FRAMEWORK)
    result = call("run", "local", "f.yaml")
    assert result.exit_code == ExitCode.USAGE
    assert "to run on a new local cluster, write `framework run --local FILE`" in result.stderr


def test_help_of_run_lists_the_exit_codes() -> None:
    text = " ".join(call("run", "--help").stdout.split())
    for code in ExitCode:
        assert f" {int(code)} " in text


@pytest.mark.parametrize("arguments", [[], ["local"]])
def test_help_of_a_group_is_not_cut(arguments: list[str]) -> None:
    assert "..." not in call(*arguments, "--help").stdout.partition("Commands:")[2]


@pytest.mark.parametrize("command", ["lint", "inject"])
def test_empty_standard_input_is_named(command: str) -> None:
    result = call(command, "-")
    assert result.exit_code == ExitCode.USAGE
    assert result.stderr.startswith("error: standard input: no Framework in it: ")


@pytest.mark.parametrize("command", ["lint", "inject"])
def test_framework_twice_in_a_file_is_an_error(command: str) -> None:
    write(f"{FRAMEWORK}---\n{FRAMEWORK}")
    result = call(command, "f.yaml")
    assert (result.exit_code, result.stdout) == (ExitCode.USAGE, "")
    assert result.stderr == "error: f.yaml:10: framework/gang is also in f.yaml:1: keep one\n"


@pytest.mark.parametrize(
    "command", ["lint f.yaml", "inject f.yaml", "--help", "get --help", "--version"]
)
def test_output_to_a_full_disk_is_an_error_of_one_line(command: str) -> None:
    write(FRAMEWORK)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "cli.main", *command.split()],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    assert done.returncode == ExitCode.USAGE
    *warnings, last = done.stderr.splitlines()
    assert last == "error: cannot write: No space left on device; make room for it"
    assert all(line.startswith("warning: ") for line in warnings)


@pytest.mark.parametrize("place", [["--local", "--directory", "state"], []], ids=["local", "none"])
def test_dry_run_of_the_files_needs_no_cluster_and_starts_none(
    home: Path, place: list[str]
) -> None:
    write(FRAMEWORK.replace("image: busybox", "image: busybox, command: [ls]"))
    result = call("run", "--dry-run=client", *place, "f.yaml")
    line = "framework.frameworkcontroller.microsoft.com/gang created (dry run)\n"
    assert (result.exit_code, result.stdout) == (ExitCode.SUCCEEDED, line), result.stderr
    assert not (home / "state").exists()


def test_dry_run_by_a_server_needs_one() -> None:
    write(FRAMEWORK)
    check_refusal(call("run", "--dry-run=server", "f.yaml"), "no cluster is configured")
    refused = call("run", "--local", "--dry-run=server", "f.yaml")
    check_refusal(refused, "--local has no server yet: write --dry-run=client")
