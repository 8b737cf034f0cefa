import pytest

from cli.exitcodes import CliError, ExitCode
from cli.steer.targets import parse_names, parse_sizes, parse_tasks, suggest_size
from framework.api.naming import TaskKey


@pytest.mark.parametrize(
    "word",
    ["gang", "framework/gang", "frameworks/gang", "fw/gang", "Framework/gang"]
    + [f"{kind}.frameworkcontroller.microsoft.com/gang" for kind in ("framework", "frameworks")],
)
def test_name_may_have_its_kind_as_in_kubectl(word: str) -> None:
    assert parse_names([word, "gang", "other"]) == ["gang", "other"]


@pytest.mark.parametrize("word", ["pod/gang", "", "framework/", "../x", "Gang", "a/b/c", "."])
def test_word_that_names_no_framework_is_refused(word: str) -> None:
    with pytest.raises(CliError) as caught:
        parse_names([word])
    assert caught.value.exit_code is ExitCode.USAGE


def test_sizes_are_read_by_role() -> None:
    assert parse_sizes(["worker=8", "ps=0"]) == {"worker": 8, "ps": 0}


@pytest.mark.parametrize(
    "words",
    [
        *([word] for word in ("worker", "=3", "worker=", "worker=-1", "worker=1.5", "worker=٣")),
        ["worker=01"],
        ["worker=1", "worker=2"],
        ["worker=" + "9" * 5000],
    ],
)
def test_size_of_another_form_is_refused(words: list[str]) -> None:
    with pytest.raises(CliError, match=r"ROLE=N|named twice") as caught:
        parse_sizes(words)
    assert caught.value.exit_code is ExitCode.USAGE


def test_tasks_are_read_once_each() -> None:
    assert parse_tasks(["worker/3", "ps/0", "worker/3"]) == [TaskKey("worker", 3), TaskKey("ps", 0)]


@pytest.mark.parametrize("word", ["worker", "worker/", "/3", "worker/-1", "worker/x", "worker/1/2"])
def test_task_of_another_form_is_refused(word: str) -> None:
    with pytest.raises(CliError, match="ROLE/INDEX"):
        parse_tasks([word])


ROLES = {"ps": 1, "worker": 4}


@pytest.mark.parametrize(
    ("words", "roles", "size", "note"),
    [
        (["worker", "3"], ROLES, "worker=3", ""),
        (["3"], {"worker": 4}, "worker=3", ""),
        ([], {"worker": 4}, "worker=N", ""),
        (["worker=+1"], ROLES, "worker=N", ""),
        (["3"], ROLES, "ROLE=3", "; its roles are ps (1), worker (4)"),
        (["1", "2"], ROLES, "ROLE=N", "; its roles are ps (1), worker (4)"),
        (["3"], {}, "ROLE=3", "; it has no roles"),
        (
            ["3"],
            {f"r{n}": n for n in range(1000)},
            "ROLE=3",
            "; its roles are " + ", ".join(f"r{n} ({n})" for n in range(10)) + " and 990 more",
        ),
    ],
)
def test_words_of_another_form_suggest_a_size(
    words: list[str], roles: dict[str, int], size: str, note: str
) -> None:
    assert suggest_size(words, roles) == (size, note)
