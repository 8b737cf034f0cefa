"""A long roster that a new leader reads live while its watch is behind the last leader."""

import pytest

from controller.core.actions import ObjectKind
from framework.api import constants, pods
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS, Object
from tests.support.builders import FRAMEWORK
from tests.support.simulator.shell import Shell

pytestmark = pytest.mark.looptime

CONFIGMAP = f"{FRAMEWORK}-attempt"


@pytest.fixture(autouse=True)
def every_roster_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pods, "UNPROVEN_ROSTER_CHARS", 10)


async def release(shell: Shell) -> Object:
    """Give both Pods an address, and return the ConfigMap with its roster."""
    for index, name in enumerate(shell.names(PODS)):
        shell.patch_pod(name, phase="Running", podIP=f"10.0.0.{index + 1}")
    await shell.run(5)
    configmap = shell.get(CONFIGMAPS, CONFIGMAP)
    assert constants.ROSTER_KEY in configmap["binaryData"]
    return configmap


async def begin_next_attempt(shell: Shell) -> None:
    """Let the attempt fail, stand in for the garbage collector, and wait for the next attempt."""
    for name in shell.names(PODS):
        shell.patch_pod(name, phase="Failed")
    await shell.run(10)
    for name in shell.names(PODS):
        shell.delete(PODS, name)
    shell.patch(CONFIGMAPS, CONFIGMAP, {"metadata": {"finalizers": None}})
    for _ in range(3):
        shell.show()
        await shell.run(10)
    assert len(shell.names(PODS)) == 2


async def test_roster_of_an_attempt_that_no_watch_has_shown_yet_is_read() -> None:
    """The watch of the new leader shows the ConfigMap of the attempt before."""
    before = Shell()
    always = {"fancyRetryPolicy": False, "maxRetryCount": -2}
    before.create_framework(number=2, retryPolicy=always)
    await before.run(1)
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
    # The watch shows the version that was read already.
    shell.store.apply(ObjectKind.CONFIGMAP, new)
    await shell.run(5)
    assert shell.known.published.roster is not None
