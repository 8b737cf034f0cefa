"""A TfJob as its users wrote it in 2017 trains with default parameter servers."""

import json
import os
import re
from pathlib import Path

import pytest
import yaml

from tests.consumers.examples import start_files

# In the style of TensorFlow 1: the master builds the graph and runs it on all members.
TRAIN = """
import json, os
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
config = json.loads(os.environ["TF_CONFIG"])
task = config["task"]
cluster = tf.train.ClusterSpec(config["cluster"])
server = tf.train.Server(cluster, job_name=task["type"], task_index=task["index"])
if task["type"] == "worker":
    print("serves", flush=True)
    server.join()
truth = np.array([2.0, -3.0], np.float32)
losses = []
with tf.device(tf.train.replica_device_setter(cluster=cluster)):
    weights = tf.get_variable("weights", 2, initializer=tf.zeros_initializer())
    bias = tf.get_variable("bias", [], initializer=tf.zeros_initializer())
for trainer in ("master", "worker"):
    with tf.device(f"/job:{trainer}/task:0"):
        x = tf.random_uniform((256, 2), -1.0, 1.0, seed=len(losses))
        error = tf.linalg.matvec(x, weights - truth) + bias - 0.5
        losses.append(tf.reduce_mean(error**2))
learn = tf.train.GradientDescentOptimizer(0.3).minimize(tf.add_n(losses))
print("variables on", weights.device, bias.device, flush=True)
with tf.train.MonitoredTrainingSession(master=server.target) as session:
    for _ in range(60):
        session.run(learn)
    found = [*session.run(weights), session.run(bias)]
print("found", *(f"{value:.2f}" for value in found), flush=True)
"""
IMAGE = "tensorflow/tensorflow:1.3.0"
QUIET = [{"name": name, "value": "2"} for name in ("TF_CPP_MIN_LOG_LEVEL", "OMP_NUM_THREADS")]


def build_tfjob() -> dict[str, object]:
    container = {"name": "tensorflow", "image": IMAGE, "env": QUIET}
    command = {"command": ["python3", "/app/train.py"]}
    mount = {"volumeMounts": [{"name": "app", "mountPath": "/app"}]}
    volume = {"name": "app", "configMap": {"name": "app"}}
    spec = {
        "containers": [{**container, **command, **mount}],
        "volumes": [volume],
        "restartPolicy": "OnFailure",
    }
    replicas: list[dict[str, object]] = [
        {"tf_replica_type": type_, "replicas": 1, "template": {"spec": spec}}
        for type_ in ("MASTER", "WORKER")
    ]
    replicas.append({"tf_replica_type": "PS", "replicas": 2})
    return {
        "apiVersion": "mlkube.io/v1beta1",
        "kind": "TfJob",
        "metadata": {"name": "regression"},
        "spec": {"runtimeid": "1234", "replica_specs": replicas},
    }


@pytest.mark.skipif(os.geteuid() != 0, reason="members with one port need addresses of their own")
def test_tensorflow_trains_with_default_parameter_servers(tmp_path: Path) -> None:
    app = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "app"}}
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump_all([{**app, "data": {"train.py": TRAIN}}, build_tfjob()]))
    with start_files([file], "tensorflow", tmp_path) as job:
        code = job.finish()
    assert code == 0, job.explain(f"exit code {code}")
    master = job.read_log("master/0", "tensorflow")
    assert re.search("^variables on /job:ps/task:0 /job:ps/task:1$", master, re.MULTILINE)
    assert re.search(r"^found 2\.00 -3\.00 0\.50$", master, re.MULTILINE), job.explain("no end")
    assert "serves" in job.read_log("worker/0", "tensorflow")
    for index in range(2):
        log = job.read_log(f"ps/{index}", "tensorflow")
        records = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
        assert f"ps/{index} serves" in [record["message"] for record in records], log
