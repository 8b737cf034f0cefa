"""Broken gangs on a real node: what scheduler, kubelet and kernel write, and what then helps."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.exitcodes import ExitCode
from tests.node.cluster import Cluster
from tests.support.builders import FAIL_FAST, build_submission
from tests.support.machine.realnode import NODE_NAME
from tests.support.servers.remedies import ExpectedAnswer

pytestmark = pytest.mark.node

IMAGE = "python:3.12-slim"
# Allocates 200 MB.
HUNGRY = "x = bytearray(200 * 2**20); print(len(x))"
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def build_gang(script: str = "print('done')", **container: Any) -> dict[str, Any]:
    """A gang of one Task without agents, whose Pod any `restricted` namespace takes."""
    main = {
        "name": "main",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", script],
        "securityContext": RESTRICTED,
        **container,
    }
    pod = {"spec": {"restartPolicy": "Never", "containers": [main]}}
    task = {"retryPolicy": {"maxRetryCount": 0}, "pod": pod}
    role = {"name": "worker", "taskNumber": 1, "task": task}
    return build_submission("gang", {**role, "frameworkAttemptCompletionPolicy": FAIL_FAST})


def select_nodes(gang: dict[str, Any]) -> dict[str, Any]:
    spec = gang["spec"]["taskRoles"][0]["task"]["pod"]["spec"]
    spec["nodeSelector"] = {"accelerator": "a100"}
    return gang


@dataclass(frozen=True)
class Case:
    """A broken gang."""

    gang: Callable[[], dict[str, Any]]
    kind: str
    words: tuple[str, ...]
    remedy: str = ""
    values: dict[str, str] = field(default_factory=dict)

    @property
    def expected(self) -> ExpectedAnswer:
        return ExpectedAnswer(self.kind, self.words, self.remedy)


CASES = {
    "image that does not exist": Case(
        lambda: build_gang(image="localhost:1/team/none:1"),
        "Image",
        ("cannot pull the image localhost:1/team/none:1 of its container main",),
        remedy="name an image that exists",
        values={"IMAGE": IMAGE},
    ),
    "image that is never pulled": Case(
        lambda: build_gang(image="localhost:1/team/none:1", imagePullPolicy="Never"),
        "Image",
        ("the node does not have it, and imagePullPolicy is Never",),
        remedy="name an image that exists",
        values={"IMAGE": IMAGE},
    ),
    "GPU that no node has": Case(
        lambda: build_gang(resources={"limits": {"nvidia.com/gpu": "1"}}),
        "Unschedulable",
        ("1 node lacks free nvidia.com/gpu, of which it asks for 1",),
        remedy="ask for less",
    ),
    "label that no node has": Case(
        lambda: select_nodes(build_gang()),
        "Unschedulable",
        ("its node selector or node affinity does not match", "accelerator=a100"),
    ),
    "memory": Case(
        lambda: build_gang(HUNGRY, resources={"limits": {"memory": "128Mi"}}),
        "OutOfMemory",
        ("ran out of memory: its container main was killed",),
        remedy="give it more memory",
    ),
    "missing ConfigMap": Case(
        lambda: build_gang(
            env=[{"name": "LR", "valueFrom": {"configMapKeyRef": {"name": "s", "key": "KEY"}}}]
        ),
        "Config",
        ("there is no ConfigMap s",),
    ),
    "command that does not exist": Case(
        lambda: build_gang(command=["no-such-program"]),
        "Config",
        ("cannot start the command of its container main", "no-such-program"),
        values={"no-such-program": "/bin/true"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_why_names_the_cause_and_its_remedy_works(
    cluster: Cluster, namespace: str, tmp_path: Path, name: str
) -> None:
    case = CASES[name]
    apply(cluster, namespace, case.gang())
    carry_out(cluster, read_remedy(cluster, namespace, case.expected), case, tmp_path)
    done = cluster.wait_for_state(namespace, "gang", "Completed")
    assert done["status"]["attemptStatus"]["completionStatus"]["code"] == 0
    cluster.wait(
        lambda: ask(cluster, namespace).get("healthy") or None, "why finds nothing", namespace
    )


def test_cordoned_node_is_named_and_uncordoned(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    cluster.kubectl("cordon", NODE_NAME)
    try:
        apply(cluster, namespace, build_gang())
        words = (f"cordoned: {NODE_NAME}",)
        case = Case(build_gang, "Unschedulable", words, remedy="let the node take Pods again")
        carry_out(cluster, read_remedy(cluster, namespace, case.expected), case, tmp_path)
        cluster.wait_for_state(namespace, "gang", "Completed")
    finally:
        cluster.kubectl("uncordon", NODE_NAME)


def apply(cluster: Cluster, namespace: str, gang: dict[str, Any]) -> None:
    cluster.kubectl("apply", "-n", namespace, "-f", "-", text=yaml.safe_dump(gang))


def ask(cluster: Cluster, namespace: str) -> dict[str, Any]:
    """Ask why; an empty answer if the API server was too busy to answer in time."""
    done = cluster.framework("why", "gang", "-n", namespace, "-o", "json")
    if done.returncode == ExitCode.UNREACHABLE:
        return {}
    assert done.returncode in {0, 1}, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def read_remedy(cluster: Cluster, namespace: str, expected: ExpectedAnswer) -> list[str]:
    """Wait for an answer as expected; return the command lines of its remedy.

    Scheduler and kubelet try again and again, so two answers may differ: words and remedy are those
    of one answer, as users see it.
    """
    shown = [""]

    def look() -> list[str] | None:
        causes = ask(cluster, namespace).get("causes")
        if not causes or causes[0]["kind"] != expected.kind:
            return None
        shown[0] = cluster.framework("why", "gang", "-n", namespace).stdout
        return expected.find_commands(shown[0])

    return cluster.wait(look, lambda: f"why says {expected}, not:\n{shown[0]}", namespace)


def carry_out(cluster: Cluster, commands: list[str], case: Case, folder: Path) -> None:
    """Run the lines of a remedy in a shell, with the user's values."""
    first, *rest = commands
    run_in_shell(cluster, first, case, folder)
    file = folder / "gang.yaml"
    if file.exists():
        text = file.read_text()
        for word, value in case.values.items():
            text = text.replace(word, value)
        file.write_text(text)
    for command in rest:
        run_in_shell(cluster, command, case, folder)


def run_in_shell(cluster: Cluster, command: str, case: Case, folder: Path) -> None:
    for word, value in case.values.items():
        command = command.replace(word, value)
    done: subprocess.CompletedProcess[str] = cluster.run_in_shell(command, folder)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
