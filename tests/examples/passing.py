"""Creates Frameworks of users on a server, and compares their Pods with their templates.

No kubelet runs the Pods.
"""

import asyncio
import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from framework.api import constants
from framework.kube.client import KubeClient
from framework.kube.errors import AlreadyExistsError
from framework.kube.resources import FRAMEWORKS, PODS, SERVICE_ACCOUNTS, Object
from tests.examples.commandline import EXAMPLES
from tests.examples.templates import check_pod, walk_templates
from tests.skips import NO_RECORDINGS
from tests.support.servers.frameworkcrd import ROOT
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.servers.watching import watch_until

ORIGINAL_ENV = "FRAMEWORKBARRIER_ORIGINAL_EXAMPLES"
BESIDE = ROOT.parent / "shared" / "upstream-examples" / "frameworkcontroller"
HOLD = "example.com/hold"
MODERN = Path(__file__).parent / "modern.yaml"


def find_original(env: Mapping[str, str]) -> Path | None:
    """Find a folder with the original's examples: one or more documents a file."""
    folder = Path(env.get(ORIGINAL_ENV, BESIDE))
    return folder if list(folder.glob("*.yaml")) else None


def read_frameworks(folder: Path) -> list[Object]:
    """Read every Framework of a folder."""
    return [
        document
        for path in sorted(folder.glob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
        if document and document.get("kind") == constants.FRAMEWORK_KIND
    ]


def read_all() -> list[Object]:
    """Read our examples and modern.yaml."""
    return [*read_frameworks(EXAMPLES), yaml.safe_load(MODERN.read_text())]


def apply_strictly(http: JsonHttp, namespace: str, framework: Object) -> None:
    """Create as ``kubectl apply`` does: a field that the server does not know is an error."""
    path = f"/apis/{constants.API_VERSION}/namespaces/{namespace}/frameworks"
    status, answer = http.request("POST", f"{path}?fieldValidation=Strict", framework)
    assert status == 201, answer
    templates = [template for _, _, template in walk_templates(framework)]
    assert [template for _, _, template in walk_templates(answer)] == templates


async def check_all(
    kube: KubeClient, http: JsonHttp, namespace: str, frameworks: list[Object]
) -> None:
    """Apply Frameworks; each must get exactly its Pods, made of its templates."""
    await create_accounts(kube, namespace, frameworks)
    await asyncio.gather(
        *(asyncio.to_thread(apply_strictly, http, namespace, body) for body in frameworks)
    )
    wanted = {
        f"{framework['metadata']['name']}-{role}-{index}": template
        for framework in frameworks
        for role, count, template in walk_templates(framework)
        for index in range(count)
    }
    pods = await wait_for_pods(kube, namespace, set(wanted))
    for name, template in wanted.items():
        check_pod(template, pods[name])
    stored = await kube.list(FRAMEWORKS, namespace)
    for framework in stored["items"]:
        assert framework["status"]["attemptStatus"]["completionStatus"] is None
    await remove_all(kube, namespace)


async def remove_all(kube: KubeClient, namespace: str) -> None:
    """Delete the Frameworks, and the finalizers of their Pods."""
    for framework in (await kube.list(FRAMEWORKS, namespace))["items"]:
        name = framework["metadata"]["name"]
        await kube.delete(FRAMEWORKS, namespace, name, propagation="Foreground")
    for pod in (await kube.list(PODS, namespace))["items"]:
        if HOLD in (pod["metadata"].get("finalizers") or ()):
            body = {"metadata": {"finalizers": None}}
            await kube.patch(PODS, namespace, pod["metadata"]["name"], body)


async def create_accounts(kube: KubeClient, namespace: str, frameworks: list[Object]) -> None:
    """Create the service accounts that templates name: a Pod is refused without."""
    names = {
        template["spec"].get("serviceAccountName")
        for framework in frameworks
        for _, _, template in walk_templates(framework)
    }
    for name in filter(None, names):
        with contextlib.suppress(AlreadyExistsError):
            await kube.create(SERVICE_ACCOUNTS, namespace, {"metadata": {"name": name}})


async def wait_for_pods(kube: KubeClient, namespace: str, names: set[str]) -> dict[str, Object]:
    """Watch until all these Pods exist."""
    found: dict[str, Object] = {}

    def find_all(event: str, body: Object) -> dict[str, Object] | None:
        if event in {"ADDED", "MODIFIED"}:
            found.setdefault(body["metadata"]["name"], body)
        return found if names <= set(found) else None

    return await watch_until(kube, PODS, namespace, find_all)


async def check_originals(kube: KubeClient, http: JsonHttp, namespace: str) -> None:
    """Check the examples of the original; skip the test without them."""
    folder = find_original(os.environ)
    if folder is None:
        pytest.skip(f"{NO_RECORDINGS}set {ORIGINAL_ENV} to the folder of its examples")
    await check_all(kube, http, namespace, read_frameworks(folder))
