"""Eight ranks of PyTorch DDP (gloo) under torchrun on a real node; one of them is killed.

examples/stacks/recovery-ddp.yaml, with the checkpoints in a volume that outlives the Pods. The
first death restarts all ranks in their Pods. It uses up the budget: the second one ends a Pod. With
ARGS='-m node -k recovery_torch -s', the test also runs with one Pod and as a plain restart, which
torchrun makes alone, and prints the figures of all.
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.consumers.stacks import require_python
from tests.node.cluster import Cluster
from tests.node.examples import EXAMPLES, inject_example, run_example
from tests.node.gangs import list_pods
from tests.support.ddpexample import (
    RANK_ARGUMENTS,
    RANKS,
    TORCHRUN,
    Death,
    Note,
    add_notes,
    change_gang,
    make_plain,
    measure,
    mount_checkpoints,
    read_notes,
    replace_all,
)
from tests.support.machine.nodeimages import TRAINING_IMAGE, find_mismatch, find_packages
from tests.support.machine.processends import ProcessEnds
from tests.support.machine.realnode import FOLDER_ENV, IMAGES_ENV
from tests.support.slow import keep_first

pytestmark = pytest.mark.node

DEATHS = (Death(4, 1, 0), Death(8, 1, 1))
STACK, CHECKPOINTS = "stack", "checkpoints"


def build_volume(namespace: str, name: str, folder: Path, mode: str) -> list[dict[str, Any]]:
    """A volume of the node for one claim: under ``restricted``, Pods name no folders of nodes."""
    volume, size = f"{namespace}-{name}", {"storage": "1Gi"}
    common = {"accessModes": [mode], "storageClassName": ""}
    source = {"capacity": size, "hostPath": {"path": str(folder)}}
    claim = {"volumeName": volume, "resources": {"requests": size}}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume},
            "spec": common | source,
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": namespace},
            "spec": common | claim,
        },
    ]


@pytest.fixture
def checkpoints(cluster: Cluster, namespace: str) -> Iterator[Path]:
    """Claims of PyTorch and of the checkpoints; give the folder of the latter."""
    packages = find_packages(require_python("torch"))
    fault = find_mismatch(packages, Path(json.loads(os.environ[IMAGES_ENV])[TRAINING_IMAGE]))
    if fault:
        pytest.skip(f"torch: {fault}")
    folder = Path(os.environ[FOLDER_ENV]) / f"{CHECKPOINTS}-{namespace}"
    folder.mkdir()
    folder.chmod(0o777)  # for the user of the Pods
    documents = build_volume(namespace, STACK, packages, "ReadOnlyMany")
    documents += build_volume(namespace, CHECKPOINTS, folder, "ReadWriteMany")
    cluster.kubectl("apply", "-f", "-", text=yaml.safe_dump_all(documents))
    yield folder
    names = [f"{namespace}-{name}" for name in (STACK, CHECKPOINTS)]
    cluster.kubectl("delete", "persistentvolume", *names, "--wait=false")


def mount_stack(text: str) -> str:
    """Mount PyTorch, and keep the Pods that have ended."""
    text = mount_checkpoints(text, f"persistentVolumeClaim: {{claimName: {CHECKPOINTS}}}")
    mount = "            - {name: app, mountPath: /app}\n"
    stack = f"            - {{name: {STACK}, mountPath: /opt/stack, readOnly: true}}\n"
    volumes = "          volumes:\n"
    claim = f"            persistentVolumeClaim: {{claimName: {STACK}, readOnly: true}}\n"
    env = "            env:\n"
    return replace_all(
        text,
        ("executionType: Start", "executionType: Start\n  completedPodPolicy: Retain"),
        (env, f"{env}            - {{name: PYTHONPATH, value: /opt/stack}}\n"),
        (mount, mount + stack),
        (volumes, f"{volumes}          - name: {STACK}\n{claim}"),
    )


def run(
    cluster: Cluster, namespace: str, folder: Path, change: Callable[[str], str], *options: str
) -> ProcessEnds:
    """Run the changed example to its success, under ``restricted``; watch its ranks."""
    copy = folder / "recovery-ddp.yaml"
    copy.write_text(mount_stack(change((EXAMPLES / "stacks" / copy.name).read_text())))
    images = {"pytorch/pytorch:latest": "python:3.12-slim"}
    injected = inject_example(cluster, copy, *options, images=images)
    with ProcessEnds(*RANK_ARGUMENTS) as ends:
        done = run_example(cluster, namespace, injected)
    assert done.returncode == 0, done.stdout + done.stderr + cluster.describe(namespace)
    return ends


def find_begins(notes: list[Note], epoch: int) -> dict[int, int]:
    """Map each rank to the step at which it began in an epoch."""
    return {n.rank: n.step for n in notes if (n.epoch, n.event) == (epoch, "begin")}


def find_pods(notes: list[Note], epoch: int) -> set[str]:
    return {note.pod for note in notes if note.epoch == epoch}


@pytest.mark.parametrize("pods", keep_first([RANKS, 1], slow_count=0))
def test_killed_rank_of_torchrun_continues_with_all_from_the_checkpoint(
    cluster: Cluster, namespace: str, checkpoints: Path, tmp_path: Path, pods: int
) -> None:
    def change(text: str) -> str:
        return change_gang(add_notes(text, DEATHS), pods, TORCHRUN, restarts=1, retries=1)

    ends = run(cluster, namespace, tmp_path, change)

    notes = read_notes(checkpoints)
    assert sorted({note.epoch for note in notes}) == [0, 1, 2]
    assert find_begins(notes, 0) == dict.fromkeys(range(RANKS), 0)
    for death in DEATHS:
        assert find_begins(notes, death.epoch + 1) == dict.fromkeys(range(RANKS), death.step + 1)
    assert len(find_pods(notes, 0)) == pods
    assert find_pods(notes, 1) == find_pods(notes, 0), "in place"
    # Ranks that have failed because of the first one may be refused, too.
    assert len(find_pods(notes, 2)) == pods
    assert find_pods(notes, 2) != find_pods(notes, 0), "by another Pod"
    left = list_pods(cluster, namespace).values()
    counts = [s["restartCount"] for pod in left for s in pod["status"]["containerStatuses"]]
    assert counts == [0] * pods
    in_place, by_pod = measure(notes, ends, 0), measure(notes, ends, 1)
    print(f"{pods} Pods: in place {in_place}, by another Pod {by_pod}")


@pytest.mark.exhaustive
def test_plain_restart_of_torchrun_continues_from_the_checkpoint(
    cluster: Cluster, namespace: str, checkpoints: Path, tmp_path: Path
) -> None:
    """The figure to compare with: the same image and program, and torchrun restarts its workers."""

    def change(text: str) -> str:
        return make_plain(add_notes(text, DEATHS[:1]), restarts=1)

    ends = run(cluster, namespace, tmp_path, change, "--rendezvous", "none")

    notes = read_notes(checkpoints)
    assert find_begins(notes, 1) == dict.fromkeys(range(RANKS), DEATHS[0].step + 1)
    print(f"plain restart {measure(notes, ends, 0)}")
