"""A Pod's securityContext on the local cluster, as its processes see it."""

import os
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from framework.kube.resources import Object
from localcluster.kubelet.container.sandbox import Isolation
from localcluster.syscalls import has_mount_attributes
from tests.localcluster.kubelet.nodes import Node, build_container, build_pod, open_node

pytestmark = [
    pytest.mark.local,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a container another user"),
]

RESTRICTED = {
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
}
STATUS = "grep -E '^(Uid|Gid|Groups|CapEff|CapBnd|CapInh|NoNewPrivs)' /proc/self/status"


@pytest.fixture
async def node(tmp_path: Path) -> AsyncGenerator[Node]:
    """A kubelet of root with private roots, or none."""
    async with open_node(tmp_path, isolation=Isolation.ROOT) as node:
        yield node


async def run(node: Node, script: str, context: Object, **spec: Any) -> tuple[str, str]:
    """Run a script in a container with this context; return the Pod's phase and the log."""
    mounts = [{"name": volume["name"], "mountPath": "/data"} for volume in spec.get("volumes", ())]
    container = build_container(script, securityContext=context, volumeMounts=mounts)
    pod = build_pod("pod", container, **spec)
    ended = await node.finish(pod)
    return ended["status"]["phase"], await node.read_log(pod["metadata"]["name"])


def read_status(log: str) -> dict[str, str]:
    return dict(line.split(":", 1) for line in log.replace("\t", " ").splitlines() if ":" in line)


async def test_container_without_a_context_runs_as_before(node: Node) -> None:
    _, log = await run(node, STATUS, {})
    status = read_status(log)
    assert status["Uid"].split() == ["0"] * 4
    assert int(status["CapEff"], 16) != 0


async def test_restricted_container_has_user_group_and_no_rights(node: Node) -> None:
    context = {**RESTRICTED, "runAsUser": 1234, "runAsGroup": 2345}
    _, log = await run(node, STATUS, context, securityContext={"supplementalGroups": [77]})
    status = read_status(log)
    assert status["Uid"].split() == ["1234"] * 4
    assert status["Gid"].split() == ["2345"] * 4
    assert status["Groups"].split() == ["77"]
    assert [int(status[name], 16) for name in ("CapEff", "CapBnd", "CapInh")] == [0, 0, 0]
    assert status["NoNewPrivs"].strip() == "1"


@pytest.mark.parametrize("own", [{}, {"runAsUser": 0}])
async def test_groups_hold_for_root_too(node: Node, own: Object) -> None:
    pod_context = {"runAsGroup": 2345, "supplementalGroups": [77], "fsGroup": 99}
    _, log = await run(node, STATUS, own, securityContext=pod_context)
    status = read_status(log)
    assert status["Uid"].split() == ["0"] * 4
    assert status["Gid"].split() == ["2345"] * 4
    assert status["Groups"].split() == ["77", "99"]


async def test_root_that_drops_all_has_no_capabilities(node: Node) -> None:
    _, log = await run(node, STATUS, {"capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}})
    status = read_status(log)
    assert status["Uid"].split() == ["0"] * 4
    assert [int(status[name], 16) for name in ("CapEff", "CapBnd")] == [1, 1]


async def test_non_root_without_a_user_runs_without_rights_and_an_event_reports_it(
    node: Node,
) -> None:
    _, log = await run(node, STATUS, RESTRICTED)
    assert read_status(log)["Uid"].split() == ["65532"] * 4
    (event,) = await node.wait_for_events("SecurityContextIgnored")
    assert "spec.containers{main}.securityContext.runAsNonRoot" in event["message"]


async def test_non_root_that_is_root_is_refused_as_by_a_kubelet(node: Node) -> None:
    context = {"runAsNonRoot": True, "runAsUser": 0}
    pod = build_pod("pod", build_container("true", securityContext=context))
    await node.create(pod)

    def is_refused(pod: Object) -> bool:
        statuses = pod.get("status", {}).get("containerStatuses") or [{}]
        waiting = statuses[0].get("state", {}).get("waiting", {})
        return bool(waiting.get("reason") == "CreateContainerConfigError")

    refused = await node.wait_for(pod["metadata"]["name"], is_refused)
    waiting = refused["status"]["containerStatuses"][0]["state"]["waiting"]
    assert waiting["message"] == (
        "container's runAsUser breaks non-root policy: runAsNonRoot is true and runAsUser is 0; "
        "set runAsUser to another number, or runAsNonRoot to false"
    )


async def test_container_of_another_user_writes_volumes_messages_and_streams(node: Node) -> None:
    script = (
        "set -e; echo x > /data/file; stat -c '%u %g' /data/file; echo m > /dev/termination-log;"
        " echo again > /dev/stdout; cat /var/run/secrets/kubernetes.io/serviceaccount/namespace"
    )
    volumes = [{"name": "data", "emptyDir": {}}]
    context = {"runAsUser": 1234}
    pod_context = {"fsGroup": 99}
    phase, log = await run(node, script, context, volumes=volumes, securityContext=pod_context)
    assert (phase, log.split()) == ("Succeeded", ["1234", "99", "again", "default"])


async def test_container_of_another_user_runs_this_installations_python(node: Node) -> None:
    """The barrier must run; often Python is in the private home of root."""
    script = f"{sys.executable} -P -c 'import os; print(os.getuid(), os.environ[\"HOME\"])'"
    assert await run(node, script, {"runAsUser": 1234}) == ("Succeeded", "1234 /\n")


async def test_container_of_another_user_cannot_read_the_kubelets_files(
    node: Node, tmp_path: Path
) -> None:
    script = f"ls {tmp_path} || cat /etc/shadow || kill -0 {os.getpid()} || ls /root/.ssh"
    phase, _ = await run(node, script, {"runAsUser": 1234})
    assert phase == "Failed"


async def test_probe_runs_as_the_containers_user(node: Node) -> None:
    # The next probe may write while the container reads.
    write = "id -u > /data/new && mv /data/new /data/id"
    probe = {"exec": {"command": ["sh", "-c", write]}, "periodSeconds": 1}
    container = build_container(
        "until test -s /data/id; do sleep 0.05; done; cat /data/id",
        securityContext={"runAsUser": 1234, "readOnlyRootFilesystem": True},
        volumeMounts=[{"name": "data", "mountPath": "/data"}],
        readinessProbe=probe,
    )
    pod = build_pod("pod", container, volumes=[{"name": "data", "emptyDir": {}}])
    await node.finish(pod)
    assert await node.read_log(pod["metadata"]["name"]) == "1234\n"


@pytest.mark.skipif(not has_mount_attributes(), reason="needs Linux 5.12")
async def test_read_only_root_lets_only_volumes_and_shared_memory_be_written(
    node: Node, tmp_path: Path
) -> None:
    (tmp_path / "host").mkdir()
    script = (
        "for d in / /usr /etc /tmp /work-dir; do touch $d/x 2>/dev/null && echo wrote $d; done;"
        f"touch {tmp_path}/host/x 2>/dev/null && echo wrote host;"
        "set -e; touch /data/x /dev/shm/fb-x; rm /dev/shm/fb-x; echo > /dev/null; pwd"
    )
    container = build_container(
        script,
        securityContext={"readOnlyRootFilesystem": True},
        workingDir="/work-dir",
        volumeMounts=[{"name": "data", "mountPath": "/data"}],
    )
    pod = build_pod("pod", container, volumes=[{"name": "data", "emptyDir": {}}])
    ended = await node.finish(pod)
    log = await node.read_log(pod["metadata"]["name"])
    assert (ended["status"]["phase"], log) == ("Succeeded", "/work-dir\n")


async def test_fields_that_the_host_cannot_apply_are_reported(node: Node) -> None:
    await run(node, "true", {"seccompProfile": {"type": "RuntimeDefault"}})
    (event,) = await node.wait_for_events("SecurityContextIgnored")
    assert (
        "spec.containers{main}.securityContext.seccompProfile: the local cluster has"
        in event["message"]
    )


async def test_non_root_without_a_private_root_is_refused(tmp_path: Path) -> None:
    async with open_node(tmp_path, isolation=Isolation.PATHS) as node:
        context = {"runAsNonRoot": True}
        await node.create(build_pod("pod", build_container("true"), securityContext=context))
        events = await node.wait_for_events("Failed")
        assert "container has runAsNonRoot and image will run as root" in events[0]["message"]
        assert "run the local cluster as an ordinary user" in events[0]["message"]
