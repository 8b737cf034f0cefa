"""`framework inject` as a command: files in and out, notes, warnings and errors."""

import re
from typing import Any

import pytest
import yaml

from tests.cli.authoring.injected import build, get_spec, run_inject
from tests.support.servers.frameworkcrd import ROOT


def test_inject_says_that_an_account_of_the_users_own_gets_rights() -> None:
    framework = build()
    get_spec([framework])["serviceAccountName"] = "mine"
    done = run_inject("-", given=yaml.safe_dump(framework))
    assert done.exit_code == 0, done.stderr
    assert "serviceAccountName: mine, and so every Pod of this account" in done.stderr


def test_inject_wrapper_says_that_the_command_holds_the_token() -> None:
    def run(rendezvous: str) -> str:
        done = run_inject("--rendezvous", rendezvous, "-", given=yaml.safe_dump(build()))
        assert done.exit_code == 0, done.stderr
        return done.stderr

    assert "containers[0]: holds the agent's token" in run("wrapper")
    assert "token" not in run("sidecar")


def test_inject_command_keeps_other_documents_and_long_texts(tmp_path: Any) -> None:
    source = ROOT / "examples" / "gang.yaml"
    target = tmp_path / "out.yaml"
    done = run_inject(str(source), "-o", str(target))
    assert done.exit_code == 0, done.stderr
    assert "injector.sh" in done.stderr
    documents = list(yaml.safe_load_all(target.read_text()))
    assert documents[0] == next(iter(yaml.safe_load_all(source.read_text())))
    assert re.search(r"^  train.py: \|", target.read_text(), re.MULTILINE)


def test_inject_command_faulty_file_says_where_and_writes_nothing(tmp_path: Any) -> None:
    source, target = tmp_path / "in.yaml", tmp_path / "out.yaml"
    source.write_text(yaml.safe_dump(build(taskNumber="two")))
    done = run_inject(str(source), "-o", str(target))
    assert done.exit_code == 2
    assert "spec.taskRoles[0].taskNumber" in done.stderr
    assert not target.exists()


def test_inject_command_output_that_cannot_be_written_is_named(tmp_path: Any) -> None:
    source, target = tmp_path / "in.yaml", tmp_path / "no such directory" / "out.yaml"
    source.write_text(yaml.safe_dump(build()))
    done = run_inject(str(source), "-o", str(target))
    assert done.exit_code == 2
    assert done.stderr == (
        f"error: {target}: cannot be written: No such file or directory; "
        "give a file that you may write, in a directory that exists\n"
    )


def test_inject_command_says_what_does_not_stay_as_it_was() -> None:
    framework = build()
    framework["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["restartPolicy"] = "OnFailure"
    done = run_inject("-", given=yaml.safe_dump(framework))
    assert (
        "spec.taskRoles[0].task.pod.spec.restartPolicy: Never instead of OnFailure" in done.stderr
    )
    assert get_spec(list(yaml.safe_load_all(done.stdout)))["restartPolicy"] == "Never"


@pytest.mark.parametrize(
    ("rendezvous", "told"),
    [
        ("none", ["injector.sh"]),
        ("init", ["injector.sh", "current/env.sh"]),
        ("sidecar", ["injector.sh", "current/env.sh"]),
        ("wrapper", ["in their environment"]),
    ],
)
def test_inject_command_tells_of_the_ways_to_peers_that_are_there(
    rendezvous: str, told: list[str], tmp_path: Any
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(build()))
    done = run_inject(str(file), "--rendezvous", rendezvous, "-o", str(tmp_path / "out.yaml"))
    assert done.exit_code == 0, done.stderr
    ways = ["injector.sh", "current/env.sh", "in their environment"]
    assert [way for way in ways if way in done.stderr] == told
    assert "warning" not in done.stderr


def test_inject_command_warns_of_what_no_agent_mends() -> None:
    framework = build(frameworkAttemptCompletionPolicy={})
    get_spec([framework])["containers"][0]["args"] = [". /mnt/frameworkbarrier/current/env.sh"]
    done = run_inject("--rendezvous", "none", "-", given=yaml.safe_dump(framework))
    assert done.exit_code == 0, done.stderr
    role = "spec.taskRoles[0]"
    assert [line.split(": ")[:3] for line in done.stderr.splitlines()] == [
        ["warning", "standard input", f"{role}.task.pod.spec.containers[0]"],
        [
            "warning",
            "standard input",
            f"{role}.frameworkAttemptCompletionPolicy.minFailedTaskCount",
        ],
    ]
    assert list(yaml.safe_load_all(done.stdout))


def test_inject_command_warns_of_fields_that_nobody_reads() -> None:
    framework = build(tasknumber=3)
    framework["spec"]["frobnicate"] = 1
    done = run_inject("-", given=yaml.safe_dump(framework))
    assert done.exit_code == 0, done.stderr
    start, fate = "warning: standard input: spec", "unknown field: the API server drops it"
    assert done.stderr.splitlines() == [
        f"{start}.frobnicate: {fate}; leave it out, or look at its spelling (docs/api.md)",
        f"{start}.taskRoles[0].tasknumber: {fate}; write `taskNumber`",
    ]


def test_inject_command_without_a_framework_says_so() -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": []}
    done = run_inject("-", given=yaml.safe_dump(listed))
    assert (done.exit_code, done.stdout) == (2, "")
    assert "no Framework in it" in done.stderr


def test_inject_command_opens_a_list_as_kubectl_prints_it() -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [build()]}
    done = run_inject("-", given=yaml.safe_dump(listed))
    assert done.exit_code == 0
    assert "Framework" in [body["kind"] for body in yaml.safe_load_all(done.stdout)]
