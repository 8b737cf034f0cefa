"""Main containers are made ready while the last init container still holds the Pod."""

import asyncio
from pathlib import Path

import pytest

from framework.kube.resources import Object
from localcluster.kubelet import pod_worker
from localcluster.kubelet.container import ContainerRunner
from localcluster.kubelet.launch import can_start_ahead
from tests.localcluster.kubelet.nodes import (
    Node,
    build_container,
    build_pod,
    find_container,
    is_alive,
)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set when a main container has been started ahead."""
    event = asyncio.Event()
    start_ahead = ContainerRunner.start_ahead

    async def start_and_tell(runner: ContainerRunner) -> None:
        await start_ahead(runner)
        assert runner._ahead is not None
        event.set()

    monkeypatch.setattr(pod_worker, "_AHEAD_SECONDS", 0)
    monkeypatch.setattr(ContainerRunner, "start_ahead", start_and_tell)
    return event


def build_held_pod(flags: Path, script: str) -> Object:
    """Build a Pod whose init container waits for the file ``go``."""
    mounts = [{"name": "flags", "mountPath": "/mnt/flags"}]
    wait = "until test -e /mnt/flags/go; do sleep 0.01; done; mkdir /mnt/flags/made"
    return build_pod(
        "p",
        build_container(script, volumeMounts=mounts, workingDir="/mnt/flags/made"),
        inits=(build_container(wait, "init", volumeMounts=mounts),),
        volumes=[{"name": "flags", "hostPath": {"path": str(flags)}}],
    )


@pytest.mark.local
async def test_start_ahead_main_runs_only_after_its_init(
    either_node: Node, held: asyncio.Event, tmp_path: Path
) -> None:
    flags = tmp_path / "flags"
    flags.mkdir()
    await either_node.create(build_held_pod(flags, "test -e ../go && echo released; pwd"))
    await held.wait()
    waiting = either_node.history[-1][1]
    assert await either_node.read_log("p") == ""

    (flags / "go").touch()
    pod = await either_node.wait_for_phase("p", "Succeeded", "Failed")

    assert "waiting" in find_container(waiting)["state"]
    assert pod["status"]["phase"] == "Succeeded"
    assert find_container(pod)["restartCount"] == 0
    log = await either_node.read_log("p")
    assert log.startswith("released\n")
    assert log.endswith("flags/made\n")


@pytest.mark.local
async def test_start_ahead_pod_deleted_meanwhile_leaves_nothing(
    either_node: Node, held: asyncio.Event, tmp_path: Path
) -> None:
    flags = tmp_path / "flags"
    flags.mkdir()
    await either_node.create(build_held_pod(flags, "true"))
    await held.wait()

    await either_node.delete("p", grace_seconds=1)
    await either_node.wait_until_deleted("p")
    await asyncio.gather(*either_node.kubelet._tasks)

    assert [log.container for log in either_node.kubelet.logs.list_kept("default", {})] == ["init"]
    assert not is_alive("until test -e /mnt/flags/go; do sleep 0.01; done; mkdir /mnt/flags/made")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, True),
        ({"env": [{"name": "A", "value": "1"}]}, True),
        ({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}, True),
        ({"volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "made/by/init"}]}, False),
        ({"envFrom": [{"configMapRef": {"name": "written-by-init"}}]}, False),
    ],
)
def test_can_start_ahead_only_what_init_cannot_change(fields: Object, *, expected: bool) -> None:
    assert can_start_ahead({"name": "main", **fields}) is expected
