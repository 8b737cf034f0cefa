"""`framework inject` as a command: files in and out, notes, warnings and errors."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from tests.cli.authoring.injected import SPEC, build, get_spec, run_inject
from tests.support.servers.frameworkcrd import ROOT


def inject_text(framework: dict[str, Any], *words: str) -> Result:
    """Inject into a Framework on standard input, which succeeds."""
    done = run_inject(*words, "-", given=yaml.safe_dump(framework))
    assert done.exit_code == 0, done.stderr
    return done


def test_inject_with_an_account_of_the_user_says_that_it_gets_rights() -> None:
    framework = build()
    get_spec([framework])["serviceAccountName"] = "mine"
    stderr = inject_text(framework).stderr
    assert "serviceAccountName: mine, and so every Pod of this account" in stderr


def test_inject_wrapper_says_that_the_container_holds_the_token() -> None:
    assert "containers[0]: has the agent's token" in (
        inject_text(build(), "--rendezvous", "wrapper").stderr
    )
    assert "token" not in inject_text(build(), "--rendezvous", "sidecar").stderr


def test_inject_keeps_other_documents_and_long_texts(tmp_path: Path) -> None:
    source, target = ROOT / "examples" / "gang.yaml", tmp_path / "out.yaml"
    done = run_inject(str(source), "-o", str(target))
    assert done.exit_code == 0, done.stderr
    assert "injector.sh" in done.stderr
    documents = list(yaml.safe_load_all(target.read_text()))
    assert documents[0] == next(iter(yaml.safe_load_all(source.read_text())))
    assert re.search(r"^  train.py: \|", target.read_text(), re.MULTILINE)


def test_inject_faulty_file_names_the_field_and_writes_nothing(tmp_path: Path) -> None:
    source, target = tmp_path / "in.yaml", tmp_path / "out.yaml"
    source.write_text(yaml.safe_dump(build(taskNumber="two")))
    done = run_inject(str(source), "-o", str(target))
    assert done.exit_code == 2
    assert "spec.taskRoles[0].taskNumber" in done.stderr
    assert not target.exists()


def test_inject_output_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    source, target = tmp_path / "in.yaml", tmp_path / "no such directory" / "out.yaml"
    source.write_text(yaml.safe_dump(build()))
    done = run_inject(str(source), "-o", str(target))
    assert done.exit_code == 2
    assert done.stderr == (
        f"error: {target}: cannot be written: No such file or directory; "
        "give a file that you may write, in a directory that exists\n"
    )


def test_inject_says_which_field_it_changes() -> None:
    framework = build()
    get_spec([framework])["restartPolicy"] = "OnFailure"
    done = inject_text(framework)
    assert f"{SPEC}.restartPolicy: Never instead of OnFailure" in done.stderr
    assert get_spec(list(yaml.safe_load_all(done.stdout)))["restartPolicy"] == "Never"


@pytest.mark.parametrize(
    ("rendezvous", "expected"),
    [
        ("none", ["injector.sh"]),
        ("init", ["injector.sh", "current/env.sh"]),
        ("sidecar", ["injector.sh", "current/env.sh"]),
        ("wrapper", ["in their environment"]),
    ],
)
def test_inject_names_the_files_or_variables_that_have_the_peers(
    rendezvous: str, expected: list[str], tmp_path: Path
) -> None:
    output = str(tmp_path / "out.yaml")
    stderr = inject_text(build(), "--rendezvous", rendezvous, "-o", output).stderr
    ways = ["injector.sh", "current/env.sh", "in their environment"]
    assert [way for way in ways if way in stderr] == expected
    assert "warning" not in stderr


def test_inject_warns_of_faults_that_no_agent_mends() -> None:
    framework = build(frameworkAttemptCompletionPolicy={})
    get_spec([framework])["containers"][0]["args"] = [". /mnt/frameworkbarrier/current/env.sh"]
    done = inject_text(framework, "--rendezvous", "none")
    policy = "spec.taskRoles[0].frameworkAttemptCompletionPolicy.minFailedTaskCount"
    assert [line.split(": ")[:3] for line in done.stderr.splitlines()] == [
        ["warning", "standard input", path] for path in (f"{SPEC}.containers[0]", policy)
    ]
    assert list(yaml.safe_load_all(done.stdout))


def test_inject_warns_of_unknown_fields() -> None:
    framework = build(tasknumber=3)
    framework["spec"]["frobnicate"] = 1
    start, result = "warning: standard input: spec", "unknown field: the API server drops it"
    assert inject_text(framework).stderr.splitlines() == [
        f"{start}.frobnicate: {result}; remove it, or check its spelling (docs/api.md)",
        f"{start}.taskRoles[0].tasknumber: {result}; write `taskNumber`",
    ]


def test_inject_refuses_misspelt_fields_without_which_tasks_are_missing(tmp_path: Path) -> None:
    first, second = build(replicas=3), build(taskNumbr=3)
    second["metadata"]["name"] = "other"
    for framework in (first, second):
        del framework["spec"]["taskRoles"][0]["taskNumber"]
    target = tmp_path / "out.yaml"
    given = yaml.safe_dump_all([first, second], sort_keys=False)
    done = run_inject("-", "-o", str(target), given=given)
    assert (done.exit_code, done.stdout, target.exists()) == (2, "", False)
    start, lost = "error: standard input", "unknown field, so Tasks would be missing"
    question = "did you mean taskNumber?"
    lines = [str(number) for number, x in enumerate(given.splitlines(), 1) if x.endswith(": 3")]
    assert done.stderr.splitlines() == [
        f"{start}:{lines[0]}: Framework job: spec.taskRoles[0].replicas: {lost}; {question}",
        f"{start}:{lines[1]}: Framework other: spec.taskRoles[0].taskNumbr: {lost}; {question}",
    ]


def test_inject_opens_a_list_as_kubectl_prints_it() -> None:
    done = inject_text({"apiVersion": "v1", "kind": "List", "items": [build()]})
    assert "Framework" in [body["kind"] for body in yaml.safe_load_all(done.stdout)]
