"""ScaleOut and ScaleIn of a TrainingJob whose launcher is Horovod's elastic driver.

The job is as users of et-operator write it: the host files in /etc/edl, processes started by ssh or
by kubexec, a script of each scaler in the launcher.
"""

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from framework.api.constants import LEAVE_NODES_ANNOTATION
from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.config import load_kube_config
from framework.kube.resources import (
    CONFIGMAPS,
    FRAMEWORKS,
    PODS,
    SCALE_INS,
    SCALE_OUTS,
    TRAININGJOBS,
    Object,
    Resource,
)
from tests.consumers.examples import Example, start_cluster
from tests.consumers.stacks import require_program
from tests.consumers.test_trainingjob import POD_IP, RUN
from tests.support.servers.watching import watch_until

NAME = "elastic"
WORLDS = [2, 4, 3, 2]
# The training goes on until it has seen WORLDS, numbers of processes, however long each takes.
TRAIN = """
import os
import time
import horovod.torch as hvd
import torch

open(f"/run/sshd/train-{os.getpid()}", "w").close()
torch.set_num_threads(1)
hvd.init()
model = torch.nn.Linear(2, 1, bias=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
state = hvd.elastic.TorchState(model, optimizer, step=0, since=0, worlds=[])

@hvd.elastic.run
def train(state):
    print(f"world {hvd.size()}: from step {state.step}", flush=True)
    if state.worlds[-1:] != [hvd.size()]:
        state.worlds, state.since = [*state.worlds, hvd.size()], state.step
    while state.worlds != WORLDS or state.step < state.since + 10:
        state.optimizer.zero_grad()
        state.model(torch.ones(1, 2)).sum().backward()
        state.optimizer.step()
        state.step += 1
        if state.step % 10 == 0:
            print(f"world {hvd.size()} step {state.step}", flush=True)
        state.commit()
        time.sleep(0.1)

train(state)
print(f"done: {state.worlds}", flush=True)
"""
# Horovod has limits of 30 s for the start of its processes and for their connections.
LAUNCH = """
nic=$(python3 -c 'import os, psutil
for name, addresses in psutil.net_if_addrs().items():
    if os.environ["POD_IP"] in [each.address for each in addresses]:
        print(name)')
horovodrun --gloo -np 2 --min-np 1 --max-np 8 --network-interfaces "${nic:-lo}" \
  --start-timeout 600 --gloo-timeout-seconds 600 \
  --host-discovery-script /app/discover.sh python3 /app/train.py
code=$?
uniq /seen/hosts
exit $code
"""
# A worker runs some time before it can be reached, and Horovod does not try a host again.
DISCOVER = """#!/bin/sh
hosts=$(/etc/edl/discover_hosts.sh) || exit 1
for host in $hosts; do
  until [ -e "/seen/${host%:*}" ] || $REMOTE "${host%:*}" true; do sleep 0.2; done
  : > "/seen/${host%:*}"
done
for file in /seen/*-worker-*; do
  case " $(echo $hosts) " in *" ${file#/seen/}:"*) ;; *) rm -f "$file" ;; esac
done
echo "seen:" $hosts >> /seen/hosts
echo "$hosts"
"""
SCRIPT = """
echo "script $TITLE $1"
"""
# As an image with an ssh server: with a host key, and the directory that the server needs.
SERVE = """
chmod 755 /run/sshd
keys=$(mktemp -d)
ssh-keygen -q -t ed25519 -N "" -f "$keys/host"
exec /usr/sbin/sshd -D -e -h "$keys/host" -o PidFile=none -o "ListenAddress=$POD_IP" \
  -o "SetEnv=PATH=$PATH"
"""
# Says at its end which processes of the training had ended before.
WAIT = """
look() {
  for file in /run/sshd/train-*; do
    kill -0 "${file##*-}" 2>/dev/null && echo "runs: $file" || echo "had ended: $file"
  done
  echo "Received signal 15"
  exit 0
}
trap look TERM
sleep 1000000 & wait
"""
REMOTES = {"ssh": ("ssh", SERVE), "kubexec": ("/etc/mpi/kubexec.sh", WAIT)}


def build_template(script: str, remote: str, mount: Object) -> Object:
    env = {"REMOTE": remote, "OMP_NUM_THREADS": "1"}
    container = {
        "name": "train",
        "image": "horovod:1",
        "command": ["sh", "-c", script],
        "env": [POD_IP, *({"name": name, "value": value} for name, value in env.items())],
        "volumeMounts": [{"name": "app", "mountPath": "/app"}, mount],
    }
    volumes = [
        {"name": "app", "configMap": {"name": "app", "defaultMode": 0o755}},
        {"name": mount["name"], "emptyDir": {}},
    ]
    return {"spec": {"containers": [container], "volumes": volumes}}


async def create_job(
    kube: KubeClient, mode: str, worlds: Sequence[int] = WORLDS, *, leaves: bool = False
) -> None:
    """Create a job that has trained when it has had these numbers of processes.

    With ``leaves``, workers leave their nodes when their processes have ended, at no deadline.
    """
    train = f"WORLDS = {[*worlds]}\n{TRAIN}"
    files = {"train.py": train, "discover.sh": DISCOVER, "script.sh": SCRIPT}
    app = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "app"}, "data": files}
    await kube.create(CONFIGMAPS, "default", app)
    remote, serve = REMOTES[mode]
    launch = build_template(LAUNCH, remote, {"name": "seen", "mountPath": "/seen"})
    specs = {
        "launcher": {"replicas": 1, "template": launch},
        "worker": {"replicas": worlds[0], "template": build_template(serve, remote, RUN)},
    }
    annotations = {LEAVE_NODES_ANNOTATION: "timeoutSeconds=86400"} if leaves else {}
    spec = {"launcherAttachMode": mode, "etReplicaSpecs": specs}
    await create(kube, TRAININGJOBS, NAME, spec, annotations)


async def create(
    kube: KubeClient,
    resource: Resource,
    name: str,
    spec: Object,
    annotations: Mapping[str, str] | None = None,
) -> None:
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "annotations": dict(annotations or {})},
        "spec": spec,
    }
    await kube.create(resource, "default", body)


async def wait_for_phase(kube: KubeClient, resource: Resource, name: str, *phases: str) -> Object:
    """Wait until an object has one of these phases; return its status."""

    def find(_: str, body: Object) -> Object | None:
        status: Object = body.get("status") or {}
        is_met = body["metadata"]["name"] == name and status.get("phase") in phases
        return status if is_met else None

    return await watch_until(kube, resource, "default", find)


async def scale(kube: KubeClient, resource: Resource, title: str, **spec: Any) -> list[str]:
    """Carry out a scaler; return the names of its workers."""
    common = {
        "selector": {"name": NAME},
        "script": "/app/script.sh",
        "timeout": 600,
        "env": [{"name": "TITLE", "value": title}],
    }
    await create(kube, resource, title, {**common, **spec})
    status = await wait_for_phase(kube, resource, title, "ScaleSucceeded", "ScaleFailed")
    assert status["phase"] == "ScaleSucceeded", status
    return list(status.get("addPods") or status["toDeletePods"])


def read_hosts(example: Example) -> list[list[str]]:
    """Read the lists of hosts that Horovod was given, each once."""
    log = example.read_log("launcher/0")
    return [line.split() for line in re.findall(r"^seen: ?(.*)$", log, re.MULTILINE)]


def check_training(example: Example, worlds: Sequence[int] = WORLDS) -> None:
    log = example.read_log("launcher/0")
    ended = re.findall(r"done: (\[.*\])$", log, re.MULTILINE)
    assert ended == [str([*worlds])] * worlds[-1], example.explain("another end")
    # Every process continues from the step of its peers; only the first ones start at zero.
    starts = re.findall(r"world (\d+): from step (\d+)$", log, re.MULTILINE)
    assert [start for start in starts if start[1] == "0"] == [(str(worlds[0]), "0")] * worlds[0]
    assert {int(world) for world, step in starts if step != "0"} == {*worlds[1:]}


def check_hosts(example: Example) -> None:
    """Each change was seen once, by no list between, and no list was empty."""
    hosts = read_hosts(example)
    assert [len(each) for each in hosts] == WORLDS, example.explain(f"{hosts}")
    first, grown, less, last = (set(each) for each in hosts)
    assert first < grown
    assert less < grown
    assert less - last == {hosts[0][0]}


def check_end_of_sessions(example: Example, task: str) -> None:
    """The processes of a worker had ended before its Pod was deleted."""
    log = example.read_log(task)
    assert "Received signal 15" in log, example.explain(f"no end of {task}")
    before = log.partition("Received signal 15")[0]
    started = len(re.findall("^Accepted publickey", before, re.MULTILINE))
    ends = "^(?:Disconnected from|Connection (?:closed|reset) by) user"
    ended = re.findall(ends, before, re.MULTILINE)
    assert started == len(ended) > 1, log


def check_end_of_processes(example: Example, task: str) -> None:
    """The same for kubexec, whose server writes no log: the first process of the worker looks."""
    log = example.read_log(task)
    assert "Received signal 15" in log, example.explain(f"no end of {task}")
    found = re.findall(r"^(runs|had ended): /run/sshd/train-\d+$", log, re.MULTILINE)
    assert found, log
    assert set(found) == {"had ended"}, log


@pytest.mark.skipif(os.geteuid() != 0, reason="private roots of local Pods need root")
@pytest.mark.parametrize("mode", REMOTES)
async def test_horovod_trains_on_while_scalers_change_its_workers(
    tmp_path: Path, mode: str
) -> None:
    if mode == "ssh":
        require_program("sshd", "ssh-keygen")
    workers = [f"{NAME}-worker-{index}" for index in range(4)]
    with start_cluster(NAME, "horovod-gloo", tmp_path) as cluster:

        async def wait_for_world(number: int) -> None:
            line = rf"world {number} step \d+$"
            await asyncio.to_thread(cluster.wait_for_log, "launcher/0", line)

        config = load_kube_config(None, str(cluster.directory / "kubeconfig"), {})
        async with KubeClient(config, user_agent="test", clock=SystemClock()) as kube:
            await create_job(kube, mode)
            await wait_for_world(2)
            assert await scale(kube, SCALE_OUTS, "more", toAdd={"count": 2}) == workers[2:]
            await wait_for_world(4)
            assert await scale(kube, SCALE_INS, "less", toDelete={"count": 1}) == workers[3:]
            await wait_for_world(3)
            named = {"podNames": workers[:1]}
            assert await scale(kube, SCALE_INS, "named", toDelete=named) == workers[:1]
            end = await wait_for_phase(kube, TRAININGJOBS, NAME, "Succeeded", "Failed")
    assert end["phase"] == "Succeeded", cluster.explain("the job failed")
    assert end["targetWorkers"] == workers[1:3]
    scripts = re.findall(r"^script (.*)$", cluster.read_log("launcher/0"), re.MULTILINE)
    added = f"{workers[2]}:1,{workers[3]}:1"
    assert scripts == [f"more {added}", f"less {workers[3]}:1", f"named {workers[0]}:1"]
    check_training(cluster)
    check_hosts(cluster)
    check_end = check_end_of_sessions if mode == "ssh" else check_end_of_processes
    for task in ("worker/3", "worker/0"):
        check_end(cluster, task)


@pytest.mark.skipif(os.geteuid() != 0, reason="private roots of local Pods need root")
async def test_horovod_trains_on_while_a_worker_leaves_its_node(tmp_path: Path) -> None:
    """The Pod of a worker is disrupted: its process ends first, then it is replaced."""
    worlds, name = [2, 1, 2], f"{NAME}-worker-1"
    notice = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    with start_cluster(NAME, "horovod-gloo", tmp_path) as cluster:
        config = load_kube_config(None, str(cluster.directory / "kubeconfig"), {})
        async with KubeClient(config, user_agent="test", clock=SystemClock()) as kube:
            await create_job(kube, "kubexec", worlds, leaves=True)
            await asyncio.to_thread(cluster.wait_for_log, "launcher/0", r"world 2 step \d+$")
            status = {"status": {"conditions": [notice]}}
            await kube.patch(PODS, "default", name, status, subresource="status")
            end = await wait_for_phase(kube, TRAININGJOBS, NAME, "Succeeded", "Failed")
            framework = await kube.get(FRAMEWORKS, "default", NAME)
    assert end["phase"] == "Succeeded", cluster.explain("the job failed")
    check_training(cluster, worlds)
    assert [len(hosts) for hosts in read_hosts(cluster)] == worlds
    roles = framework["status"]["attemptStatus"]["taskRoleStatuses"]
    retries = [task["retryPolicyStatus"] for role in roles for task in role["taskStatuses"]]
    assert [each["totalRetriedCount"] for each in retries] == [0, 0, 1]
    assert [each["accountableRetriedCount"] for each in retries] == [0, 0, 0]
