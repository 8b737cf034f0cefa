"""A TfJob and TrainingJobs with scalers on a real node, run by deploy/overlays/kinds.

The controller stays for the tests after these: the last of them looks at what it was refused.
"""

import platform
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.test_kinds_local import build_second_dialect, check_tfjob
from tests.node.cluster import NODE_SECONDS, Cluster
from tests.support.machine.prerequisites import install_programs
from tests.support.servers.frameworkcrd import ROOT

pytestmark = pytest.mark.node

JOB = "elastic"
LAUNCHER = f"{JOB}-launcher-0"
IMAGE = "python:3.12-slim"
SCALER_SECONDS = 600
OS_RELEASE = "etc/os-release"
# As a namespace that enforces `restricted` asks for.
RESTRICTED = {
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
LAUNCH = "until [ -e /tmp/end ]; do sleep 0.2; done"
SCRIPT = 'echo "$TITLE $1" >> /tmp/scripts'
# The image has no ssh: its programs are those of the machine, whose system is the same.
MACHINE = "/machine/usr"
LIBRARIES = f"LD_LIBRARY_PATH={MACHINE}/lib/{platform.machine()}-linux-gnu"
SERVE = f"""
set -e
echo 'sshd:x:100:65534::/run/sshd:/usr/sbin/nologin' >> /etc/passwd
mkdir -p /run/sshd
export {LIBRARIES}
{MACHINE}/bin/ssh-keygen -q -t ed25519 -N "" -f /run/sshd/key
exec {MACHINE}/sbin/sshd -D -e -f /dev/null -h /run/sshd/key -o PidFile=none
"""
REMOTES = {"ssh": ["env", LIBRARIES, f"{MACHINE}/bin/ssh"], "kubexec": ["/etc/mpi/kubexec.sh"]}
Body = dict[str, Any]


@pytest.fixture(scope="module")
def kinds(cluster: Cluster) -> Cluster:
    """The node with a controller that runs TfJobs and TrainingJobs."""
    overlay = ROOT / "deploy" / "overlays" / "kinds"
    cluster.kubectl("apply", "--server-side", "-k", str(overlay))
    cluster.wait_for_rollout()
    return cluster


class Stage:
    """A namespace, and what its user does in it."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace

    def apply(self, *bodies: Body) -> None:
        text = yaml.safe_dump_all(bodies)
        self.cluster.kubectl("apply", "--namespace", self.namespace, "-f", "-", text=text)

    def wait_for_phase(self, resource: str, name: str, *phases: str) -> Body:
        """Wait until a job or scaler has one of these phases; return its status."""

        def look() -> Body | None:
            found = self.cluster.get(resource, name, "--namespace", self.namespace)
            status: Body = found.get("status") or {}
            return status if status.get("phase") in phases else None

        return self.wait(look, f"{resource} {name}: {phases}")

    def wait(self, look: Callable[[], Body | None], what: str) -> Body:
        return self.cluster.wait(look, what, self.namespace)

    def describe(self) -> str:
        return self.cluster.describe(self.namespace)

    def call(self, *command: str) -> str:
        """Run a command in the launcher's container."""
        return self.cluster.run_in(self.namespace, LAUNCHER, "train", *command)

    def try_call(self, *command: str) -> subprocess.CompletedProcess[str]:
        """The same, for a command that may fail."""
        place = ("--namespace", self.namespace, LAUNCHER, "-c", "train")
        return self.cluster.try_kubectl("exec", *place, "--", *command)

    def list_pods(self) -> set[str]:
        found = self.cluster.get("pods", "--namespace", self.namespace)["items"]
        return {pod["metadata"]["name"] for pod in found}


class Elastic:
    """A TrainingJob whose launcher runs until it is told to end."""

    def __init__(self, stage: Stage, mode: str) -> None:
        self.stage = stage
        self.mode = mode

    def create(self) -> None:
        app = {"kind": "ConfigMap", "metadata": {"name": "app"}, "data": {"script.sh": SCRIPT}}
        worker = SERVE if self.mode == "ssh" else "sleep 1000000 & wait"
        job = build_wire("TrainingJob", JOB)
        if self.mode == "ssh":
            job["metadata"]["annotations"] = {"frameworkbarrier.io/hosts": "names"}
        job["spec"] = {
            "launcherAttachMode": self.mode,
            "etReplicaSpecs": {
                "launcher": {"replicas": 1, "template": self._build_template(LAUNCH)},
                "worker": {"replicas": 2, "template": self._build_template(worker)},
            },
        }
        self.stage.apply({"apiVersion": "v1", **app}, job)
        status = self.stage.wait_for_phase("trainingjob", JOB, "Running", "Failed")
        assert status["phase"] == "Running", self.stage.describe()

    def _build_template(self, script: str) -> Body:
        container: Body = {
            "name": "train",
            "image": IMAGE,
            "command": ["sh", "-c", script],
            "volumeMounts": [{"name": "app", "mountPath": "/app"}],
        }
        volumes: list[Body] = [{"name": "app", "configMap": {"name": "app"}}]
        if self.mode == "ssh":
            container["volumeMounts"].append({"name": "usr", "mountPath": MACHINE})
            volumes.append({"name": "usr", "hostPath": {"path": "/usr"}})
        else:
            container["securityContext"] = RESTRICTED
        return {"spec": {"containers": [container], "volumes": volumes}}

    def scale(self, kind: str, title: str, **spec: Any) -> Body:
        """Carry out a scaler; return its status."""
        scaler = build_wire(kind, title)
        scaler["spec"] = {
            "selector": {"name": JOB},
            "script": "/app/script.sh",
            "timeout": SCALER_SECONDS,
            "env": [{"name": "TITLE", "value": title}],
            **spec,
        }
        self.stage.apply(scaler)
        ends = ("ScaleSucceeded", "ScaleFailed")
        status = self.stage.wait_for_phase(kind.lower(), title, *ends)
        assert status["phase"] == "ScaleSucceeded", status
        return status

    def check_hosts(self, *indexes: int) -> None:
        """Each host of the host file runs a command, and is one of these workers."""
        hosts = self.stage.call("cat", "/etc/edl/hostfile").split()
        names = [f"{JOB}-worker-{index}" for index in indexes]
        if self.mode == "ssh":
            assert hosts == [f"{name}:1" for name in names]
        assert [self._call_host(host.rpartition(":")[0]) for host in hosts] == names

    def _call_host(self, host: str) -> str:
        """Run `hostname` on a host: soon, because its server and its name come after the Pod."""

        def look() -> Body | None:
            done = self.stage.try_call(*REMOTES[self.mode], host, "hostname")
            return {"text": done.stdout} if done.returncode == 0 else None

        text: str = self.stage.wait(look, f"{host} runs a command")["text"]
        return text.strip()


@pytest.fixture(params=REMOTES)
def elastic(kinds: Cluster, request: pytest.FixtureRequest) -> Iterator[Elastic]:
    """A TrainingJob by ssh or by kubexec, which is not created yet, in a namespace of its own."""
    mode: str = request.param
    namespace = f"team-{mode}"
    # An ssh server on port 22 needs root.
    level = "privileged" if mode == "ssh" else "restricted"
    kinds.create_namespace(namespace, pod_security=level)
    yield Elastic(Stage(kinds, namespace), mode)
    kinds.kubectl("delete", "namespace", namespace, "--wait=false")


def build_wire(kind: str, name: str) -> Body:
    head = {"apiVersion": "kai.alibabacloud.com/v1alpha1", "kind": kind}
    return {**head, "metadata": {"name": name}}


def check_same_system(stage: Stage) -> None:
    """Skip where programs of the machine may not run with the image's libraries."""
    image = stage.call("cat", f"/{OS_RELEASE}")
    if image != Path("/", OS_RELEASE).read_text(encoding="utf-8"):
        pytest.skip("the machine and the image of the node's Pods have different systems")


def test_workers_of_a_trainingjob_change_by_scalers_and_run_commands(elastic: Elastic) -> None:
    stage = elastic.stage
    if elastic.mode == "ssh":
        install_programs({"sshd": "openssh-server"})
    elastic.create()
    if elastic.mode == "ssh":
        check_same_system(stage)
    elastic.check_hosts(0, 1)
    added = elastic.scale("ScaleOut", "more", toAdd={"count": 1})
    assert added["addPods"] == [f"{JOB}-worker-2"]
    elastic.check_hosts(0, 1, 2)
    elastic.scale("ScaleIn", "less", toDelete={"podNames": [f"{JOB}-worker-0"]})
    assert f"{JOB}-worker-0" not in stage.list_pods()
    elastic.check_hosts(1, 2)
    ran = stage.call("cat", "/tmp/scripts").splitlines()
    assert ran == [f"more {JOB}-worker-2:1", f"less {JOB}-worker-0:1"]
    # The end of the container may kill this command: the phase shows that it has made the file.
    stage.try_call("touch", "/tmp/end")
    stage.wait_for_phase("trainingjob", JOB, "Succeeded")
    stage.wait(lambda: {} if stage.list_pods() == {LAUNCHER} else None, "the workers are deleted")
    delete = ("delete", "trainingjob", JOB, "--namespace", stage.namespace)
    stage.cluster.kubectl(*delete, "--cascade=foreground", f"--timeout={NODE_SECONDS}s")

    def look() -> Body | None:
        owned = "frameworks,scaleins,scaleouts"
        left = stage.cluster.get(owned, "--namespace", stage.namespace)["items"]
        return None if left else {}

    # Scalers do not block the deletion of their job: they may be deleted after it.
    stage.wait(look, "the Framework and the scalers are deleted")


def test_tfjob_runs_to_its_end_and_its_logs_stay(kinds: Cluster, namespace: str) -> None:
    stage = Stage(kinds, namespace)
    job = yaml.safe_load(build_second_dialect())
    for replica in job["spec"]["replicaSpecs"]:
        (container,) = replica["template"]["spec"]["containers"]
        container.update(image=IMAGE, securityContext=RESTRICTED)
    stage.apply(job)
    name = job["metadata"]["name"]
    status = stage.wait_for_phase("tfjob", name, "Done", "Failed")
    assert status["state"] == "Succeeded", status
    logs = kinds.framework("logs", name, "--namespace", namespace)
    assert logs.returncode == 0, logs.stderr
    check_tfjob(logs.stdout)
