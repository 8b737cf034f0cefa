import pytest

from tests.localcluster.kubelet.nodes import Node, build_container, build_pod, find_container

pytestmark = pytest.mark.local

SHARED = {"volumes": [{"name": "shared", "emptyDir": {}}]}
MOUNTS = {"volumeMounts": [{"name": "shared", "mountPath": "/mnt/frameworkbarrier"}]}


async def test_pod_with_init_and_main_shares_a_volume_and_succeeds(either_node: Node):
    pod = await either_node.finish(
        build_pod(
            "p",
            build_container("cat /mnt/frameworkbarrier/greeting; exit 0", **MOUNTS),
            inits=(
                build_container("echo hello >/mnt/frameworkbarrier/greeting", "init", **MOUNTS),
            ),
            **SHARED,
        )
    )

    assert pod["status"]["phase"] == "Succeeded", pod["status"]
    assert find_container(pod, "init")["state"]["terminated"]["reason"] == "Completed"
    assert find_container(pod)["state"]["terminated"]["exitCode"] == 0
    assert await either_node.read_log("p") == "hello\n"
