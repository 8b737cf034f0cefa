"""A long roster that a new leader reads live while its watch is behind the last leader."""

import pytest

from controller.core.actions import ObjectKind
from framework.api import constants, pods
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS, Object
from tests.support.builders import FRAMEWORK, NAMESPACE
from tests.support.simulator.shell import Shell

pytestmark = pytest.mark.looptime

MERGE = "application/merge-patch+json"
CONFIGMAP = f"{FRAMEWORK}-attempt"


@pytest.fixture(autouse=True)
def every_roster_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pods, "UNPROVEN_ROSTER_CHARS", 10)


def patch_pods(shell: Shell, *statuses: Object) -> None:
    for index, status in enumerate(statuses):
        name, rt = f"{FRAMEWORK}-worker-{index}", shell.type(PODS)
        shell.storage.patch(rt, NAMESPACE, name, {"status": status}, MERGE, subresource="status")


async def release(shell: Shell) -> Object:
    """Give both Pods an address, and return the ConfigMap with its roster."""
    patch_pods(shell, *({"phase": "Running", "podIP": f"10.0.0.{n}"} for n in (1, 2)))
    shell.show()
    await shell.run(5)
    configmap = shell.get(CONFIGMAPS, CONFIGMAP)
    assert constants.ROSTER_KEY in configmap["binaryData"]
    return configmap


async def run_gang() -> Shell:
    shell = Shell()
    always = {"fancyRetryPolicy": False, "maxRetryCount": -2}
    shell.create_framework(number=2, retryPolicy=always)
    await shell.run(1)
    return shell


async def begin_next_attempt(shell: Shell) -> None:
    """Let the attempt fail, stand in for the garbage collector, and wait for the next attempt."""
    patch_pods(shell, {"phase": "Failed"}, {"phase": "Failed"})
    shell.show()
    await shell.run(10)
    for name in shell.names(PODS):
        shell.storage.delete(shell.type(PODS), NAMESPACE, name)
    collected = {"metadata": {"finalizers": None}}
    shell.storage.patch(shell.type(CONFIGMAPS), NAMESPACE, CONFIGMAP, collected, MERGE)
    for _ in range(3):
        shell.show()
        await shell.run(10)
    assert len(shell.names(PODS)) == 2


async def test_roster_is_read_of_an_attempt_that_no_watch_has_shown_yet() -> None:
    """The watch of the new leader shows the ConfigMap of the attempt before."""
    before = await run_gang()
    old = await release(before)
    await begin_next_attempt(before)
    new = await release(before)
    assert new["metadata"]["uid"] != old["metadata"]["uid"]

    shell = Shell(after=before)
    shell.store.apply(ObjectKind.CONFIGMAP, pods.trim_configmap(old))
    for name in shell.names(PODS):
        shell.store.apply(ObjectKind.POD, shell.get(PODS, name))
    shell.store.apply(ObjectKind.FRAMEWORK, shell.get(FRAMEWORKS, FRAMEWORK))
    await shell.run(5)
    # That it is shown now is no news.
    shell.store.apply(ObjectKind.CONFIGMAP, new)
    await shell.run(5)
    assert shell.entry.observed.published.roster is not None
