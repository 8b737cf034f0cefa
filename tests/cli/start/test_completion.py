"""Completion: names of the cluster, in each shell and for kubectl, and silence on errors."""

import json
import os
import resource
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cli.catalog import SHELLS
from cli.clusterchoice import ClusterChoice
from cli.main import main
from cli.shells import complete_for_kubectl
from cli.start import livenames
from framework.kube.config import load_kube_config
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkserver import open_local_server
from tests.support.waiting import HANG_SECONDS

PROGRAM = str(Path(sys.executable).with_name("framework"))


@pytest.fixture
def shell_without_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for the names longer than a user at a shell would: a busy machine may need it."""
    for name in ("TIMEOUT_SECONDS", "PLUGIN_TIMEOUT_SECONDS"):
        monkeypatch.setattr(livenames, name, float(HANG_SECONDS))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    with open_local_server(tmp_path_factory.mktemp("api")) as access:
        http = access.open_http()
        for name, namespace in (("alpha", "default"), ("beta", "default"), ("gamma", "lab")):
            http.request(
                "POST", "/api/v1/namespaces", {"metadata": {"name": namespace}, "kind": "Namespace"}
            )
            path = f"/apis/frameworkcontroller.microsoft.com/v1/namespaces/{namespace}/frameworks"
            code, answer = http.request("POST", path, build_framework(name))
            assert code == 201, answer
        yield access


def build_framework(name: str) -> dict[str, Any]:
    def build_role(name: str, count: int, **more: Any) -> dict[str, Any]:
        containers = [{"name": "train", "image": "i"}, {"name": "log", "image": "i"}]
        spec = {"containers": containers if name == "worker" else containers[:1]}
        return {"name": name, "taskNumber": count, "task": {"pod": {"spec": spec}}, **more}

    return {
        "apiVersion": "frameworkcontroller.microsoft.com/v1",
        "kind": "Framework",
        "metadata": {"name": name},
        "spec": {"taskRoles": [build_role("ps", 1), build_role("worker", 3)]},
    }


def complete(server: Access | None, *words: str) -> list[str]:
    """Complete the last word as kubectl asks; return the names without their descriptions."""
    file = str(server.kubeconfig) if server else "/nonexistent"
    command, *rest = words
    *lines, directive = complete_for_kubectl(main, [command, "--kubeconfig", file, *rest])
    assert directive == (":6" if lines and lines[0].endswith("=") else ":4")
    return [line.partition("\t")[0] for line in lines]


@pytest.mark.local
@pytest.mark.usefixtures("shell_without_timeouts")
@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["logs", ""], ["alpha", "beta"]),
        (["logs", "b"], ["beta"]),
        (["logs", "framework/b"], ["framework/beta"]),
        (["logs", "-n", "lab", ""], ["gamma"]),
        (["logs", "alpha", ""], ["ps", "worker"]),
        (["logs", "alpha", "w"], ["worker", "worker/0", "worker/1", "worker/2"]),
        (["logs", "framework/alpha", "ps"], ["ps", "ps/0"]),
        (["logs", "alpha", "-c", ""], ["train", "log"]),
        (["logs", "alpha", "ps/0", "-c", ""], ["train"]),
        (["logs", "alpha", "worker", "--container", "l"], ["log"]),
        (["logs", "alpha", "worker", "--container=l"], ["--container=log"]),
        (["logs", "-n", "la"], ["lab"]),
        (["logs", "--context", ""], ["frameworkbarrier-local"]),
        (["logs", "other", ""], []),
        (["scale", "alpha", ""], ["ps=", "worker="]),
        (["scale", "alpha", "ps=2", "w"], ["worker="]),
        (["scale", "alpha", "ps="], []),
        (["exec", "alpha", "worker/"], ["worker/0", "worker/1", "worker/2"]),
        (["exec", "alpha", "ps/0", "-it", "-c", ""], ["train"]),
        (["logs", "--cont"], ["--container", "--context"]),
    ],
    ids=" ".join,
)
def test_completion_offers_the_names_of_the_cluster(
    server: Access, words: list[str], names: list[str]
) -> None:
    assert complete(server, *words) == names


@pytest.mark.parametrize(
    "words", [["logs", ""], ["logs", "a", ""], ["logs", "-n", ""], ["logs", "--context", ""]]
)
def test_completion_without_a_cluster_is_empty(words: list[str]) -> None:
    assert complete(None, *words) == []


def test_completion_offers_commands_with_their_help_and_files() -> None:
    assert complete_for_kubectl(main, ["log"]) == [
        "logs\tPrint the logs of a Framework's Tasks.",
        ":4",
    ]
    assert complete_for_kubectl(main, []) == complete_for_kubectl(main, [""])
    assert complete_for_kubectl(main, ["run", ""]) == [":0"]


class Answering(BaseHTTPRequestHandler):
    """Gives one answer to everything."""

    answer = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.answer)))
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serve(answer: bytes, folder: Path) -> Iterator[ClusterChoice]:
    handler = type("One", (Answering,), {"answer": answer})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield ClusterChoice(write_kubeconfig(folder, server.server_port))
        finally:
            server.shutdown()
            thread.join()


def write_kubeconfig(folder: Path, port: int, **user: Any) -> str:
    name = "arn:aws:eks:eu:1:cluster/a"
    context = {"cluster": "c", "user": "u"}
    config = {
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": each, "context": context} for each in (name, "$(reboot)", "b c")],
        "current-context": name,
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    return str(path)


@pytest.mark.usefixtures("shell_without_timeouts")
@pytest.mark.parametrize(
    "answer",
    [
        *(b"", b"[]", b"{}", b"[" * 99999, b'{"spec": {"taskRoles": [{"name": 7}]}}'),
        *(b'{"rows": 7, "metadata": {}}', b'{"rows": [{"cells": []}], "metadata": {}}'),
    ],
)
def test_names_in_a_broken_answer_are_none(answer: bytes, tmp_path: Path) -> None:
    with serve(answer, tmp_path) as choice:
        assert livenames.list_frameworks(choice) == []
        assert livenames.read_roles(choice, "alpha") == {}


@pytest.mark.usefixtures("shell_without_timeouts")
def test_names_that_a_shell_would_interpret_are_left_out(tmp_path: Path) -> None:
    names = ["fine", "$(reboot)", "a b", "x;y", "line\nend", "*"]
    table = {"metadata": {}, "rows": [{"cells": [name]} for name in names]}
    with serve(json.dumps(table).encode(), tmp_path) as choice:
        assert livenames.list_frameworks(choice) == ["fine"]
        assert livenames.list_contexts(choice) == ["arn:aws:eks:eu:1:cluster/a"]


@pytest.mark.usefixtures("shell_without_timeouts")
def test_credential_plugin_is_run_without_the_terminal(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    credential = {"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1"}
    reply = shlex.quote(json.dumps({**credential, "status": {"token": "t"}}))
    script = f"readlink /proc/self/fd/0 > {seen}; echo {reply}"
    spec = {"command": "sh", "args": ["-c", script], "interactiveMode": "IfAvailable"}
    table = {"metadata": {}, "rows": [{"cells": ["alpha"]}]}
    with serve(json.dumps(table).encode(), tmp_path) as choice:
        port = int(load_kube_config(None, choice.kubeconfig, {}).server.rpartition(":")[2])
        write_kubeconfig(tmp_path, port, exec={**spec, "apiVersion": credential["apiVersion"]})
        assert livenames.list_frameworks(choice) == ["alpha"]
    assert seen.read_text() == "/dev/null\n"


# The variables of a bash when the user presses TAB at the end of the line.
BASH = """
source <(framework completion bash)
COMP_LINE=$1 COMP_POINT=${#1}
_framework_completion framework
printf '%s\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("framework lo", ["logs", "local"]),
        ("X=1 framework local u", ["up"]),
        ("framework logs --context arn:aws:e", ["eks:eu:1:cluster/a"]),
        ("framework logs --context=arn:", ["aws:eks:eu:1:cluster/a"]),
        ("framework logs 'a b", [""]),
        ("framework run --isolation ", ["auto", "root", "paths"]),
    ],
)
def test_bash_replaces_its_part_of_the_word(line: str, names: list[str], tmp_path: Path) -> None:
    kubeconfig = write_kubeconfig(tmp_path, 1)
    path = os.pathsep.join([str(Path(PROGRAM).parent), os.environ["PATH"]])
    ran = subprocess.run(
        ["bash", "-c", BASH, "bash", line],
        env={**os.environ, "KUBECONFIG": kubeconfig, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    # A shell without line editing has no programmable completion to change.
    assert (ran.stdout.splitlines(), ran.stderr) == (names, "")


@pytest.mark.parametrize("shell", SHELLS)
def test_script_is_valid_in_its_shell(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed: apt-get install {shell}")
    script = subprocess.run(
        [PROGRAM, "completion", shell], capture_output=True, text=True, check=True
    ).stdout
    assert "_FRAMEWORK_COMPLETE" in script
    subprocess.run(
        [shell, "--no-execute" if shell == "fish" else "-n"], input=script, text=True, check=True
    )


def list_modules(*arguments: str, **env: str) -> set[str]:
    """Run the program and list the modules that it imports."""
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "cli", *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **env},
    )
    lines = (line for line in ran.stderr.splitlines() if line.startswith("import time:"))
    return {line.rpartition("|")[2].strip() for line in lines}


# Each takes longer to import than a completion or a help text may take.
SLOW = {
    *("aiohttp", "asyncio", "rich", "cryptography", "uvloop", "msgspec", "http.client"),
    *("concurrent.futures", "email", "multiprocessing", "subprocess", "tempfile", "urllib.request"),
    *("cli.printing.output", "cli.printing.jsonpath_parser", "decimal"),
}


@pytest.mark.parametrize("arguments", [["--help"], ["logs", "--help"], ["version"]], ids=" ".join)
def test_help_imports_no_slow_module(arguments: list[str]) -> None:
    assert list_modules(*arguments) & {*SLOW, "yaml", "ssl"} == set()


@pytest.mark.parametrize(
    "line",
    [
        *("framework logs ", "framework logs a ", "framework exec a ", "framework scale a "),
        *("framework get -n ", "framework exec a worker/0 -c "),
    ],
)
def test_completion_imports_no_slow_module(line: str, tmp_path: Path) -> None:
    kubeconfig = write_kubeconfig(tmp_path, 1)
    modules = list_modules(
        COMP_LINE=line,
        COMP_POINT=str(len(line)),
        _FRAMEWORK_COMPLETE="bash_complete",
        KUBECONFIG=kubeconfig,
    )
    assert "cli.start.livenames" in modules
    assert modules & {*SLOW, "logging"} == set()


def measure_cpu(command: list[str], env: dict[str, str]) -> float:
    """Return the CPU seconds of a program, which must succeed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env={**os.environ, **env}, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


# On a machine where a Python that does nothing takes 12 ms, this is 150 ms.
MOST_IDLE_PYTHONS = 12


def test_completion_costs_little_more_than_a_python_that_does_nothing(server: Access) -> None:
    line = "framework exec alpha "
    env = {
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "_FRAMEWORK_COMPLETE": "bash_complete",
        "KUBECONFIG": server.kubeconfig,
    }
    # Another program can make a run dearer, never cheaper.
    costs, idle = [], []
    for _ in range(10):
        costs.append(measure_cpu([PROGRAM], env))
        idle.append(measure_cpu([sys.executable, "-c", "pass"], {}))
        if min(costs) <= MOST_IDLE_PYTHONS * min(idle):
            return
    raise AssertionError(f"{min(costs):.3f} s is over {MOST_IDLE_PYTHONS} times {min(idle):.3f} s")
