"""``peers_tensorflow_server``: it serves the task of TF_CONFIG, with TensorFlow 1 and 2.

TensorFlow itself is not needed: a module of its name prints what is given to it.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers.frameworkcrd import ROOT
from tests.support.waiting import HANG_SECONDS

SERVER = """
from types import SimpleNamespace as S
class Server:
    def __init__(self, cluster, job_name, task_index):
        print(cluster, job_name, task_index)
    def join(self):
        print("joined")
"""
VERSIONS = {
    "1.3": "train = S(Server=Server, ClusterSpec=dict)",
    "1.13": "train = S(Server=Server, ClusterSpec=dict); distribute = S()",
    "2": "train = S(ClusterSpec=dict); distribute = S(Server=Server)",
}


@pytest.mark.parametrize("version", VERSIONS)
def test_server_serves_its_task_until_it_is_ended(tmp_path: Path, version: str) -> None:
    (tmp_path / "tensorflow.py").write_text(f"{SERVER}\n{VERSIONS[version]}\n")
    cluster = {"ps": ["a:1", "b:2"]}
    config = {"cluster": cluster, "task": {"type": "ps", "index": 1}, "environment": "cloud"}
    done = subprocess.run(
        [sys.executable, str(ROOT / "rendezvous" / "site" / "peers_tensorflow_server.py")],
        env={"PYTHONPATH": str(tmp_path), "TF_CONFIG": json.dumps(config), "FC_TASK_INDEX": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG_SECONDS,
    )
    given, serves, joined = done.stdout.splitlines()
    assert (given, joined) == (f"{cluster} ps 1", "joined")
    entry = json.loads(serves)
    assert (entry["message"], entry["level"], entry["index"]) == ("ps/1 serves", "INFO", 1)
