"""The gang key on a real API server; the controller has its shipped rights only."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from framework.api import constants
from framework.api.naming import build_gang_key_name
from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.resources import FRAMEWORKS, PODS, SECRETS, Object
from tests.support.builders import FAIL_FAST, build_role_wire, build_submission, build_template_wire
from tests.support.fakes.kubelet import (
    FakeKubelet,
    FakePod,
    Script,
    run_for,
    run_until_deleted,
)
from tests.support.servers.controlplane import Access
from tests.support.servers.deployed import ACCOUNT, Deployed, apply_role
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.servers.policed import MERGE
from tests.support.servers.rights import Right, is_allowed
from tests.support.waiting import HANG_SECONDS, wait_until

pytestmark = pytest.mark.kube

NAME = "keyed"
REFERENCE = "{{FC_FRAMEWORK_NAME}}-gang-key"


def build_framework(retries: int = 0) -> Object:
    volume = {"name": "key", "secret": {"secretName": REFERENCE}}
    role = build_role_wire(
        number=2,
        frameworkAttemptCompletionPolicy=FAIL_FAST,
        task={"pod": build_template_wire(volumes=[volume])},
    )
    return build_submission(NAME, role, retryPolicy={"maxRetryCount": retries})


@pytest.fixture
def deployed(
    framework_crd: None, audited_plane: Access, http: JsonHttp, namespace: str, tmp_path: Path
) -> Deployed:
    objects = apply_role(audited_plane, "namespaced", namespace, tmp_path)
    wait_until(lambda: may_create_secrets(http, namespace))
    return Deployed(audited_plane, objects, tmp_path)


def allow_secrets(http: JsonHttp, namespace: str, *verbs: str) -> None:
    """Give the controller's Role these verbs on Secrets, and no others."""
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles/framework-controller"
    rules = [r for r in http.request("GET", path)[1]["rules"] if r["resources"] != ["secrets"]]
    if verbs:
        rules.append({"apiGroups": [""], "resources": ["secrets"], "verbs": verbs})
    status, answer = http.request("PATCH", path, {"rules": rules}, content_type=MERGE)
    assert status == 200, answer
    wait_until(lambda: may_create_secrets(http, namespace) is ("create" in verbs))


def may_create_secrets(http: JsonHttp, namespace: str) -> bool:
    """Return whether the controller's account has the right now."""
    return is_allowed(http, namespace, ACCOUNT, Right("", "secrets", "create"))


async def wait_for_framework(kube: KubeClient, namespace: str, state: str) -> Object:
    """Wait until the Framework is in a state; return its status."""
    async with asyncio.timeout(HANG_SECONDS):
        while True:
            body = await kube.get(FRAMEWORKS, namespace, NAME)
            status: Object = body.get("status") or {}
            if state == status.get("state"):
                return status
            await asyncio.sleep(0.05)


async def wait_until_blocked(kube: KubeClient, namespace: str, reason: str) -> str:
    """Wait for the condition Blocked; assert that there is no Pod; return its message."""
    async with asyncio.timeout(HANG_SECONDS):
        while True:
            body = await kube.get(FRAMEWORKS, namespace, NAME)
            for condition in (body.get("status") or {}).get("conditions") or ():
                if (condition["type"], condition["status"]) == ("Blocked", "True"):
                    assert condition["reason"] == reason
                    assert (await kube.list(PODS, namespace))["items"] == []
                    return str(condition["message"])
            await asyncio.sleep(0.05)


async def wait_until_collected(kube: KubeClient, namespace: str) -> None:
    """Wait until the garbage collector has deleted the Secret."""
    async with asyncio.timeout(HANG_SECONDS):
        while (await kube.list(SECRETS, namespace))["items"]:  # noqa: ASYNC110 another process
            await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def run_all(
    deployed: Deployed, kube: KubeClient, namespace: str, script: Script = run_until_deleted
) -> AsyncIterator[None]:
    """Run the controller, and a fake kubelet."""
    child = deployed.launch()
    try:
        async with FakeKubelet(kube, SystemClock(), namespace, choose_script=lambda _: script):
            yield
    finally:
        assert child.terminate() == 0


async def test_each_attempt_has_a_key_of_its_own_that_is_deleted_with_it(
    deployed: Deployed, kube: KubeClient, namespace: str
) -> None:
    keys: dict[str, set[str]] = {}
    attempts: dict[str, set[str]] = {}
    # The Secrets of both attempts have one name: the first attempt ends when both Pods have read.
    both = {attempt: asyncio.Barrier(2) for attempt in ("0", "1")}

    async def script(pod: FakePod) -> None:
        """Read the key as the kubelet mounts it; the first attempt fails."""
        found = await kube.get(SECRETS, namespace, build_gang_key_name(NAME))
        annotations = pod.body["metadata"]["annotations"]
        attempt = annotations[constants.FRAMEWORK_ATTEMPT_ID]
        text = base64.b64decode(found["data"][constants.GANG_KEY]).decode()
        owner, _, key = text.rpartition(":")
        keys.setdefault(attempt, set()).add(key)
        attempts.setdefault(attempt, set()).add(owner)
        assert found["immutable"] is True
        assert owner == annotations[constants.FRAMEWORK_ATTEMPT_INSTANCE_UID]
        assert pod.body["spec"]["volumes"][0]["secret"]["secretName"] == found["metadata"]["name"]
        await both[attempt].wait()
        await pod.initialize()
        await pod.start()
        await pod.finish(1 if attempt == "0" else 0)

    async with run_all(deployed, kube, namespace, script):
        await kube.create(FRAMEWORKS, namespace, build_framework(retries=1))
        status = await wait_for_framework(kube, namespace, "Completed")
        await wait_until_collected(kube, namespace)
    assert status["attemptStatus"]["completionStatus"]["code"] == 0
    assert [len(found) for found in (keys["0"], keys["1"], keys["0"] | keys["1"])] == [1, 1, 2]
    assert attempts["0"] != attempts["1"]
    assert deployed.audit.read_refused() == set()


async def test_missing_right_is_reported_and_the_gang_starts_when_it_is_granted(
    deployed: Deployed, kube: KubeClient, http: JsonHttp, namespace: str
) -> None:
    allow_secrets(http, namespace)
    async with run_all(deployed, kube, namespace, run_for(0.0)):
        await kube.create(FRAMEWORKS, namespace, build_framework())
        message = await wait_until_blocked(kube, namespace, "CreationRefused")
        assert 'cannot create resource "secrets"' in message
        assert "let the controller create Secrets" in message
        allow_secrets(http, namespace, "create")
        await wait_for_framework(kube, namespace, "Completed")


async def test_secret_that_a_tenant_created_first_is_not_given_to_the_gang(
    deployed: Deployed, kube: KubeClient, namespace: str
) -> None:
    """Its author would know the key."""
    body = {"metadata": {"name": build_gang_key_name(NAME)}, "data": {constants.GANG_KEY: "YQ=="}}
    await kube.create(SECRETS, namespace, body)
    async with run_all(deployed, kube, namespace):
        await kube.create(FRAMEWORKS, namespace, build_framework())
        await wait_until_blocked(kube, namespace, "NameTaken")
