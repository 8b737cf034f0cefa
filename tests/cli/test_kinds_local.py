"""TfJobs and TrainingJobs run to their end on a local cluster: run, converted, and applied.

The objects are those of the examples of the originals, with scripts in place of the training.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from cli.exitcodes import ExitCode
from cli.main import main
from framework.api.constants import ACKNOWLEDGED_GENERATION_ANNOTATION, LEAVE_NODES_ANNOTATION
from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.config import load_kube_config
from framework.kube.resources import (
    DEPLOYMENTS,
    FRAMEWORKS,
    PODS,
    SCALE_INS,
    SCALE_OUTS,
    TFJOBS,
    TRAININGJOBS,
    Object,
    Resource,
)
from tests.cli.test_sessions import call, list_local, read_until, start
from tests.support.servers.watching import watch_until
from tests.support.waiting import wait_until_async

pytestmark = [pytest.mark.local, pytest.mark.slow]

JOB_NAME = "elastic-training"
WAIT = "sleep 1000 & wait"
SCALER_SECONDS = 600
# The master connects to all others, which serve until they are ended.
TRAIN = """
import json, os, socket, time
config = json.loads(os.environ["TF_CONFIG"])
cluster, task = config["cluster"], config["task"]
def split(address):
    host, _, port = address.rpartition(":")
    return host, int(port)
def connect(address):
    while True:
        try:
            return socket.create_connection(split(address))
        except OSError:
            time.sleep(0.05)
if task["type"] == "master":
    for kind in ("worker", "ps"):
        for index, address in enumerate(cluster[kind]):
            print(connect(address).makefile().readline().strip(), flush=True)
    print("config", json.dumps(config), flush=True)
else:
    with socket.create_server(split(cluster[task["type"]][task["index"]])) as server:
        while True:
            server.accept()[0].sendall(f"serves {task['type']}/{task['index']}\\n".encode())
"""
LOG = json.dumps("import logging; print('loss 1', flush=True); logging.error('step %d', 7)")
TFJOB = """
apiVersion: "mlkube.io/v1beta1"
kind: "TfJob"
metadata:
  name: "example-job"
spec:
  runtimeid: "1234"
  replica_specs:
    - replicas: 1
      tf_port: 2222
      tf_replica_type: MASTER
      template: &template
        spec:
          containers:
            - image: gcr.io/tf-on-k8s-dogfood/tf_sample:latest
              name: tensorflow
              command: [python3, -c]
              args: [SCRIPT]
          restartPolicy: OnFailure
    - replicas: 1
      tf_port: 2223
      tf_replica_type: WORKER
      template: *template
    - replicas: 2
      tf_port: 2224
      tf_replica_type: PS
""".replace("SCRIPT", json.dumps(TRAIN))
# Without the server of TensorFlow, which is not installed here, and without an agent.
PRINT = """'import os; print("config", os.environ["TF_CONFIG"], flush=True)'"""
CAMEL = {
    "replica_specs": "replicaSpecs",
    "tf_port": "tfPort",
    "tf_replica_type": "tfReplicaType",
    "runtimeid": "runtimeId",
}
TRAININGJOB = """
apiVersion: kai.alibabacloud.com/v1alpha1
kind: TrainingJob
metadata:
  name: elastic-training
spec:
  cleanPodPolicy: Running
  slotsPerWorker: 2
  etReplicaSpecs:
    launcher:
      replicas: 1
      template:
        spec:
          containers:
          - command: [sh, -c]
            args:
            - sh /etc/edl/discover_hosts.sh; cat /etc/edl/hostfile /job/hostfile; ls /root/.ssh
            image: horovod:1
            name: mnist-elastic
    worker:
      maxReplicas: 9
      minReplicas: 1
      replicas: 2
      template:
        spec:
          containers:
          - {command: [sh, -c, "WAIT"], image: horovod:1, name: mnist-elastic}
---
apiVersion: v1
kind: Secret
metadata:
  name: elastic-training
stringData: {id_rsa: private, id_rsa.pub: public, config: text}
""".replace("WAIT", WAIT)
COUNT = """until [ -e /job/end ]; do
  found=$(sh /etc/edl/discover_hosts.sh | wc -l)
  [ "$found" = "$hosts" ] || echo "hosts: $found"
  hosts=$found
  sleep 0.1
done"""
# Starts a process for each host, as ssh does, and ends it a second after the host has left.
FOLLOW = """mkdir /job/hosts
until [ -e /job/end ]; do
  sh /etc/edl/discover_hosts.sh | cut -d: -f1 >/job/found
  for host in $(cat /job/found); do
    [ -e /job/hosts/$host ] && continue
    sh -c 'while :; do sleep 0.1; done' ssh $host &
    echo $! >/job/hosts/$host
    echo "starts $host"
  done
  for host in $(ls /job/hosts); do
    grep -qx $host /job/found && continue
    sleep 1
    echo "has ended $host"
    kill $(cat /job/hosts/$host)
    rm /job/hosts/$host
  done
  sleep 0.1
done"""
SCALERS = """
apiVersion: kai.alibabacloud.com/v1alpha1
kind: ScaleOut
metadata:
  generateName: elastic-training-scaleout-
spec:
  selector:
    name: elastic-training
  timeout: 300
  toAdd:
    count: 2
---
apiVersion: kai.alibabacloud.com/v1alpha1
kind: ScaleIn
metadata:
  generateName: scalein-sample-
spec:
  selector:
    name: elastic-training
  toDelete:
    count: 1
---
apiVersion: kai.alibabacloud.com/v1alpha1
kind: ScaleIn
metadata:
  generateName: scalein-sample-
spec:
  selector:
    name: elastic-training
  toDelete:
    podNames:
    - elastic-training-worker-1
"""


def convert(text: str) -> str:
    done = CliRunner().invoke(main, ["convert", "-"], input=text)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def replace_servers(text: str) -> str:
    """Put the script in place of the server of TensorFlow, which is not installed."""
    documents = list(yaml.safe_load_all(text))
    for role in documents[-1]["spec"]["taskRoles"]:
        (container,) = role["task"]["pod"]["spec"]["containers"]
        if role["name"] == "ps":
            agent = container["command"][: container["command"].index("--") + 1]
            container["command"] = [*agent, "python3", "-c", TRAIN]
    return yaml.safe_dump_all(documents)


def run(tmp_path: Path, text: str) -> str:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    code, output = call(*list_local(tmp_path / "state"), "--logs", str(file))
    assert code == ExitCode.SUCCEEDED, output
    return output


def read_config(output: str) -> Any:
    (text,) = [line.split(" config ")[1] for line in output.splitlines() if " config " in line]
    return json.loads(text)


def check_tfjob(output: str) -> None:
    served = [line for line in output.splitlines() if "serves" in line]
    assert served == [f"[master/0] serves {name}" for name in ("worker/0", "ps/0", "ps/1")]
    config = read_config(output)
    assert (config["task"], config["environment"]) == ({"type": "master", "index": 0}, "cloud")
    ports = [address.rpartition(":")[2] for each in config["cluster"].values() for address in each]
    assert ports == ["2222", "2223", "2224", "2224"]


def test_tfjob_of_the_first_dialect_runs_converted(tmp_path: Path) -> None:
    check_tfjob(run(tmp_path, replace_servers(convert(TFJOB))))


def build_second_dialect() -> str:
    """Build the TfJob in camelCase; its parameter servers have a template, which is a script."""
    text = f"{TFJOB}      template: *template\n"
    for old, new in CAMEL.items():
        text = text.replace(old, new)
    return text


def test_tfjob_of_the_second_dialect_runs_as_it_is(tmp_path: Path) -> None:
    check_tfjob(run(tmp_path, build_second_dialect()))


def test_tfjob_by_services_gets_their_names(tmp_path: Path) -> None:
    annotation = 'name: "example-job"\n  annotations: {frameworkbarrier.io/tf-config: services}'
    text = TFJOB.replace('name: "example-job"', annotation, 1).replace(json.dumps(TRAIN), PRINT)
    config = next(line for line in run(tmp_path, text).splitlines() if "[master/0] config" in line)
    cluster = json.loads(config.partition(" config ")[2])["cluster"]
    assert cluster["ps"] == ["ps-1234-0:2224", "ps-1234-1:2224"]


def test_tfjob_with_exit_code_210_is_started_again(tmp_path: Path) -> None:
    """The second attempt of the master ends with 0."""
    master = "import os, sys; n = os.environ['FC_TASK_ATTEMPT_ID']; print('try', n, flush=True)"
    text = build_tfjob_of(f"{master}; sys.exit(210 if n == '0' else 0)")
    lines = [line for line in run(tmp_path, text).splitlines() if "[master/0] try" in line]
    assert lines == ["[master/0] try 0", "[master/0] try 1"]


def test_tfjob_with_exit_code_1_fails(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(build_tfjob_of("print('only try', flush=True); raise SystemExit(1)"))
    code, output = call(*list_local(tmp_path / "state"), "--logs", str(file))
    assert code == ExitCode.FAILED, output
    assert output.count("[master/0] only try") == 1
    assert "ContainerExitCodePermanent" in output


def build_tfjob_of(master: str) -> str:
    """Build a TfJob whose master runs a program of Python, without other replicas."""
    job = next(iter(yaml.safe_load_all(TFJOB)))
    job["spec"]["replica_specs"] = job["spec"]["replica_specs"][:1]
    (container,) = job["spec"]["replica_specs"][0]["template"]["spec"]["containers"]
    container["args"] = [master]
    return yaml.safe_dump(job)


@pytest.mark.parametrize("tf_config", ["", "services"])
def test_tfjob_with_json_logs_writes_records_with_their_tags(
    tmp_path: Path, tf_config: str
) -> None:
    prefix = "frameworkbarrier.io"
    annotations = f"{{{prefix}/json-logs: 'true', {prefix}/tf-config: '{tf_config}'}}"
    name = f'name: "example-job"\n  annotations: {annotations}'
    text = TFJOB.replace('name: "example-job"', name, 1).replace(json.dumps(TRAIN), LOG)
    output = run(tmp_path, text).splitlines()
    assert "[master/0] loss 1" in output
    (record,) = [line for line in output if line.startswith("[master/0] {")]
    entry = json.loads(record.partition("] ")[2])
    assert (entry["message"], entry["job"]) == ("step 7", "example-job")
    assert (entry["replicaType"], entry["index"], entry["attempt"]) == ("MASTER", 0, 0)


@pytest.mark.parametrize("is_converted", [True, False], ids=["converted", "as-it-is"])
def test_trainingjob_finds_its_hosts(
    tmp_path: Path,
    is_converted: bool,  # noqa: FBT001  # a parameter of pytest
) -> None:
    output = run(tmp_path, convert(TRAININGJOB) if is_converted else TRAININGJOB)
    launcher = [line for line in output.splitlines() if line.startswith("[launcher/0]")]
    check_trainingjob([line.split("] ")[1] for line in launcher])


def check_trainingjob(lines: list[str]) -> None:
    discovered, hosts, deepspeed, files = lines[:2], lines[2:4], lines[4:6], lines[6:]
    assert discovered == hosts
    assert all(line.endswith(":2") for line in hosts)
    assert deepspeed == [line.replace(":", " slots=") for line in hosts]
    assert files == ["authorized_keys", "config", "id_rsa", "id_rsa.pub"]


@pytest.mark.parametrize("name", ["", "mine"], ids=["default", "annotation"])
def test_trainingjob_without_its_secret_gets_one_with_a_new_key(tmp_path: Path, name: str) -> None:
    job = next(iter(yaml.safe_load_all(TRAININGJOB)))
    job["spec"]["launcherAttachMode"] = "ssh"
    if name:
        job["metadata"]["annotations"] = {"arena.kubeflow.org/ssh-secret": name}
    lines = run(tmp_path, yaml.safe_dump(job)).splitlines()
    assert sum(f"secret/{name or JOB_NAME} created, with a new ssh key" in x for x in lines) == 1
    check_trainingjob([x.split("] ")[1] for x in lines if x.startswith("[launcher/0]")])


def test_trainingjob_with_names_has_those_of_its_workers_in_the_host_files(tmp_path: Path) -> None:
    annotated = "annotations: {frameworkbarrier.io/hosts: names}"
    text = TRAININGJOB.replace(
        "name: elastic-training", f"name: elastic-training\n  {annotated}", 1
    )
    output = run(tmp_path, text)
    hosts = [f"elastic-training-worker-{index}" for index in range(2)]
    horovod, deepspeed = [f"{host}:2" for host in hosts], [f"{host} slots=2" for host in hosts]
    written = [line for line in output.splitlines() if line.startswith("[launcher/0]")]
    lines = [line.split("] ")[1] for line in written]
    assert lines[:6] == [*horovod, *horovod, *deepspeed]


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    """A local cluster that runs until the end of the test."""
    directory = tmp_path / "state"
    with start("local", "up", "--directory", str(directory)) as program:
        read_until(program, "Ctrl-C stops it")
        yield directory / "kubeconfig"
        program.terminate()
        program.communicate()


async def apply_until(kube: KubeClient, resource: Resource, text: str, **status: str) -> Object:
    """Create the job of a file; return it when its status has these fields."""

    def check(_: str, body: Object) -> Object | None:
        found = body.get("status") or {}
        return body if all(found.get(key) == value for key, value in status.items()) else None

    await kube.create(resource, "default", next(iter(yaml.safe_load_all(text))))
    return await watch_until(kube, resource, "default", check)


def read_logs(kubeconfig: Path, name: str, *task: str) -> str:
    code, output = call("logs", name, *task, "--kubeconfig", str(kubeconfig))
    assert code == ExitCode.SUCCEEDED, output
    return output


async def test_jobs_applied_to_a_local_cluster_run_to_their_end(kubeconfig: Path) -> None:
    config = load_kube_config(None, str(kubeconfig), {})
    tfjob = build_second_dialect().replace("spec:", "spec:\n  tensorboard: {logDir: /logs}", 1)
    async with KubeClient(config, user_agent="test", clock=SystemClock()) as kube:
        await apply_until(kube, TFJOBS, tfjob, phase="Done", state="Succeeded")
        await apply_until(kube, TRAININGJOBS, TRAININGJOB, phase="Succeeded")
        boards = (await kube.list(DEPLOYMENTS, "default"))["items"]
        assert [board["metadata"]["name"] for board in boards] == ["tensorboard-1234"]
        check_tfjob(read_logs(kubeconfig, "example-job"))
        # One container is left, so its lines have no prefix.
        check_trainingjob(read_logs(kubeconfig, "elastic-training").splitlines())


def build_following_job() -> str:
    """Build a TrainingJob whose workers leave and whose launcher has a process for each host."""
    job = next(iter(yaml.safe_load_all(TRAININGJOB)))
    launcher = job["spec"]["etReplicaSpecs"]["launcher"]["template"]["spec"]
    launcher["containers"][0]["args"] = [FOLLOW]
    # Longer than any test: the Pod goes because of its process, not at its deadline.
    job["metadata"]["annotations"] = {LEAVE_NODES_ANNOTATION: "timeoutSeconds=86400"}
    return yaml.safe_dump(job)


def build_counting_job() -> str:
    """Build a TrainingJob whose launcher counts its hosts until it gets the request to end."""
    job = next(iter(yaml.safe_load_all(TRAININGJOB)))
    launcher = job["spec"]["etReplicaSpecs"]["launcher"]["template"]["spec"]
    launcher["containers"][0]["args"] = [COUNT]
    return yaml.safe_dump(job)


async def carry_out(kube: KubeClient, scaler: Object) -> Object:
    """Create a scaler; return its status at its end."""
    resource = {"ScaleIn": SCALE_INS, "ScaleOut": SCALE_OUTS}[scaler["kind"]]
    # A busy machine starts workers slowly.
    scaler["spec"]["timeout"] = SCALER_SECONDS
    name = (await kube.create(resource, "default", scaler))["metadata"]["name"]

    def find(_: str, body: Object) -> Object | None:
        status: Object = body.get("status") or {}
        has_ended = status.get("phase") in {"ScaleSucceeded", "ScaleFailed"}
        return status if has_ended and body["metadata"]["name"] == name else None

    return await watch_until(kube, resource, "default", find)


async def test_scalers_of_the_original_change_the_workers_of_a_job(kubeconfig: Path) -> None:
    config = load_kube_config(None, str(kubeconfig), {})
    async with KubeClient(config, user_agent="test", clock=SystemClock()) as kube:
        await apply_until(kube, TRAININGJOBS, build_counting_job(), phase="Running")
        for scaler in yaml.safe_load_all(SCALERS):
            status = await carry_out(kube, scaler)
            assert status["phase"] == "ScaleSucceeded", status
        end = ("exec", "--kubeconfig", str(kubeconfig), "elastic-training", "launcher/0")
        code, output = await asyncio.to_thread(call, *end, "--", "touch", "/job/end")
        assert code == ExitCode.SUCCEEDED, output

        def find(_: str, body: Object) -> Object | None:
            return body["status"] if body["status"].get("phase") == "Succeeded" else None

        job = await watch_until(kube, TRAININGJOBS, "default", find)
    assert job["targetWorkers"] == [f"elastic-training-worker-{index}" for index in (0, 2)]
    # The agent beside the launcher writes to the same log.
    lines = read_logs(kubeconfig, "elastic-training").splitlines()
    counts = [line for line in lines if line.startswith("hosts: ")]
    assert counts == [f"hosts: {count}" for count in (2, 4, 3, 2)]


async def test_worker_leaves_after_its_process_in_the_launcher_has_ended(kubeconfig: Path) -> None:
    """Its Pod is disrupted; with a right to watch nodes, a cordon does the same."""
    config = load_kube_config(None, str(kubeconfig), {})
    name = "elastic-training-worker-1"
    notice = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}

    def find_agent(_: str, pod: Object) -> Object | None:
        annotations = pod["metadata"].get("annotations") or {}
        return pod if ACKNOWLEDGED_GENERATION_ANNOTATION in annotations else None

    def find_change(uid: str, *, is_next: bool) -> Any:
        def find(_: str, pod: Object) -> Object | None:
            is_known = pod["metadata"]["uid"] == uid
            if pod["metadata"]["name"] != name or is_known is is_next:
                return None
            is_running = pod["status"].get("phase") == "Running"
            is_going = bool(pod["metadata"].get("deletionTimestamp"))
            return pod if (is_running if is_next else is_going) else None

        return find

    async with KubeClient(config, user_agent="test", clock=SystemClock()) as kube:
        await apply_until(kube, TRAININGJOBS, build_following_job(), phase="Running")
        pod = await kube.get(PODS, "default", name)
        uid, host = pod["metadata"]["uid"], pod["status"]["podIP"]
        launcher = JOB_NAME, "launcher/0"
        await wait_until_async(lambda: f"starts {host}" in read_logs(kubeconfig, *launcher))
        # A Pod that has acknowledged nothing is not waited for.
        await watch_until(kube, PODS, "default", find_agent)
        status = {"status": {"conditions": [notice]}}
        await kube.patch(PODS, "default", name, status, subresource="status")
        await watch_until(kube, PODS, "default", find_change(uid, is_next=False))
        # The log of the worker that is replaced cannot be read now.
        assert f"has ended {host}" in read_logs(kubeconfig, *launcher)
        await watch_until(kube, PODS, "default", find_change(uid, is_next=True))
        framework = await kube.get(FRAMEWORKS, "default", JOB_NAME)
    roles = framework["status"]["attemptStatus"]["taskRoleStatuses"]
    launcher, workers = (role["taskStatuses"] for role in roles)
    assert launcher[0]["retryPolicyStatus"]["totalRetriedCount"] == 0
    retries = [task["retryPolicyStatus"] for task in workers]
    assert [each["totalRetriedCount"] for each in retries] == [0, 1]
    assert [each["accountableRetriedCount"] for each in retries] == [0, 0]
