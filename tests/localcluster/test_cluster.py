import asyncio
import math
import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.config.config_file import KIND_NAMES
from framework.api import constants
from framework.clock import SystemClock, SystemRandom, SystemUids
from framework.kinds.crd import build_crds
from framework.kube.client import KubeClient
from framework.kube.config import KubeConfig, load_kube_config
from framework.kube.errors import KubeError, UnauthorizedError
from framework.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, FRAMEWORKS, NAMESPACES, Object
from localcluster.cluster import (
    KINDS_ARGUMENTS,
    NAME,
    ClusterOptions,
    LocalCluster,
    LocalClusterError,
    PartFailedError,
)
from localcluster.kubelet.container.sandbox import Isolation
from localcluster.network.choice import NetworkChoice
from tests.support.servers.binaries import find_kubectl
from tests.support.waiting import HANG_SECONDS

pytestmark = pytest.mark.local


def build(directory: Path, **options: Any) -> LocalCluster:
    options = {"with_kubelet": False, "with_controller": False, **options}
    return LocalCluster(
        ClusterOptions(directory=directory, **options),
        clock=SystemClock(),
        uids=SystemUids(),
        random=SystemRandom(),
    )


def open_client(config: KubeConfig) -> KubeClient:
    return KubeClient(config, user_agent="test", clock=SystemClock())


async def run_forever(cluster: LocalCluster) -> None:
    async with cluster:
        await asyncio.Event().wait()


def list_names(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir())


async def test_cluster_serves_frameworks_to_the_owner_of_the_kubeconfig(tmp_path: Path) -> None:
    async with build(tmp_path) as cluster:
        assert stat.S_IMODE(cluster.kubeconfig_path.stat().st_mode) == 0o600
        config = load_kube_config(None, str(cluster.kubeconfig_path), {})
        assert config.namespace == "default"
        async with open_client(config) as client:
            crd = await client.get(CUSTOM_RESOURCE_DEFINITIONS, None, constants.FRAMEWORK_CRD_NAME)
            assert crd["spec"]["group"] == constants.GROUP
            assert (await client.list(FRAMEWORKS))["items"] == []
            names = [n["metadata"]["name"] for n in (await client.list(NAMESPACES))["items"]]
            assert "default" in names


@pytest.mark.parametrize("with_kinds", [True, False])
async def test_cluster_serves_other_kinds_if_it_runs_them(
    tmp_path: Path,
    with_kinds: bool,  # noqa: FBT001  # a parameter of pytest
) -> None:
    kinds = {definition["metadata"]["name"] for definition in build_crds().values()}
    wanted = {constants.FRAMEWORK_CRD_NAME, *(kinds if with_kinds else ())}
    async with (
        build(tmp_path, with_kinds=with_kinds) as cluster,
        open_client(cluster.kube_config) as client,
    ):
        found = (await client.list(CUSTOM_RESOURCE_DEFINITIONS))["items"]
    assert {definition["metadata"]["name"] for definition in found} == wanted


def test_cluster_runs_each_kind_that_the_controller_knows() -> None:
    assert ("--kinds", ",".join(KIND_NAMES)) == KINDS_ARGUMENTS


async def test_cluster_answers_kubectl_with_the_kubeconfig_it_writes(tmp_path: Path) -> None:
    kubectl = find_kubectl()
    if kubectl is None:
        pytest.skip("no kubectl: let make test-kube build it")
    async with build(tmp_path) as cluster:
        call = await asyncio.create_subprocess_exec(
            kubectl, "--kubeconfig", str(cluster.kubeconfig_path), "get", "namespaces,frameworks",
            env={**os.environ, "HOME": str(tmp_path)},
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        output, _ = await call.communicate()
    assert call.returncode == 0, output.decode()
    assert b"namespace/default" in output


def test_token_may_follow_an_option_of_a_command(tmp_path: Path) -> None:
    """`--token -x...` is an option without its value, for most programs."""
    tokens = [build(tmp_path).kube_config.token or "" for _ in range(50)]
    assert all(token.isalnum() for token in tokens)
    assert len(set(tokens)) == 50


async def test_cluster_without_the_token_refuses(tmp_path: Path) -> None:
    async with build(tmp_path) as cluster:
        config = load_kube_config(cluster.kube_config.server, None, {"HOME": str(tmp_path)})
        async with open_client(config) as client:
            with pytest.raises(UnauthorizedError):
                await client.list(FRAMEWORKS)


async def test_cluster_at_its_end_leaves_logs_and_files_of_others(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    (tmp_path / "papers").mkdir()
    async with build(tmp_path, with_kubelet=True) as cluster:
        (cluster.logs_path / "x.log").touch()
    assert list_names(tmp_path) == ["logs", "papers", "thesis.txt"]
    with pytest.raises(KubeError):
        async with open_client(cluster.kube_config) as client:
            await client.list(FRAMEWORKS)


async def test_cluster_with_a_port_in_use_names_flag_and_remedy(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(LocalClusterError, match=rf"--port: port {port} .*in use.*another port"):
            await build(tmp_path, port=port).__aenter__()
    assert not (tmp_path / "kubeconfig").exists()


async def test_cluster_that_cannot_write_its_directory_names_flag_and_path(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LocalClusterError, match=r"--directory: cannot write to .*Not a directory"):
        await build(tmp_path / "file").__aenter__()


NAMES = [{"name": "prod"}, {"name": NAME}]


@pytest.mark.parametrize(
    "foreign",
    [
        {"clusters": [{"name": "production"}]},
        {"clusters": NAMES, "users": NAMES, "contexts": NAMES},
    ],
    ids=["foreign", "merged"],
)
async def test_cluster_neither_overwrites_nor_removes_a_kubeconfig_with_other_clusters(
    tmp_path: Path, foreign: Object
) -> None:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(foreign))
    with pytest.raises(LocalClusterError, match=r"--kubeconfig: .* name another file"):
        async with build(tmp_path / "state", kubeconfig_path=path):
            pass
    assert path.read_text() == yaml.safe_dump(foreign)


async def test_cluster_ready_notes_the_limits_of_its_network(tmp_path: Path) -> None:
    for options, note in (
        ({"with_kubelet": True, "isolation": Isolation.PATHS}, "collide"),
        ({"with_kubelet": True, "network": NetworkChoice.LOOPBACK}, ""),
        ({}, ""),
    ):
        async with build(tmp_path, **options) as cluster:
            ready = await cluster.ready()
        assert note in ready if note else ready == ""


async def test_cluster_without_the_network_asked_for_fails_with_the_reason(tmp_path: Path) -> None:
    options = {"isolation": Isolation.PATHS, "network": NetworkChoice.NAMESPACE}
    with pytest.raises(PartFailedError, match=r"no network namespaces here"):
        await run_forever(build(tmp_path, with_kubelet=True, **options))


async def test_cluster_whose_kubelet_never_registers_can_be_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, never = asyncio.Event(), asyncio.Event()

    async def register(*_: object) -> None:
        reached.set()
        await never.wait()

    monkeypatch.setattr("localcluster.kubelet.kubelet.register_node", register)
    async with asyncio.timeout(HANG_SECONDS), build(tmp_path, with_kubelet=True):
        await reached.wait()
    assert list_names(tmp_path) == ["logs"]


async def test_cluster_whose_controller_cannot_start_fails_with_its_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("localcluster.cluster.CONTROLLER_ARGUMENTS", ("--no-such-option",))
    monkeypatch.setattr("localcluster.supervisor._MAX_QUICK_ENDS", 2)
    # On a busy machine a start may take long.
    monkeypatch.setattr("localcluster.supervisor._HEALTHY_SECONDS", math.inf)
    with pytest.raises(PartFailedError, match=r"(?s)the controller ended .*--no-such-option"):
        await run_forever(build(tmp_path, with_controller=True))


async def test_cluster_left_by_an_error_raises_that_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mine"):
        async with build(tmp_path, with_kubelet=True, with_controller=True):
            raise ValueError("mine")


async def test_cluster_in_a_directory_of_a_running_one_is_refused(tmp_path: Path) -> None:
    async with build(tmp_path) as first:
        with pytest.raises(LocalClusterError, match=r"runs already .* Ctrl-C"):
            async with build(tmp_path):
                pass
        assert first.kubeconfig_path.exists()
