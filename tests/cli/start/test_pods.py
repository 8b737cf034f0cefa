"""``framework exec`` and ``port-forward`` of a Task whose Pod or container does not run."""

import asyncio
from typing import Any, cast

import pytest

from cli.exitcodes import CliError, ExitCode
from cli.start.pods import PodChoice, TaskName, find_pod
from framework.api import constants
from framework.kube.client import KubeClient
from framework.kube.resources import Object
from tests.support.builders import FRAMEWORK, NAMESPACE, build_pod_wire


class _OnePod:
    """A cluster with one Pod."""

    def __init__(self, pod: Object) -> None:
        self._pod = pod

    async def get(self, *_: object, **__: object) -> Object:
        return self._pod


def build(node: str, phase: str, **state: Any) -> Object:
    containers = [{"name": "main", "state": state}] if state else []
    pod = build_pod_wire(phase=phase, spec={"nodeName": node}, containers=containers)
    pod["metadata"]["labels"] = {constants.FRAMEWORK_NAME: FRAMEWORK}
    pod["spec"]["containers"] = [{"name": "main", "image": "x"}]
    return pod


def find(pod: Object, *, runs_in_container: bool) -> PodChoice:
    client = cast("KubeClient", _OnePod(pod))
    task = TaskName(FRAMEWORK, "worker", 0)
    found = find_pod(client, NAMESPACE, task, None, runs_in_container=runs_in_container)
    return asyncio.run(found)


CRASHED = {"waiting": {"reason": "CrashLoopBackOff"}}


@pytest.mark.parametrize(
    ("pod", "runs_in_container", "fault"),
    [
        (build("", "Pending"), True, "its Pod is not scheduled to a node yet"),
        (build("", "Pending"), False, "its Pod is not scheduled to a node yet"),
        (build("n1", "Pending"), True, "its container main has not started yet;"),
        (build("n1", "Pending"), False, "the containers of its Pod have not started yet"),
        (
            build("n1", "Running", **CRASHED),
            True,
            "main does not run (CrashLoopBackOff);",
        ),
        (build("n1", "Running", terminated={"exitCode": 3}), True, "has ended (exit code 3)"),
    ],
    ids=["node", "node of ports", "container", "container of ports", "crash", "end"],
)
def test_task_whose_pod_does_not_run_names_the_command_that_says_why(
    pod: Object, *, runs_in_container: bool, fault: str
) -> None:
    with pytest.raises(CliError) as caught:
        find(pod, runs_in_container=runs_in_container)
    assert caught.value.exit_code is ExitCode.FAILED
    (line,) = caught.value.lines
    assert line.startswith(f"worker/0 of {FRAMEWORK}: ")
    assert fault in line
    assert f"`framework why {FRAMEWORK} -n {NAMESPACE}`" in line


@pytest.mark.parametrize(
    ("pod", "runs_in_container"),
    [
        (build("n1", "Running", running={}), True),
        (build("n1", "Running", **CRASHED), False),
    ],
    ids=["container", "ports"],
)
def test_task_that_runs_has_a_pod(pod: Object, *, runs_in_container: bool) -> None:
    assert find(pod, runs_in_container=runs_in_container).container == "main"
