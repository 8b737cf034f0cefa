"""No controller, a lost node and missing rights, on a real API server: `framework why` helps.

The controller runs as deploy/ ships it. There is no controller of Deployments, and none that
deletes the Pods of a node that is gone: the tests do what these do.
"""

import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.errors import NotFoundError
from framework.kube.resources import FRAMEWORKS, LEASES, NODES, PODS, Object, Resource
from tests.kube.test_why import World, build_gang, follow, replace_kubeconfig, wait_until_succeeded
from tests.support.fakes.kubelet import NODE_NAME, FakeKubelet, Script, run_for, run_until_deleted
from tests.support.servers.controlplane import Access
from tests.support.servers.deployed import ACCOUNT, BASE, Deployed, apply_role
from tests.support.servers.frameworkcrd import ROOT
from tests.support.servers.frameworkserver import start_controller
from tests.support.servers.remedies import ExpectedAnswer, Shell, list_remedies
from tests.support.servers.rights import create_account_access

pytestmark = pytest.mark.usefixtures("framework_crd")

SYSTEM = "frameworkbarrier-system"
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
READ_FRAMEWORKS = "--verb=get --resource=frameworks"


@asynccontextmanager
async def open_world(
    access: Access, kube: KubeClient, namespace: str, folder: Path, *scripts: Script
) -> AsyncIterator[World]:
    """A namespace with a fake kubelet and no controller; the n-th Pod runs the n-th script."""
    assert access.kubectl is not None
    (folder / "deploy").symlink_to(ROOT / "deploy")
    waiting = list(scripts)

    def choose(_: Object) -> Script:
        return waiting.pop(0) if waiting else run_for(0.0)

    async with FakeKubelet(kube, SystemClock(), namespace, choose_script=choose):
        yield World(kube, namespace, Shell(folder, access.kubeconfig, access.kubectl))


async def carry_out(world: World, expected: ExpectedAnswer, **values: str) -> None:
    """Run the commands of the expected remedy, with the user's values."""
    _, commands = await world.shell.read_remedy("gang", expected, "-n", world.namespace)
    await world.shell.carry_out(commands, values)


async def run_all(shell: Shell, *commands: str) -> None:
    for command in commands:
        done = await shell.run(command)
        assert done.code == 0, f"{command}\n{done.output}"


@contextlib.contextmanager
def launch(access: Access, objects: list[Object], folder: Path) -> Iterator[None]:
    """Run the controller of a Deployment, with the rights of its service account only."""
    child = Deployed(access, objects, folder).launch()
    try:
        yield
    finally:
        child.terminate()


async def remove_lease(world: World) -> None:
    await run_all(world.shell, f"kubectl delete lease {ACCOUNT} -n {SYSTEM} --ignore-not-found")


BREAKS = {
    "scaled to zero": ("kubectl scale {} --replicas=0", "look for the controller, and start it"),
    "not installed": ("kubectl delete {}", "if there is none, install it"),
}


@pytest.mark.parametrize("name", BREAKS)
async def test_missing_controller_is_started_by_the_remedy(
    audited_plane: Access, kube: KubeClient, namespace: str, tmp_path: Path, name: str
) -> None:
    objects = apply_role(audited_plane, "cluster", namespace, tmp_path)
    async with open_world(audited_plane, kube, namespace, tmp_path) as world:
        await remove_lease(world)
        command, remedy = BREAKS[name]
        await run_all(world.shell, command.format(f"deployment/{ACCOUNT} -n {SYSTEM}"))
        await kube.create(FRAMEWORKS, namespace, build_gang())
        words = ("gang: no controller has seen it",)
        expected = ExpectedAnswer("NoController", words, remedy)
        await carry_out(world, expected, FOLDER="deploy/base")

        body = await kube.get(DEPLOYMENTS, SYSTEM, ACCOUNT)
        assert body["spec"]["replicas"] == 1
        with launch(audited_plane, objects, tmp_path):
            await wait_until_succeeded(world)
            assert await kube.get(LEASES, SYSTEM, ACCOUNT)
            await world.shell.ask_until("gang", None, "-n", namespace)
        await remove_lease(world)


async def test_node_that_is_gone_is_deleted_by_the_remedy(
    audited_plane: Access, kube: KubeClient, namespace: str, tmp_path: Path
) -> None:
    gang = build_gang(count=1)
    gang["spec"]["taskRoles"][0]["task"]["retryPolicy"] = {"maxRetryCount": 1}
    with start_controller(audited_plane, tmp_path, "--namespace", namespace):
        async with open_world(audited_plane, kube, namespace, tmp_path, run_until_deleted) as world:
            await kube.create(NODES, None, {"metadata": {"name": NODE_NAME}})
            try:
                await kube.create(FRAMEWORKS, namespace, gang)
                await wait_until_running(world)
                await lose_node(world)
                words = (
                    f"worker/0 is on the node {NODE_NAME}, which is not ready",
                    "Kubelet stopped posting node status.",
                )
                remedy = "if the machine is gone, delete the node"
                await carry_out(world, ExpectedAnswer("Node", words, remedy))
                await delete_pods_of_lost_node(world)
                await wait_until_succeeded(world)
                await world.shell.ask_until("gang", None, "-n", namespace)
            finally:
                # Other tests have Pods on a node of this name, which does not exist.
                await world.shell.run(f"kubectl delete node {NODE_NAME} --ignore-not-found")


async def wait_until_running(world: World) -> None:
    async with aclosing(follow(world, PODS)) as pods:
        async for pod in pods:
            if pod["status"].get("phase") == "Running":
                return


async def lose_node(world: World) -> None:
    """Write what the node controller writes of a node that does not answer."""
    condition = {
        "type": "Ready",
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"status": {"conditions": [condition]}}
    await world.kube.patch(NODES, None, NODE_NAME, status, subresource="status")
    unready = {"status": {"conditions": [{**condition, "status": "False"}]}}
    await world.kube.patch(PODS, world.namespace, "gang-worker-0", unready, subresource="status")


async def delete_pods_of_lost_node(world: World) -> None:
    """Be the garbage collector of Pods: delete by force those whose node is deleted."""
    with pytest.raises(NotFoundError):
        await world.kube.get(NODES, None, NODE_NAME)
    await world.kube.delete(PODS, world.namespace, "gang-worker-0", grace_seconds=0)


RIGHTS = {
    "ConfigMaps": ("/rules/4/verbs", "the controller lacks the right to create configmaps"),
    "Pods": ("/rules/5/verbs", "the controller lacks the right to create pods"),
    "finalizers": (
        "/rules/2/verbs",
        "the controller lacks the right to update the finalizers of Frameworks and ConfigMaps",
    ),
}


@pytest.mark.parametrize("right", RIGHTS)
async def test_right_that_the_controller_lacks_is_granted_by_the_remedy(
    audited_plane: Access, kube: KubeClient, namespace: str, tmp_path: Path, right: str
) -> None:
    path, words = RIGHTS[right]
    objects = apply_role(audited_plane, "cluster", namespace, tmp_path)
    async with open_world(audited_plane, kube, namespace, tmp_path) as world:
        await remove_lease(world)
        patch = f'[{{"op":"replace","path":"{path}","value":["get","list","watch","delete"]}}]'
        edit = f"kubectl patch clusterrole {ACCOUNT} --type=json -p '{patch}'"
        await run_all(world.shell, edit)
        try:
            with launch(audited_plane, objects, tmp_path):
                await kube.create(FRAMEWORKS, namespace, build_gang())
                remedy = "give the controller the rights"
                await carry_out(world, ExpectedAnswer("Refused", (words,), remedy))
                await wait_until_succeeded(world)
                await world.shell.ask_until("gang", None, "-n", namespace)
        finally:
            apply = "kubectl apply --server-side --force-conflicts -f"
            await run_all(world.shell, f"{apply} {BASE}/clusterrole.yaml")
        await remove_lease(world)


async def test_user_without_rights_gets_an_answer_that_names_them_and_how_to_get_them(
    audited_plane: Access, kube: KubeClient, namespace: str, tmp_path: Path
) -> None:
    """The user sees the cause only after an administrator has run the commands of the answer."""
    gang = build_gang(count=1, schedulingGates=[{"name": "example.com/quota"}])
    with start_controller(audited_plane, tmp_path, "--namespace", namespace):
        async with open_world(audited_plane, kube, namespace, tmp_path) as world:
            await run_all(
                world.shell,
                f"kubectl create serviceaccount tenant -n {namespace}",
                f"kubectl create role reader -n {namespace} {READ_FRAMEWORKS}",
                f"kubectl create rolebinding reader -n {namespace} --role=reader "
                f"--serviceaccount={namespace}:tenant",
            )
            tenant = create_account_access(audited_plane, tmp_path, namespace, "tenant")
            user = replace_kubeconfig(world.shell, tenant.kubeconfig, tmp_path / "tenant")
            await kube.create(FRAMEWORKS, namespace, gang)
            await world.shell.ask_until("gang", "Unschedulable", "-n", namespace)

            answer = await user.ask_until("gang", None, "-n", namespace)
            text = await user.read_answer("gang", "-n", namespace)
            assert answer["missingRights"] == ["get configmaps", "list events", "list pods"]
            assert "gang: nothing is wrong in what could be read" in text
            assert "missing rights: get configmaps, list events, list pods" in text

            ((_, grants),) = [r for r in list_remedies(text) if r[0].startswith("to see more")]
            name = f"system:serviceaccount:{namespace}:tenant"
            await world.shell.carry_out(grants, {"USER": name})
            seen = await user.ask_until("gang", "Unschedulable", "-n", namespace)
            assert "example.com/quota" in seen["summary"]
