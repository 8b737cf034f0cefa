"""The gang key on a real API server, by the controller with the rights that it ships with."""

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
from tests.support.fakes.kubelet import FakeKubelet, FakePod, Script
from tests.support.machine.prerequisites import skip_test
from tests.support.servers.controlplane import Access
from tests.support.servers.deployed import Deployed, apply_role
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.waiting import HANG_SECONDS

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
    framework_crd: None, control_plane: Access, namespace: str, tmp_path: Path
) -> Deployed:
    if control_plane.kubectl is None or control_plane.audit_log is None:
        skip_test("needs kubectl and an audit log: let make test-kube start the control plane")
    objects = apply_role(control_plane, "namespaced", namespace, tmp_path)
    return Deployed(control_plane, objects, tmp_path)


def allow_secrets(http: JsonHttp, namespace: str, verbs: list[str]) -> None:
    """Give the controller's Role these verbs on Secrets."""
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles/framework-controller"
    rules = http.request("GET", path)[1]["rules"]
    others = [rule for rule in rules if rule["resources"] != ["secrets"]]
    added = [{"apiGroups": [""], "resources": ["secrets"], "verbs": verbs}] if verbs else []
    patch = {"rules": [*others, *added]}
    status, answer = http.request("PATCH", path, patch, content_type="application/merge-patch+json")
    assert status == 200, answer


async def wait_for_framework(kube: KubeClient, namespace: str, state: str) -> Object:
    """Wait until the Framework is in a state, or has a true condition of this type."""
    async with asyncio.timeout(HANG_SECONDS):
        while True:
            body = await kube.get(FRAMEWORKS, namespace, NAME)
            status = body.get("status") or {}
            true = {c["type"] for c in status.get("conditions") or () if c["status"] == "True"}
            if state in {status.get("state"), *true}:
                return status
            await asyncio.sleep(0.05)


async def wait_until_gone(kube: KubeClient, namespace: str) -> None:
    """Wait until the garbage collector has taken the Secret."""
    async with asyncio.timeout(HANG_SECONDS):
        while (await kube.list(SECRETS, namespace))["items"]:  # noqa: ASYNC110 another process
            await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def run_pods(kube: KubeClient, namespace: str, script: Script) -> AsyncIterator[None]:
    async with FakeKubelet(kube, SystemClock(), namespace, choose_script=lambda _: script):
        yield


async def test_each_attempt_has_a_key_of_its_own_that_goes_with_it(
    deployed: Deployed, kube: KubeClient, namespace: str
) -> None:
    keys: dict[str, set[str]] = {}
    attempts: dict[str, set[str]] = {}

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
        await pod.initialize()
        await pod.start()
        await pod.finish(1 if attempt == "0" else 0)

    child = deployed.launch()
    try:
        async with run_pods(kube, namespace, script):
            await kube.create(FRAMEWORKS, namespace, build_framework(retries=1))
            status = await wait_for_framework(kube, namespace, "Completed")
            await wait_until_gone(kube, namespace)
    finally:
        assert child.terminate() == 0
    assert status["attemptStatus"]["completionStatus"]["code"] == 0
    assert [len(found) for found in (keys["0"], keys["1"], keys["0"] | keys["1"])] == [1, 1, 2]
    assert attempts["0"] != attempts["1"]
    assert deployed.audit.read_refused() == set()


async def test_missing_right_is_told_and_when_it_is_granted_the_gang_starts(
    deployed: Deployed, kube: KubeClient, http: JsonHttp, namespace: str
) -> None:
    async def script(pod: FakePod) -> None:
        await pod.initialize()
        await pod.start()
        await pod.finish()

    allow_secrets(http, namespace, [])
    child = deployed.launch()
    try:
        async with run_pods(kube, namespace, script):
            await kube.create(FRAMEWORKS, namespace, build_framework())
            status = await wait_for_framework(kube, namespace, "Blocked")
            (blocked,) = (c for c in status["conditions"] if c["type"] == "Blocked")
            assert blocked["reason"] == "CreationRefused"
            assert 'cannot create resource "secrets"' in blocked["message"]
            assert "let the controller create Secrets" in blocked["message"]
            assert (await kube.list(PODS, namespace))["items"] == []
            allow_secrets(http, namespace, ["create"])
            await wait_for_framework(kube, namespace, "Completed")
    finally:
        assert child.terminate() == 0


async def test_secret_that_a_tenant_made_first_is_not_given_to_the_gang(
    deployed: Deployed, kube: KubeClient, namespace: str
) -> None:
    """Its author would know the key."""
    body = {"metadata": {"name": build_gang_key_name(NAME)}, "data": {constants.GANG_KEY: "YQ=="}}
    await kube.create(SECRETS, namespace, body)
    child = deployed.launch()
    try:
        await kube.create(FRAMEWORKS, namespace, build_framework())
        status = await wait_for_framework(kube, namespace, "Blocked")
        (blocked,) = (c for c in status["conditions"] if c["type"] == "Blocked")
        assert blocked["reason"] == "NameTaken"
        assert (await kube.list(PODS, namespace))["items"] == []
    finally:
        assert child.terminate() == 0
