"""A TrainingJob as its users write it: Open MPI starts processes in its workers."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.consumers.examples import RUN_SECONDS, run_example
from tests.consumers.stacks import explain, require_program, run_program
from tests.support.servers.frameworkserver import build_env

LAUNCH = """
until for host in $(/etc/edl/discover_hosts.sh); do ssh "${host%:*}" true || exit 1; done
do sleep 0.2; done
exec MPIRUN --allow-run-as-root -H "$(paste -sd, /etc/edl/hostfile)" sh -c \
  'sleep 1; echo "rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE on $(hostname)"'
"""
KUBEXEC_LAUNCH = """
host=$(/etc/edl/discover_hosts.sh | tail -n 1)
name=$(echo code 7 | /etc/mpi/kubexec.sh "${host%:*}" 'cat >/dev/null; hostname; exit 7')
echo "agent: $name $?"
exec MPIRUN --allow-run-as-root -H "$(paste -sd, /etc/edl/hostfile)" sh -c \
  'sleep 1; echo "rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE on $(hostname)"'
"""
# As an image with an ssh server: with a host key, and the directory that the server needs.
SERVE = """
chmod 755 /run/sshd
keys=$(mktemp -d)
ssh-keygen -q -t ed25519 -N "" -f "$keys/host"
exec /usr/sbin/sshd -D -h "$keys/host" -o PidFile=none -o "ListenAddress=$POD_IP"
"""
POD_IP = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
RUN = {"name": "run", "mountPath": "/run/sshd"}


def build_key(folder: Path) -> dict[str, str]:
    key = folder / "id_rsa"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    config = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n"
    public = key.with_suffix(".pub").read_text()
    return {"id_rsa": key.read_text(), "id_rsa.pub": public, "config": config}


def build_job(mpirun: str) -> dict[str, object]:
    launcher = {"command": ["sh", "-c", LAUNCH.replace("MPIRUN", mpirun)]}
    worker = {"command": ["sh", "-c", SERVE], "env": [POD_IP], "volumeMounts": [RUN]}
    specs = {
        name: {"replicas": count, "template": {"spec": {"containers": [container], **more}}}
        for name, count, container, more in (
            ("launcher", 1, {"name": "main", "image": "mpi:1", **launcher}, {}),
            (
                "worker",
                2,
                {"name": "main", "image": "mpi:1", **worker},
                {"volumes": [{"name": "run", "emptyDir": {}}]},
            ),
        )
    }
    return {
        "apiVersion": "kai.alibabacloud.com/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "mpi"},
        "spec": {"slotsPerWorker": 2, "etReplicaSpecs": specs},
    }


def run_job(tmp_path: Path, *documents: object) -> str:
    """Run a job on a local cluster, which must succeed; return its logs."""
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    options = ["--local", "--isolation", "root", "--logs", "--directory", str(tmp_path / "state")]
    command = [sys.executable, "-m", "cli.main", "run", *options, str(file)]
    ran = run_program(command, Path.cwd(), build_env(), timeout=RUN_SECONDS)
    assert ran.returncode == 0, explain(ran)
    return ran.stdout


# As an image with an ssh server has them: its host keys and the directory that it needs.
# Pods share the ports of the machine where it allows no network namespaces.
PREPARE = """
chmod 755 /run/sshd
echo "ListenAddress $POD_IP" > /etc/ssh/sshd_config
ssh-keygen -A
"""
SERVER_FILES = [RUN, {"name": "server", "mountPath": "/etc/ssh"}]
CONNECT = """
stat -L -c '%n %a' /root/.ssh/*
for host in $(/etc/edl/discover_hosts.sh); do
  until ssh -o BatchMode=yes "${host%:*}" true; do sleep 0.2; done
  echo "connected: $(ssh -o BatchMode=yes "${host%:*}" hostname)"
done
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="an ssh server on port 22 needs root")
def test_workers_without_a_command_accept_the_key_that_run_creates(tmp_path: Path) -> None:
    require_program("sshd", "ssh-keygen")
    if not Path("/usr/sbin/sshd").exists():
        require_program("sshd", "sshd")
    job: Any = build_job("")
    specs = {role: each["template"]["spec"] for role, each in job["spec"]["etReplicaSpecs"].items()}
    launcher, worker = specs["launcher"], specs["worker"]
    launcher["containers"][0]["command"] = ["sh", "-c", CONNECT]
    del worker["containers"][0]["command"]
    worker["containers"][0]["volumeMounts"] = SERVER_FILES
    worker["volumes"] += [{"name": "server", "emptyDir": {}}]
    prepare = {"name": "prepare", "image": "mpi:1", "command": ["sh", "-c", PREPARE]}
    worker["initContainers"] = [{**prepare, "env": [POD_IP], "volumeMounts": SERVER_FILES}]
    logs = run_job(tmp_path, job)
    assert "secret/mpi created, with a new ssh key" in logs
    modes = re.findall(r"^\[launcher/0\] /root/\.ssh/(\S+) (\d+)$", logs, re.MULTILINE)
    names = ("authorized_keys", "config", "id_rsa", "id_rsa.pub")
    assert modes == [(name, "600") for name in names]
    connected = re.findall(r"^\[launcher/0\] connected: (\S+)$", logs, re.MULTILINE)
    assert sorted(connected) == ["mpi-worker-0", "mpi-worker-1"]


def read_ranks(logs: str) -> list[tuple[str, str]]:
    return sorted(re.findall(r"^\[launcher/0\] rank (\d) of 4 on (\S+)$", logs, re.MULTILINE))


TWO_ON_EACH = [
    ("0", "mpi-worker-0"),
    ("1", "mpi-worker-0"),
    ("2", "mpi-worker-1"),
    ("3", "mpi-worker-1"),
]


@pytest.mark.skipif(os.geteuid() != 0, reason="an ssh server on port 22 needs root")
def test_open_mpi_runs_on_the_workers_of_a_trainingjob(tmp_path: Path) -> None:
    mpirun = require_program("openmpi", "mpirun.openmpi")
    require_program("sshd", "ssh-keygen")
    if not Path("/usr/sbin/sshd").exists():
        require_program("sshd", "sshd")
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mpi"}}
    key = {"stringData": build_key(tmp_path)}
    logs = run_job(tmp_path, {**secret, **key}, build_job(mpirun))
    assert read_ranks(logs) == TWO_ON_EACH


@pytest.mark.skipif(os.geteuid() != 0, reason="private roots of local Pods need root")
def test_open_mpi_runs_by_kubexec_without_ssh(tmp_path: Path) -> None:
    mpirun = require_program("openmpi", "mpirun.openmpi")
    job: Any = build_job(mpirun)
    job["spec"]["launcherAttachMode"] = "kubexec"
    templates = {
        role: specs["template"]["spec"]["containers"][0]
        for role, specs in job["spec"]["etReplicaSpecs"].items()
    }
    templates["launcher"]["command"] = ["sh", "-c", KUBEXEC_LAUNCH.replace("MPIRUN", mpirun)]
    # As users write it: the worker has no command.
    del templates["worker"]["command"]
    logs = run_job(tmp_path, job)
    assert read_ranks(logs) == TWO_ON_EACH
    assert "agent: mpi-worker-1 7" in logs


def test_example_of_kubexec_trains_on_its_workers(tmp_path: Path) -> None:
    example = run_example("trainingjob-kubexec.yaml", "openmpi5", tmp_path)
    log = example.read_log("launcher/0")
    ran = sorted(re.findall(r"^rank (\d) of 4 on trainingjob-kubexec-(\S+)$", log, re.MULTILINE))
    wanted = [(str(rank), f"worker-{rank // 2}") for rank in range(4)]
    assert ran == wanted, example.explain("ranks")
    losses = re.findall(r"^step \d+: loss (\S+)$", log, re.MULTILINE)
    assert losses[0] > "5", example.explain("the first loss")
    assert losses[-1] == "0.00000"
