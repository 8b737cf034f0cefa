"""TensorFlow's TFConfigClusterResolver, and the check of MultiWorkerMirroredStrategy."""

from pathlib import Path
from typing import Any

import pytest

from tests.consumers.stacks import COUNTS, FAMILIES, ask, list_addresses, write_volume
from tests.rendezvous.gangs import build_gang, build_role, build_roster

QUIET = {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
RESOLVE = """
import tensorflow as tf
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
spec = resolver.cluster_spec()
answer({
    "jobs": {j: {str(i): spec.task_address(j, i) for i in spec.task_indices(j)} for j in spec.jobs},
    "type": resolver.task_type, "id": resolver.task_id,
})
"""
MIRRORED = """
import json, os
from tensorflow.python.distribute import multi_worker_util as util
config = json.loads(os.environ["TF_CONFIG"])
task = config["task"]
util.normalize_cluster_spec(config["cluster"])
answer([
    util.worker_count(config["cluster"], task["type"]),
    util.id_in_cluster(config["cluster"], task["type"], task["index"]),
    util.is_chief(config["cluster"], task["type"], task["index"]),
])
"""


def resolve(tmp_path: Path, script: str, *args: Any, **flags: Any) -> Any:
    rendering = write_volume(tmp_path, *args, **flags)
    return ask("tensorflow", script, tmp_path, {**rendering.env, **QUIET})


def join(addresses: list[str]) -> dict[str, str]:
    return {str(i): f"[{a}]:2222" if ":" in a else f"{a}:2222" for i, a in enumerate(addresses)}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("count", COUNTS)
def test_tensorflow_reads_the_dense_cluster(count: int, family: str, tmp_path: Path) -> None:
    resolved = resolve(tmp_path, RESOLVE, build_gang(count, family), "worker", count - 1)
    assert resolved["jobs"] == {"worker": join(list_addresses(count, family))}
    assert (resolved["type"], resolved["id"]) == ("worker", count - 1)


def test_mirrored_strategy_accepts_a_dense_cluster_with_gaps(tmp_path: Path) -> None:
    roster = build_roster(build_role("chief", 1, first=90), build_role("worker", [0, 3]))
    assert resolve(tmp_path, MIRRORED, roster, "worker", 3) == [3, 2, False]


def test_tensorflow_reads_the_sparse_cluster_with_its_gaps(tmp_path: Path) -> None:
    roster = build_roster(build_role("worker", [0, 3]), build_role("ps", [0, 2], first=50))
    resolved = resolve(tmp_path, RESOLVE, roster, "worker", 3, tf_mode="sparse")
    assert resolved["jobs"] == {
        "worker": {"3": "10.0.0.5:2222"},
        "ps": {"0": "10.0.0.51:2222", "2": "10.0.0.53:2222"},
    }
    assert resolved["id"] == 3


def test_tensorflow_reads_the_evaluators_cluster(tmp_path: Path) -> None:
    roster = build_roster(build_role("chief", 1), build_role("evaluator", 1, first=50))
    resolved = resolve(tmp_path, RESOLVE, roster, "evaluator", 0)
    assert (resolved["type"], resolved["id"]) == ("evaluator", 0)
