"""`kubectl framework` with the real kubectl, and what `framework exec` asks of kubectl."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.exitcodes import ExitCode
from framework.version import VERSION
from tests.support.servers.controlplane import Access
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.waiting import wait_until

PROGRAMS = Path(sys.executable).parent


def run(access: Access, *command: str, path: str) -> "subprocess.CompletedProcess[str]":
    env = {k: v for k, v in os.environ.items() if not k.startswith("KUBE")}
    return subprocess.run(
        command,
        env={**env, "KUBECONFIG": access.kubeconfig, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def run_kubectl(access: Access, *arguments: str) -> str:
    if access.kubectl is None:
        pytest.skip("this control plane has no kubectl")
    path = os.pathsep.join([str(PROGRAMS), os.environ["PATH"]])
    ran = run(access, access.kubectl, *arguments, path=path)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_kubectl_finds_and_runs_the_plugin(control_plane: Access) -> None:
    listed = run_kubectl(control_plane, "plugin", "list").splitlines()
    assert str(PROGRAMS / "kubectl-framework") in listed
    assert run_kubectl(control_plane, "framework", "version") == f"{VERSION}\n"


@pytest.fixture
def pod(http: JsonHttp, framework_crd: None, namespace: str) -> str:
    """A Framework without a controller, and the Pod of its Task, which runs by its status."""
    container = {"name": "train", "image": "i"}
    template = {"spec": {"containers": [container]}}
    role = {"name": "worker", "taskNumber": 2, "task": {"pod": template}}
    framework = {
        "apiVersion": "frameworkcontroller.microsoft.com/v1",
        "kind": "Framework",
        "metadata": {"name": "gang"},
        "spec": {"executionType": "Create", "taskRoles": [role]},
    }
    path = f"/apis/frameworkcontroller.microsoft.com/v1/namespaces/{namespace}/frameworks"
    assert http.request("POST", path, framework)[0] == 201
    metadata = {"name": "gang-worker-0", "labels": {"FC_FRAMEWORK_NAME": "gang"}}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **template}
    names = ["train", "log"]
    body["spec"] = {"nodeName": "node", "containers": [{"name": n, "image": "i"} for n in names]}
    path = f"/api/v1/namespaces/{namespace}/pods"
    code, answer = http.request("POST", path, body)
    assert code == 201, answer
    started = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    defaults = {"image": "i", "imageID": "", "ready": True, "restartCount": 0}
    statuses = [{"name": name, "state": started, **defaults} for name in names]
    status = {"phase": "Running", "containerStatuses": statuses}
    code, answer = http.request(
        "PATCH",
        f"{path}/gang-worker-0/status",
        {"status": status},
        content_type="application/merge-patch+json",
    )
    assert code == 200, answer
    return namespace


def test_kubectl_completes_commands_and_names(control_plane: Access, pod: str) -> None:
    def complete(*words: str) -> list[str]:
        return run_kubectl(control_plane, "__complete", "framework", *words).splitlines()

    assert "logs\tPrint the logs of a Framework's Tasks." in complete("lo")
    # Nothing is offered if the API server needs more than a second.
    wait_until(lambda: complete("logs", "-n", pod, "ga")[0] == "gang")
    wait_until(lambda: complete("exec", "-n", pod, "gang", "")[:2] == ["worker/0", "worker/1"])
    wait_until(lambda: complete("exec", "gang", "worker/0", "-n", pod, "-c", "")[0] == "train")
    wait_until(lambda: pod in complete("logs", "-n", pod[:5]))


def test_exec_leaves_the_rest_to_kubectl(control_plane: Access, pod: str, tmp_path: Path) -> None:
    """A kubectl that prints its arguments: the control plane has no node that could run a Pod."""
    kubectl = tmp_path / "kubectl"
    kubectl.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\nexit 42\n')
    kubectl.chmod(0o755)
    path = os.pathsep.join([str(tmp_path), "/usr/bin", "/bin"])
    framework = str(PROGRAMS / "framework")
    words = ["exec", "-i", "gang", "worker/0", "-c", "log", "-n", pod, "--", "cat", "-"]
    ran = run(control_plane, framework, *words, path=path)
    target = ["--namespace", pod, "exec", "gang-worker-0", "-c", "log", "-i", "--", "cat", "-"]
    assert (ran.returncode, ran.stdout.splitlines()) == (42, target), ran.stderr
    words = ["port-forward", "gang", "worker/0", "-n", pod, "8080:80", ":22"]
    words += ["--kubeconfig", control_plane.kubeconfig]
    ran = run(control_plane, framework, *words, path=path)
    target = ["--kubeconfig", control_plane.kubeconfig, "--namespace", pod]
    target += ["port-forward", "pod/gang-worker-0", "8080:80", ":22"]
    assert (ran.returncode, ran.stdout.splitlines()) == (42, target), ran.stderr


def test_exec_without_kubectl_prints_its_command(control_plane: Access, pod: str) -> None:
    words = ["exec", "gang", "worker/0", "-n", pod, "--", "sh", "-c", "echo $HOME"]
    ran = run(control_plane, str(PROGRAMS / "framework"), *words, path="/nonexistent")
    assert ran.returncode == ExitCode.USAGE
    command = f"kubectl --namespace {pod} exec gang-worker-0 -c train -- sh -c 'echo $HOME'"
    assert "kubectl is not on the PATH" in ran.stderr
    assert command in ran.stderr


def test_exec_into_a_task_without_a_pod_says_so(control_plane: Access, pod: str) -> None:
    words = ["exec", "gang", "worker/1", "-n", pod, "--", "ls"]
    ran = run(control_plane, str(PROGRAMS / "framework"), *words, path="/usr/bin:/bin")
    assert (ran.returncode, "worker/1 of gang has no Pod now" in ran.stderr) == (1, True)
    assert ran.stdout == ""
