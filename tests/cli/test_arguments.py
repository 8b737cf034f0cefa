"""Command lines with a word for the kind, as users of kubectl write them."""

import click
import pytest

from cli.exitcodes import CliError, ExitCode
from cli.main import main


def read(*words: str) -> dict[str, object]:
    """Read the parameters of a command line."""
    with click.Context(main) as root:
        name, command, rest = main.resolve_command(root, list(words))
        assert command is not None
        return command.make_context(name, rest, parent=root).params


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("describe framework gang", "gang"),
        ("describe frameworks gang", "gang"),
        ("describe -n framework framework gang", "gang"),
        ("why gang", "gang"),
        ("why framework", "framework"),
        ("why framework/gang", "gang"),
        ("why Framework/gang", "gang"),
        ("logs framework worker", "framework"),
        ("logs fw gang worker/0", "gang"),
        ("exec framework gang worker/0 -- framework", "gang"),
        ("exec framework worker/0 -- ls", "framework"),
        ("port-forward framework gang worker/0 8080", "gang"),
        ("scale framework gang worker=3", "gang"),
        ("scale framework worker=3", "framework"),
        ("scale gang worker 3", "gang"),
        ("retry framework gang worker/0", "gang"),
        ("retry framework worker/0", "framework"),
    ],
)
def test_kind_is_left_out_where_it_cannot_be_the_name(words: str, name: str) -> None:
    assert read(*words.split())["name"] == name


@pytest.mark.parametrize("command", ["why", "get", "describe", "logs", "wait", "events", "tree"])
@pytest.mark.parametrize("name", ["", ".", "..", "framework/", "framework/.."])
def test_name_that_no_object_has_is_refused(command: str, name: str) -> None:
    with pytest.raises(CliError, match="is not a name of a Framework: use 1 to 63") as caught:
        read(command, name)
    assert caught.value.exit_code is ExitCode.USAGE


def test_option_in_front_of_the_command_is_told_its_place() -> None:
    with pytest.raises(click.UsageError) as caught:
        main.make_context("framework", ["--context", "nope", "get"])
    assert caught.value.format_message() == (
        "--context is in front of the command; write options after it: "
        "framework COMMAND --context ..."
    )
    with pytest.raises(click.NoSuchOption):
        main.make_context("framework", ["--nonsense"])


def test_word_after_the_dashes_stays() -> None:
    params = read("exec", "framework", "gang", "worker/0", "--", "echo", "framework")
    assert (params["task"], params["command"]) == ("worker/0", ("echo", "framework"))
    params = read("describe", "-n", "framework", "framework", "gang")
    assert params["namespace"] == "framework"


@pytest.mark.parametrize(
    "words", ["exec two-worker-0 ls", "retry two-worker-0", "port-forward two-worker-0 80"]
)
def test_name_of_a_pod_is_not_enough_and_the_task_is_offered(words: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        read(*words.split())
    text = caught.value.format_message()
    assert text.startswith("Missing argument")
    assert text.endswith(
        "if 'two-worker-0' is a name of a Pod, write NAME ROLE/INDEX in its place: two worker/0"
    )


def test_one_word_too_many_without_a_kind_is_bad_usage() -> None:
    with pytest.raises(click.UsageError, match="unexpected extra argument"):
        read("describe", "gang", "other")
