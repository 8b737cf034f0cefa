"""Commands that `framework why` prints for its user to copy, with names that an attacker chose.

The commands are run by a shell with a ``kubectl`` that only writes down its arguments.
"""

import json
import os
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from cli.why.observation import Observation
from cli.why.ranking import find_causes
from framework.api.states import TaskState
from framework.api.text import make_printable
from tests.cli.why.builders import event, observe, pending, unscheduled, wait
from tests.support.builders import build_template_wire

SHELL_NAMES = ("$(touch hit)", "`touch hit`", "a;touch hit", "a'&touch hit&'b", "a\ntouch hit\n")
OPTIONS = ("--server=https://evil.example", "-fhttps://evil.example/x", "--all", "--context")
JSON_NAME = 'a":"b'
_REFUSED = "Pod gang-worker-0 cannot be created: "


def block(reason: str, message: str) -> Observation:
    condition = {"type": "Blocked", "status": "True", "reason": reason, "message": message}
    return observe(
        task_state=TaskState.ATTEMPT_CREATION_PENDING,
        wire_status={"conditions": [condition]},
    )


def refuse(message: str) -> Observation:
    return block("CreationRefused", _REFUSED + message)


def select(name: str) -> Observation:
    pod = {"spec": {**build_template_wire()["spec"], "nodeSelector": {name: name}}}
    message = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
    return observe([unscheduled(0, message)], role={"task": {"pod": pod}}, nodes={"n": {}})


def cordon(name: str) -> Observation:
    message = "0/1 nodes are available: 1 node(s) were unschedulable."
    return observe([unscheduled(0, message)], nodes={name: {"spec": {"unschedulable": True}}})


def lack(message: str) -> Observation:
    container = wait("CreateContainerConfigError", message)
    return observe([pending(0, container)])


def mount(message: str) -> Observation:
    return observe(
        [pending(0, wait("ContainerCreating"))], events={0: [event("FailedMount", message)]}
    )


CASES: dict[str, Callable[[str], Observation]] = {
    "service account": lambda name: refuse(f'serviceaccount "{name}" not found'),
    "quota": lambda name: refuse(
        f"exceeded quota: {name}, requested: {name}=1, used: {name}=1, limited: {name}=1"
    ),
    "taken name": lambda name: block("NameTaken", f"Pod {name} cannot be created: x"),
    "name of an object that does not go": lambda name: block(
        "NameTaken",
        f"Pod {name} cannot be created: an older Pod of this name is being deleted, and still "
        "exists",
    ),
    "node selector": select,
    "node": cordon,
    "claim": lambda name: observe(
        [unscheduled(0, f'0/1 nodes are available: persistentvolumeclaim "{name}" not found.')]
    ),
    "secret": lambda name: lack(f'secret "{name}" not found'),
    "key": lambda name: lack(f"couldn't find key {name} in ConfigMap team/{name}"),
    "mounted secret": lambda name: mount(
        f'MountVolume.SetUp failed for volume "v" : secret "{name}" not found'
    ),
}


def run_commands(observations: Iterable[Observation], folder: Path) -> list[list[str]]:
    """Run the commands of all remedies; return the arguments of each call of kubectl."""
    stub = folder / "kubectl"
    stub.write_text('#!/bin/sh\nprintf "%s\\0" "$@" >>calls; printf "\\n\\0" >>calls\n')
    stub.chmod(0o700)
    (folder / "framework").symlink_to("/bin/true")
    commands = [
        make_printable(command)
        for observation in observations
        for cause in find_causes(observation)
        for remedy in cause.remedies
        for command in remedy.commands
    ]
    assert commands
    subprocess.run(
        ["bash", "-c", "\n".join(commands)],
        cwd=folder,
        env={"PATH": f"{folder}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        check=True,
    )
    text = (folder / "calls").read_text() if (folder / "calls").exists() else ""
    return [call.split("\0") for call in text.split("\n\0")]


@pytest.mark.parametrize("case", CASES)
def test_a_name_runs_no_program(case: str, tmp_path: Path) -> None:
    run_commands(map(CASES[case], SHELL_NAMES), tmp_path)
    assert not (tmp_path / "hit").exists()


@pytest.mark.parametrize("case", CASES)
def test_a_name_is_no_option_of_kubectl(case: str, tmp_path: Path) -> None:
    calls = run_commands(map(CASES[case], OPTIONS), tmp_path)
    assert [word for call in calls for word in call if word.startswith(OPTIONS)] == []


@pytest.mark.parametrize("case", ["quota", "key"])
def test_a_name_adds_no_field_to_a_patch(case: str, tmp_path: Path) -> None:
    calls = run_commands([CASES[case](JSON_NAME)], tmp_path)
    patches = [json.loads(word) for call in calls for word in call if word.startswith("{")]
    assert patches
    (change,) = patches[0].get("data", {}) or patches[0]["spec"]["hard"]
    assert change == JSON_NAME
