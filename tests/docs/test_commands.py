"""Every command of README.md and docs/ is tested, and its program knows its options."""

import importlib.util
import os
import re
import shlex
import subprocess

import click
import pytest

from cli.main import main
from controller.app import main as controller_command
from tests.docs.commands import PAGES, ROOT, Command, list_commands, list_mentions
from tests.docs.covered import ByTest, find_how, list_covered
from tests.support.servers.binaries import find_kubectl
from tests.support.waiting import HANG_SECONDS

COMMANDS = list_commands()
MENTIONS = [mention for page in PAGES for mention in list_mentions(page)]
# In `framework state` and the like, a word after `framework` is a message of a log.
LOG_MESSAGES = {"framework state", "framework unreadable"}
KUBECTL = find_kubectl()


def split_pipe(text: str) -> list[list[str]]:
    """Split a line into its commands, without redirections and variables before them."""
    parts = re.split(r"\s(?:\|\||&&|\|)\s", text.partition(" > ")[0])
    return [shlex.split(part) for part in parts]


def list_calls(program: str) -> list[tuple[Command, list[str]]]:
    """List the calls of a program in blocks and mentions, except usage lines."""
    return [
        (command, words)
        for command in [*COMMANDS, *MENTIONS]
        if not command.is_usage and "<<" not in command.text and command.text not in LOG_MESSAGES
        for words in split_pipe(command.text)
        if words[0] == program
    ]


def name_call(call: object) -> str:
    return f"{call.page}: {call.text}" if isinstance(call, Command) else ""


def test_every_command_of_a_page_is_tested() -> None:
    missing = [command for command in COMMANDS if find_how(command) is None]
    assert missing == [], "add how they are tested to tests/docs/covered.py"


def test_every_command_of_the_table_is_on_its_page() -> None:
    assert [command for command in list_covered() if command not in COMMANDS] == []


def test_every_test_of_the_table_exists() -> None:
    for command in COMMANDS:
        how = find_how(command)
        if isinstance(how, ByTest):
            path, _, name = how.by.partition("::")
            text = (ROOT / path).read_text(encoding="utf-8")
            assert f"def {name}(" in text or not name, how.by
            if how.by == ".ci/run":
                assert re.search(rf"^(suite \S+ )?{command.text}$", text, re.MULTILINE), command


@pytest.mark.parametrize(("command", "words"), list_calls("framework"), ids=name_call)
def test_command_line_parses_the_call(command: Command, words: list[str]) -> None:
    found: click.Command | None = main
    context = click.Context(main, info_name="framework")
    arguments = words[1:]
    while arguments and isinstance(found, click.Group):
        found = found.get_command(context, arguments.pop(0))
    assert found is not None, command
    found.make_parser(context).parse_args(args=list(arguments))


@pytest.mark.parametrize(("command", "words"), list_calls("framework-controller"), ids=name_call)
def test_controller_parses_the_call(command: Command, words: list[str]) -> None:
    context = click.Context(controller_command, info_name="framework-controller")
    controller_command.make_parser(context).parse_args(args=words[1:])


def test_targets_of_make_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = {word for _, words in list_calls("make") for word in words[1:2]}
    assert called - targets == set()


def test_modules_of_python_exist() -> None:
    for command, words in list_calls("python"):
        assert words[1] == "-m", command
        assert importlib.util.find_spec(words[2]) is not None, command


# Files that the reader has, or writes as the page says.
FILES_OF_USERS = {"-", "old-crd.yaml", "install.yaml", "leave.yaml", "back.yaml"}
# A mention of a kind of call, not of one call.
INCOMPLETE = re.compile(r"kubectl (\w+|get -o yaml|create KIND|framework.*|wait --for=\S+)$")


@pytest.mark.slow
@pytest.mark.skipif(KUBECTL is None, reason="no kubectl: let make test-kube build it")
@pytest.mark.parametrize(
    "command",
    dict.fromkeys(
        shlex.join(words)
        for command, words in list_calls("kubectl")
        if not INCOMPLETE.match(command.text)
    ),
)
def test_kubectl_parses_the_call(command: str) -> None:
    assert KUBECTL is not None
    words = shlex.split(command)[1:]
    if "-f" in words and words[words.index("-f") + 1] in FILES_OF_USERS:
        words[words.index("-f") + 1] = "deploy/base/crd.yaml"
    if words[0] == "edit":
        words[0] = "get"
    # No server: kubectl parses the call, and then its connection is refused.
    ran = subprocess.run(
        [KUBECTL, "--server=http://127.0.0.1:1", f"--request-timeout={HANG_SECONDS}s", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=HANG_SECONDS,
        env={**os.environ, "KUBECONFIG": os.devnull},
    )
    assert ran.returncode == 0 or "127.0.0.1:1" in ran.stderr, ran.stderr
