"""docs/ has the commands, options and settings of the programs."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from cli.exitcodes import ExitCode
from cli.main import main
from controller.config.config_file import load_config

ROOT = Path(__file__).parents[2]


def read(name: str) -> str:
    return (ROOT / name).read_text()


def read_cli_pages() -> str:
    """Read docs/cli.md and the pages of groups of commands, docs/cli-*.md."""
    return "\n".join(page.read_text() for page in sorted((ROOT / "docs").glob("cli*.md")))


def walk(command: click.Command, path: str = "framework") -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            member = command.get_command(context, name)
            assert member is not None
            yield from walk(member, f"{path} {name}")
    else:
        yield path, command


COMMANDS = dict(walk(main))
# docs/cli.md, "Which cluster", has them once.
CLUSTER_OPTIONS = {"--namespace", "--kubeconfig", "--context"}


def list_options(command: click.Command) -> set[str]:
    return {
        option
        for parameter in command.params
        # A hidden option is only there for its error, which names the right one.
        if isinstance(parameter, click.Option) and not parameter.hidden
        for option in (*parameter.opts, *parameter.secondary_opts)
    }


def list_calls(text: str) -> Iterator[str]:
    for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
        for line in re.sub(r"\n {10,}", " ", block).splitlines():
            if line.startswith("framework "):
                yield line.partition("#")[0].strip()


def test_cli_doc_has_the_exit_codes_of_the_program() -> None:
    section = read("docs/cli.md").partition("## Exit codes")[2].partition("\n## ")[0]
    codes = [int(code) for code in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)]
    assert codes == [int(code) for code in ExitCode]


@pytest.mark.parametrize("path", COMMANDS)
def test_cli_doc_has_every_option(path: str) -> None:
    text = read_cli_pages()
    assert f"`{path}`" in text
    usage = " ".join(call for call in list_calls(text) if call.startswith(path))
    long_options = {o for o in list_options(COMMANDS[path]) if o.startswith("--")}
    if "[cluster options]" in usage:
        long_options -= CLUSTER_OPTIONS
    assert {o for o in long_options if o not in usage} == set()


def test_usage_in_the_cli_doc_has_only_existing_commands_and_options() -> None:
    # Calls in all pages: tests/docs/test_commands.py
    for call in list_calls(read_cli_pages()):
        path = next((p for p in COMMANDS if call.startswith(p)), None)
        assert path is not None, call
        words = shlex.split(re.sub(r"[\[\]]", " ", call))
        used = {word.partition("=")[0] for word in words if word.startswith("-")}
        assert used - list_options(COMMANDS[path]) - {"-", "--"} == set(), call


def test_config_doc_has_every_key_with_its_default(tmp_path: Path) -> None:
    keys = re.findall(r"^\| `([a-zA-Z.]+)` \|", read("docs/config.md"), re.MULTILINE)
    config_keys = [
        key for key in keys if key.split(".")[0] not in ("code", "phrase", "type", "podPatterns")
    ]
    file = tmp_path / "unknown.yaml"
    file.write_text("x: 1\n")
    (warning,) = load_config(str(file), {}, strict=False).warnings
    known = set(warning.message.rpartition("known here: ")[2].split(", "))
    assert {key.split(".")[0] for key in config_keys} == known


def test_config_doc_example_is_valid(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", read("docs/config.md"), re.DOTALL)
    file = tmp_path / "config.yaml"
    file.write_text(example)
    assert load_config(str(file), {}, strict=True).config.pod_failure_rules[0].code == 221
