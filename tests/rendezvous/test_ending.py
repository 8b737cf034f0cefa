"""How a sidecar ends: chosen by its Pod, refused where the Pod would never complete."""

import os
from pathlib import Path
from typing import Any

import pytest

from framework.agent.access import Access
from framework.agent.clock import AgentClock
from framework.agent.gang import Identity
from framework.api import constants
from rendezvous.core.target import Target
from rendezvous.process.ending import (
    EndingError,
    SharedEnding,
    TimedEnding,
    WrapperEnding,
    choose_by_pod,
    choose_ending,
    find_own_container,
    is_pod_done,
)
from rendezvous.settings.options import Options
from tests.support.fakes.agentclock import VirtualClock

MAIN = {"name": "main", "image": "torch"}
AGENT = {"name": "agent", "image": "r.example/framework-rendezvous:1", "args": ["watch"]}


def build_pod(
    *containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), **spec: Any
) -> dict[str, Any]:
    return {
        "metadata": {},
        "spec": {
            "restartPolicy": "Never",
            "initContainers": list(init),
            "containers": list(containers),
            **spec,
        },
    }


def choose(pod: dict[str, Any]) -> str:
    return choose_by_pod(pod, find_own_container(pod, ""))


WRAPPED = build_pod(MAIN, AGENT)
WRAPPED["metadata"]["annotations"] = {constants.WRAPPER_ANNOTATION: "true"}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (build_pod(MAIN, init=({**AGENT, "restartPolicy": "Always"},)), "native"),
        (build_pod(MAIN, AGENT), "pod"),
        (WRAPPED, "wrapper"),
        (build_pod(MAIN, AGENT, shareProcessNamespace=True), "shared"),
    ],
)
def test_ending_is_chosen_by_the_pod(pod: dict[str, Any], expected: str) -> None:
    assert choose(pod) == expected


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        # What the Go original makes of a native sidecar: it drops the field.
        (build_pod(MAIN, init=(AGENT,)), "restartPolicy: Always"),
        (build_pod(AGENT), "the only container of its Pod"),
        (build_pod(MAIN, AGENT, restartPolicy="Always"), "lets no Pod complete"),
        (build_pod(MAIN, {"name": "agent", "image": "own"}), "set FB_CONTAINER_NAME"),
        (build_pod(MAIN, AGENT, {**AGENT, "name": "b"}), "set FB_CONTAINER_NAME"),
    ],
)
def test_sidecar_that_would_hold_its_pod_is_refused(pod: dict[str, Any], expected: str) -> None:
    with pytest.raises(EndingError, match=expected):
        choose(pod)


def test_container_is_found_by_its_name_or_by_what_it_runs() -> None:
    own = {"name": "own", "image": "python", "command": ["python3", "/v/agent/rendezvous.pyz"]}
    pod = build_pod(MAIN, {**own, "args": ["watch"]})
    assert find_own_container(pod, "") == "own"
    assert find_own_container(pod, "main") == "main"
    with pytest.raises(EndingError, match="no container 'other'"):
        find_own_container(pod, "other")


RUNNING: dict[str, Any] = {"running": {}}


def end(code: int) -> dict[str, Any]:
    return {"terminated": {"exitCode": code}}


@pytest.mark.parametrize(
    ("policy", "states", "is_done"),
    [
        ("Never", [RUNNING], False),
        ("Never", [end(0)], True),
        ("Never", [end(1)], True),
        ("Never", [end(0), RUNNING], False),
        ("OnFailure", [end(0)], True),
        ("OnFailure", [end(1)], False),
        ("Always", [end(0)], False),
        ("Never", [], False),
    ],
)
def test_pod_is_done_when_nothing_else_runs_again(
    policy: str, states: list[dict[str, Any]], *, is_done: bool
) -> None:
    statuses = [{"name": f"c{i}", "state": state} for i, state in enumerate(states)]
    statuses.append({"name": "agent", "state": RUNNING})
    pod = {"spec": {"restartPolicy": policy}, "status": {"containerStatuses": statuses}}
    assert is_pod_done(pod, "agent") is is_done


class Proc:
    """A process table in files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.add(1, "/pause", parent=0)
        self.add(os.getpid(), "python3", parent=0)

    def add(self, pid: int, *words: str, parent: int) -> None:
        folder = self.root / str(pid)
        folder.mkdir()
        (folder / "cmdline").write_bytes("\0".join(words).encode() + b"\0")
        (folder / "stat").write_text(f"{pid} (a) b) S {parent} 1 1")

    def remove(self, pid: int) -> None:
        for file in (self.root / str(pid)).iterdir():
            file.unlink()
        (self.root / str(pid)).rmdir()


@pytest.mark.parametrize("name", ["", "train.py"])
def test_shared_ending_waits_for_the_others_to_come_and_go(name: str, tmp_path: Path) -> None:
    proc = Proc(tmp_path)
    proc.add(999_998, "sh", "-c", "a command of ours", parent=os.getpid())
    ending = SharedEnding(name, str(tmp_path))
    assert not ending.is_over()
    proc.add(999_999, "/usr/bin/python3", "-u", "/app/train.py", parent=0)
    assert not ending.is_over()
    proc.remove(999_999)
    assert ending.is_over()


def test_wrapper_ending_looks_for_the_file(tmp_path: Path) -> None:
    ending = WrapperEnding(str(tmp_path))
    assert not ending.is_over()
    (tmp_path / ".ended").touch()
    assert ending.is_over()


def test_ending_gives_up_if_no_process_was_ever_seen(tmp_path: Path) -> None:
    clock = VirtualClock()
    ending = TimedEnding(SharedEnding("train.py", str(tmp_path)), 600.0, clock)
    endless = TimedEnding(WrapperEnding(str(tmp_path)), 0.0, clock)
    clock.now = 599.0
    assert not ending.is_over()
    clock.now = 600.0
    assert ending.is_over()
    assert not endless.is_over()
    assert "no process" in ending.farewell


def test_ending_does_not_give_up_processes_that_were_seen(tmp_path: Path) -> None:
    clock, proc = VirtualClock(), Proc(tmp_path)
    ending = TimedEnding(SharedEnding("train.py", str(tmp_path)), 600.0, clock)
    proc.add(999_999, "/usr/bin/python3", "train.py", parent=0)
    assert not ending.is_over()
    clock.now = 6000.0
    assert not ending.is_over()
    proc.remove(999_999)
    assert ending.is_over()
    assert "done" in ending.farewell


@pytest.mark.parametrize("end", ["native", "wrapper", "shared"])
def test_choice_of_the_user_needs_no_api(end: str, tmp_path: Path) -> None:
    target = Target("default", "f", "f-attempt", "", "f-worker-0", Identity("worker", 0))
    nowhere = Access("127.0.0.1", 1, tls=False)
    assert choose_ending(Options(end=end), target, nowhere, AgentClock()).name == end
