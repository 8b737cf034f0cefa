"""TensorFlow's TFConfigClusterResolver, and the check of MultiWorkerMirroredStrategy.

TensorFlow takes seconds to import: one process reads all that is rendered here.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from framework.api.roster import Roster
from tests.consumers.stacks import COUNTS, FAMILIES, ask, list_addresses, write_volume
from tests.rendezvous.gangs import build_gang, build_role, build_roster, get_address

QUIET = {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
READ = """
import json, os
import tensorflow as tf
from tensorflow.python.distribute import multi_worker_util as util

def resolve(text):
    os.environ["TF_CONFIG"] = text
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    spec = resolver.cluster_spec()
    addresses = {j: {str(i): spec.task_address(j, i) for i in spec.task_indices(j)}
                 for j in spec.jobs}
    return [addresses, resolver.task_type, resolver.task_id]

def mirror(text):
    config = json.loads(text)
    task, cluster = config["task"], util.normalize_cluster_spec(config["cluster"])
    return [util.worker_count(cluster, task["type"]),
            util.id_in_cluster(cluster, task["type"], task["index"]),
            util.is_chief(cluster, task["type"], task["index"])]

texts = json.load(open("texts.json"))
answer({name: [resolve(text), mirror(text) if name.startswith("dense") else None]
        for name, text in texts.items()})
"""
PS, WORKER = 2300, 2222


class Case(NamedTuple):
    """One TF_CONFIG: whose it is, and what TensorFlow must read in it."""

    roster: Roster
    role: str
    own: int
    flags: dict[str, str]
    jobs: dict[str, dict[str, str]]
    task: tuple[str, int]
    mirrored: list[Any] | None = None


def join(family: str, number: int, port: int) -> str:
    address = get_address(family, number)
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def build_dense(count: int, family: str) -> Case:
    addresses = list_addresses(count, family)
    joined = [f"[{a}]:2222" if ":" in a else f"{a}:2222" for a in addresses]
    return Case(
        build_gang(count, family), "worker", count - 1, {},
        {"worker": {str(i): text for i, text in enumerate(joined)}}, ("worker", count - 1),
        [count, count - 1, count == 1],
    )  # fmt: skip


def build_cluster(count: int, family: str, mode: str, role: str) -> Case:
    """Chief, parameter servers and workers, whose indexes have gaps in the sparse form."""
    indexes = list(range(count)) if mode == "dense" else list(range(0, 3 * count, 3))
    roster = build_roster(
        build_role("chief", 1, family=family, first=900),
        build_role("worker", indexes, family=family),
        build_role("ps", indexes, family=family, first=500),
    )
    jobs = {
        "chief": {"0": join(family, 900, WORKER)},
        "worker": {str(i): join(family, 1 + i, WORKER) for i in indexes},
        "ps": {str(i): join(family, 500 + i, PS) for i in indexes},
    }
    own = 0 if role == "chief" else indexes[-1]
    if mode == "sparse" and role == "worker":
        jobs["worker"] = {str(own): jobs["worker"][str(own)]}
    flags = {"tf_mode": mode, "ports": f"{WORKER},ps={PS}"}
    return Case(roster, role, own, flags, jobs, (role, own))


def build_cases() -> dict[str, Case]:
    cases = {}
    for family in FAMILIES:
        for count in COUNTS:
            cases[f"dense-{count}-{family}"] = build_dense(count, family)
            for role in ("chief", "worker", "ps"):
                for mode in ("sparse", "dense"):
                    name = f"ps-{mode}-{role}-{count}-{family}"
                    cases[name] = build_cluster(count, family, mode, role)
        roster = build_roster(
            build_role("chief", 1, family=family),
            build_role("worker", 2, family=family, first=7),
            build_role("evaluator", 1, family=family, first=50),
        )
        jobs = {
            "chief": {"0": join(family, 1, WORKER)},
            "worker": {str(i): join(family, 7 + i, WORKER) for i in (0, 1)},
        }
        cases[f"dense-chief-{family}"] = Case(
            roster, "chief", 0, {}, jobs, ("chief", 0), [3, 0, True]
        )
        own = {**jobs, "evaluator": {"0": join(family, 50, WORKER)}}
        cases[f"evaluator-{family}"] = Case(roster, "evaluator", 0, {}, own, ("evaluator", 0))
    gaps = build_roster(build_role("chief", 1, first=90), build_role("worker", [0, 3]))
    jobs = {
        "chief": {"0": join("ipv4", 90, WORKER)},
        "worker": {"0": join("ipv4", 1, WORKER), "1": join("ipv4", 4, WORKER)},
    }
    cases["dense-gaps"] = Case(gaps, "worker", 3, {}, jobs, ("worker", 1), [3, 2, False])
    return cases


CASES = build_cases()


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What TensorFlow reads in every case."""
    directory: Path = tmp_path_factory.mktemp("tensorflow")
    texts = {}
    for name, case in CASES.items():
        rendering = write_volume(directory, case.roster, case.role, case.own, **case.flags)
        texts[name] = rendering.env["TF_CONFIG"]
        assert (directory / "current" / "tf_config.json").read_text() == texts[name] + "\n"
    (directory / "texts.json").write_text(json.dumps(texts))
    answer: dict[str, Any] = ask("tensorflow", READ, directory, QUIET)
    return answer


@pytest.mark.parametrize("name", CASES)
def test_tensorflow_reads_every_address_and_the_own_task(name: str, read: dict[str, Any]) -> None:
    case = CASES[name]
    (jobs, task_type, task_id), mirrored = read[name]
    assert jobs == case.jobs
    assert (task_type, task_id) == case.task
    assert mirrored == case.mirrored


def test_two_members_on_one_address_and_port_are_refused(tmp_path: Path) -> None:
    """A server of TensorFlow takes its port on all addresses of the machine."""
    roster = build_roster(build_role("worker", 1), build_role("ps", 1))
    rendering = write_volume(tmp_path, roster)
    assert "FB_PORTS" in str(rendering.refusals["tf_config"])
    assert "TF_CONFIG" not in rendering.env
