"""Commands that change a Framework, on a real API server, with the rights of docs/cli-change.md."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from framework.clock import SystemClock
from framework.kube.client import KubeClient, PatchContent
from framework.kube.errors import InvalidError, NotFoundError
from framework.kube.resources import FRAMEWORKS, PODS, Object, Resource
from tests.support.builders import build_role_wire, build_submission
from tests.support.fakes.kubelet import FakeKubelet, run_until_deleted
from tests.support.servers.commandline import Answer, call_framework
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkcrd import wait_ready
from tests.support.servers.frameworkserver import start_controller
from tests.support.servers.rights import AuditLog, Right, create_account_access

_RBAC = "rbac.authorization.k8s.io"
ROLES = Resource(_RBAC, "v1", "roles", "Role", namespaced=True)
BINDINGS = Resource(_RBAC, "v1", "rolebindings", "RoleBinding", namespaced=True)
ACCOUNT = "default"
GROUP = FRAMEWORKS.group
TITLE = f"framework.{GROUP}/gang"
# docs/cli-change.md, "Change Frameworks".
RIGHTS = {
    *(Right(GROUP, "frameworks", verb) for verb in ("get", "list", "watch", "patch", "delete")),
}


async def grant(kube: KubeClient, namespace: str) -> None:
    """Give the account of the test the rights of a user of these commands."""
    rules = [
        {"apiGroups": [right.group], "resources": [right.resource], "verbs": [right.verb]}
        for right in sorted(RIGHTS)
    ]
    await kube.create(ROLES, namespace, {"metadata": {"name": "steer"}, "rules": rules})
    binding = {
        "metadata": {"name": "steer"},
        "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": "steer"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}],
    }
    await kube.create(BINDINGS, namespace, binding)


class User:
    """A tenant with these rights."""

    def __init__(self, access: Access, namespace: str) -> None:
        self._access = access
        self._namespace = namespace

    async def call(self, *arguments: str, code: int = 0) -> Answer:
        words = (*arguments, "-n", self._namespace)
        answer = await call_framework(self._access.kubeconfig, *words)
        assert answer.code == code, answer
        return answer


@pytest.fixture
async def user(
    framework_crd: None, audited_plane: Access, kube: KubeClient, namespace: str, tmp_path: Path
) -> User:
    del framework_crd
    await grant(kube, namespace)
    access = create_account_access(audited_plane, tmp_path, namespace, ACCOUNT)
    # Roles are in force a moment after they are stored.
    wait_ready(access.open_http(), FRAMEWORKS.path(namespace))
    return User(access, namespace)


async def create(kube: KubeClient, namespace: str, name: str = "gang", **spec: object) -> Object:
    worker = build_role_wire("worker", 3)
    worker["task"] = {**worker["task"], "retryPolicy": {"maxRetryCount": 1}}
    body = build_submission(name, worker, build_role_wire("ps", 1), **spec)
    return await kube.create(FRAMEWORKS, namespace, body)


async def list_pods(kube: KubeClient, namespace: str) -> dict[str, str]:
    listed = await kube.list(PODS, namespace)
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in listed["items"]}


async def test_tenant_steers_a_gang_with_the_documented_rights(
    user: User, audited_plane: Access, kube: KubeClient, namespace: str, tmp_path: Path
) -> None:
    audit = AuditLog.open(audited_plane, namespace, ACCOUNT)
    await create(kube, namespace, executionType="Create")
    kubelet = FakeKubelet(kube, SystemClock(), namespace, choose_script=lambda _: run_until_deleted)
    with start_controller(audited_plane, tmp_path):
        async with kubelet:
            await user.call("start", "gang", "--dry-run", "server")
            assert (await user.call("start", "gang")).out == f"{TITLE} started\n"
            await user.call("scale", "gang", "worker=4", "--wait")
            await user.call("remove", "gang", "worker/1", "--wait")
            before = await list_pods(kube, namespace)
            assert sorted(before) == ["gang-ps-0", *(f"gang-worker-{i}" for i in (0, 2, 3))]
            await user.call("retry", "gang", "worker/0", "--wait")
            after = await list_pods(kube, namespace)
            assert {pod for pod in before if before[pod] != after[pod]} == {"gang-worker-0"}
            await user.call("scale", "gang", "worker=0", "--wait")
            assert sorted(await list_pods(kube, namespace)) == ["gang-ps-0"]
            await user.call("wait", "gang", "--for=condition=Running")
            await user.call("stop", "gang", "--wait")
            assert await list_pods(kube, namespace) == {}
            await user.call("wait", "gang", code=1)
            await user.call("delete", "--all")
    with pytest.raises(NotFoundError):
        await kube.get(FRAMEWORKS, namespace, "gang")
    assert audit.read_refused() == set()
    assert audit.read_used() == RIGHTS


async def test_patch_whose_test_fails_is_answered_as_the_commands_expect(
    user: User, kube: KubeClient, namespace: str
) -> None:
    """The commands read again after 422, and report it if it repeats with the same patch."""
    del user
    await create(kube, namespace)
    patch = [
        {"op": "test", "path": "/metadata/uid", "value": "another"},
        {"op": "add", "path": "/spec/executionType", "value": "Stop"},
    ]
    with pytest.raises(InvalidError):
        await kube.patch(FRAMEWORKS, namespace, "gang", patch, content=PatchContent.JSON)


async def test_patch_that_tests_an_absent_field_for_null_is_taken(
    user: User, kube: KubeClient, namespace: str
) -> None:
    """The commands test so that no other client has set the field meanwhile."""
    del user
    await create(kube, namespace)
    pointer = "/spec/taskRoles/0/absentTaskIndices"
    patch: list[Object] = [
        {"op": "test", "path": pointer, "value": None},
        {"op": "add", "path": pointer, "value": [1]},
    ]
    await kube.patch(FRAMEWORKS, namespace, "gang", patch, content=PatchContent.JSON)
    with pytest.raises(InvalidError):
        await kube.patch(FRAMEWORKS, namespace, "gang", patch, content=PatchContent.JSON)


async def test_commands_of_several_users_all_take_effect(
    user: User, kube: KubeClient, namespace: str
) -> None:
    await create(kube, namespace)
    calls = [("scale", "gang", f"{role}=7") for role in ("worker", "ps")]
    calls += [("remove", "gang", f"worker/{index}") for index in range(3)]
    await asyncio.gather(*(user.call(*call) for call in calls))
    worker, ps = (await kube.get(FRAMEWORKS, namespace, "gang"))["spec"]["taskRoles"]
    assert sorted(worker["absentTaskIndices"]) == [0, 1, 2]
    assert worker["taskNumber"] >= 7
    assert ps["taskNumber"] == 7


async def test_delete_that_a_finalizer_holds_names_it_at_the_timeout(
    user: User, kube: KubeClient, namespace: str
) -> None:
    await create(kube, namespace)
    held = {"metadata": {"finalizers": ["lab.example/quota"]}}
    await kube.patch(FRAMEWORKS, namespace, "gang", held)
    try:
        answer = await user.call("delete", "gang", "--cascade=background", "--timeout=10s", code=4)
        assert "lab.example/quota" in answer.err
        assert "the deletion goes on" in answer.err
    finally:
        released = {"metadata": {"finalizers": None}}
        with contextlib.suppress(NotFoundError):
            await kube.patch(FRAMEWORKS, namespace, "gang", released)
