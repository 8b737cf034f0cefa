"""Messages for words that mean a Task or a Pod, in the form of another program."""

import pytest

from cli.exitcodes import CliError, ExitCode
from cli.loglines.output import LogOptions
from cli.start.pods import parse_task
from cli.steer.targets import parse_tasks
from cli.texts.missing import explain_framework


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("worker-0", "ROLE/INDEX: worker/0"),
        ("worker:12", "ROLE/INDEX: worker/12"),
        ("worker[3]", "ROLE/INDEX: worker/3"),
        ("worker/03", "ROLE/INDEX: worker/3"),
        ("worker/0-2", "name each Task as ROLE/INDEX: worker/0 worker/1 worker/2"),
        ("worker[0:1]", "name each Task as ROLE/INDEX: worker/0 worker/1"),
        ("worker/0-99999", "ROLE/INDEX: worker/0 worker/1 worker/2 worker/3 ..."),
        ("worker", "name each Task of the role as ROLE/INDEX: worker/0 worker/1 ..."),
        ("worker/2-0", "write ROLE/INDEX, for example worker/3"),
    ],
)
def test_tasks_in_another_form_are_refused_with_the_form_that_works(word: str, meant: str) -> None:
    with pytest.raises(CliError) as caught:
        parse_tasks([word])
    assert str(caught.value).startswith(f"{word!r}: ")
    assert str(caught.value).endswith(meant)
    assert caught.value.exit_code is ExitCode.USAGE


@pytest.mark.parametrize(
    ("name", "word", "meant"),
    [
        ("two", "worker-0", "write it as worker/0"),
        ("two", "ps-3", "write it as ps/3"),
        ("two", "ps", "write it as ps/0"),
        ("two", "ps/1-3", "write it as ps/1"),
        ("my-gang-worker-0", "ls", "write NAME ROLE/INDEX in its place: my-gang worker/0"),
    ],
)
def test_exec_offers_the_task_that_was_meant(name: str, word: str, meant: str) -> None:
    with pytest.raises(CliError) as caught:
        parse_task(name, word)
    assert str(caught.value).startswith(f"{word!r} is not a Task")
    assert str(caught.value).endswith(meant)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("ps-3", "write it as ps or ps/3"),
        ("ps/0-2", "write ps for all Tasks of the role, or one of them: ps/0"),
        ("Worker-1", "write it as worker or worker/0"),
    ],
)
def test_logs_offers_the_role_and_the_task(word: str, meant: str) -> None:
    with pytest.raises(CliError) as caught:
        LogOptions(name="two", task=word).split_task()
    assert str(caught.value).endswith(meant)


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("two-worker-0", "; this is a name of a Pod: write two, and for its Task two worker/0"),
        ("pod/two-worker-0", "; this is a name of a Pod: write two, and for its Task two worker/0"),
        ("one-worker-0", ""),
        ("pods", "; this is another kind: use `kubectl get pods`"),
        ("svc/a", "; this is another kind: use `kubectl get svc/a`"),
        ("worker/0", "; if it is a Task, write its Framework in front: two worker/0"),
        ("worker-0", "; if it is a Task, write its Framework in front: two worker/0"),
        ("a/b", "; write NAME or framework/NAME"),
        ("tow", ""),
    ],
)
def test_word_that_is_no_framework_is_explained(word: str, hint: str) -> None:
    text = explain_framework(word, "in namespace default", ["two"])
    assert text == f"no Framework {word!r} in namespace default: there is two{hint}"
